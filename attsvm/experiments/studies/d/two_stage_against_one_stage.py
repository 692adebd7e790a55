"""D: what two stages gain over both matrices at once, for the same number of steps."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_least,
    at_most,
    noted,
)
from attsvm.experiments.studies.shared.stage_records import (
    away,
    drawn,
    inside,
    premises,
    second_look,
    solutions,
    step_size,
    targets,
    worst,
)
from attsvm.next_token.attention import attend
from attsvm.next_token.order import orders
from attsvm.next_token.sentences import Sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What one stage descends on, and whether the collocations' loss is added.
LOSSES = {"L": False, "L₀ + L": True}


def run(config: Config) -> Result:
    """Both stages, and one stage of as many steps as both together, by every step size tried for
    attention; all from zero."""
    data = [drawn(config, seed) for seed in config["seeds"]]
    out = solutions(data)
    first, second = config["steps"]
    for b, one in enumerate(data):
        head = train(one, model="decoder", lr=step_size(config, 0), steps=first)
        out |= {f"two.{b}.W_ov": head.weights["W_ov"][:, 0], "first.steps": head.steps}
        for k, lr in enumerate(_tried(config)):
            path = train(one, model="next-token", head=head, lr=lr, steps=second)
            out |= {f"two.{k}.{b}.W_kq": path.weights["W_kq"][:, 0], "second.steps": path.steps}
            for loss, added in LOSSES.items():
                path = train(
                    one, model="joint-next-token", collocations=added, lr=lr, steps=first + second
                )
                out["one.steps"] = path.steps
                for name, block in path.weights.items():
                    out[f"{loss}.{k}.{b}.{name}"] = block[:, 0]
    return out


def _tried(config: Config) -> list[float]:
    """The step sizes of attention, and of both matrices at once."""
    return [float(rate / np.sqrt(config["vocabulary"])) for rate in config["tried"]]


def unseen(data: Sentences) -> Ints:
    """Every set of three different tokens with one of them the query, last, but for those that
    make up a sentence of the data (M, 3)."""
    N = data.vocabulary
    tokens, _ = data.distinct
    known = {
        (frozenset(row[row >= 0].tolist()), int(q))
        for row, q in zip(tokens, data.queries, strict=True)
    }
    rows = [
        (a, b, q)
        for q in range(N)
        for a, b in combinations(sorted({*range(N)} - {q}), 2)
        if (frozenset((a, b, q)), q) not in known
    ]
    return np.array(rows)


def agreement(data: Sentences, best: Floats, W_ov: Floats, W_kq: Floats) -> tuple[float, int]:
    """(the share of unseen sentences on which the model says the follower of the token that W_kq⋆
    puts first, their number): of those in which it is first by 0.25 or more."""
    words = unseen(data)
    u = np.sort(best[words, words[:, 2:]], axis=1)
    clear = u[:, 2] - u[:, 1] >= 0.25
    words = words[clear]
    top = words[np.arange(len(words)), best[words, words[:, 2:]].argmax(axis=1)]
    logs, _ = attend(W_kq[words, words[:, 2:]])
    z = np.einsum("mt,mtv->mv", np.exp(logs), W_ov.T[words])
    return float((z.argmax(axis=1) == data.follows[top]).mean()), len(words)


def ends(config: Config, result: Result) -> tuple[dict[str, dict[str, Floats]], float, list[int]]:
    """(the numbers at the end of each way of training, its sets along the axis; largest gap; the
    sets that meet the premises).

    W_kq, W_ov: 1 − cos; loss: L; unseen: the agreement, sentences: on how many; rate: the step size
    times √N, of those tried the one that ends nearest to W_kq⋆.
    """
    data = [drawn(config, seed) for seed in config["seeds"]]
    first, second = targets(data, result)
    judged = [b for b, one in enumerate(data) if inside(one, orders(one))]
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ("two stages", *LOSSES)}
    for b in judged:
        one, begin = data[b], result[f"two.{b}.W_ov"]
        tried: dict[str, list[dict[str, float]]] = {way: [] for way in found}
        for k in range(len(config["tried"])):
            W_kq = result[f"two.{k}.{b}.W_kq"]
            runs = {"two stages": (begin[-1], W_kq[-1])}
            for loss in LOSSES:
                W_ov, W = (result[f"{loss}.{k}.{b}.{name}"][-1] for name in ("W_ov", "W_kq"))
                runs[loss] = (W_ov, W)
            for way, (W_ov, W) in runs.items():
                share, count = agreement(one, second[b].W, W_ov, W)
                tried[way].append(
                    {
                        "W_kq": float(away(W[None], second[b])[0]),
                        "W_ov": float(away(W_ov[None], first[b])[0]),
                        "loss": float(second_look(one, W_ov)({"W_kq": W[None]}).loss[0]),
                        "unseen": share,
                        "sentences": count,
                        "rate": config["tried"][k],
                    }
                )
        for way, ended in tried.items():
            found[way].append(min(ended, key=lambda run: run["W_kq"]))
    gap = worst([*first, *second])
    table = {
        way: {key: np.array([run[key] for run in runs]) for key in runs[0]} if runs else {}
        for way, runs in found.items()
    }
    return table, gap, judged


def check(config: Config, result: Result) -> Finding:
    """Two stages end nearer to both solutions in every set, and agree at least as often."""
    table, gap, judged = ends(config, result)
    if not judged:
        return Finding((), premises(0, len(config["seeds"])), 0, gap, "nothing to judge")
    two = table["two stages"]
    tests: list[Test] = []
    for loss in LOSSES:
        one = table[loss]
        for name in ("W_kq", "W_ov"):
            tests.append(
                at_most(
                    f"one stage on {loss}: largest 1 − cos of {name} in two stages over that "
                    "in one",
                    float((two[name] / one[name]).max()),
                    1.0,
                )
            )
        tests.append(
            at_least(
                f"one stage on {loss}: least lead of two stages on unseen sentences",
                float((two["unseen"] - one["unseen"]).min()),
                0.0,
            )
        )
    for way, run in table.items():
        tests += [
            noted(f"{way}: median cos to W_kq⋆", 1 - float(np.median(run["W_kq"]))),
            noted(f"{way}: median cos to W_ov⋆", 1 - float(np.median(run["W_ov"]))),
            noted(f"{way}: median L", float(np.median(run["loss"]))),
            noted(f"{way}: median step size times √N", float(np.median(run["rate"]))),
            noted(f"{way}: mean agreement on unseen sentences", float(run["unseen"].mean())),
        ]
    tests.append(at_most("largest certified gap", gap, 1e-8))
    said = f"{int(two['sentences'].sum())} unseen sentences of three tokens with a gap of 0.25"
    return Finding(
        tuple(tests),
        f"{premises(len(judged), len(config['seeds']))}; {said}",
        len(judged),
        gap,
        _reason(config, table),
    )


def _reason(config: Config, table: dict[str, dict[str, Floats]]) -> str:
    """In how many sets one stage ends nearer, and why it can."""
    nearer = {
        (loss, name): int((table[loss][name] < table["two stages"][name]).sum())
        for loss in LOSSES
        for name in ("W_kq", "W_ov")
    }
    if not any(nearer.values()):
        return ""
    first, second = config["steps"]
    said = ", ".join(f"{n} on {loss} to {name}⋆" for (loss, name), n in nearer.items())
    return (
        f"one stage ends nearer in so many sets: {said}. Each of its {first + second} steps moves "
        f"both matrices, where two stages move W_ov {first} and W_kq {second} times; on L alone "
        "W_ov does not learn the collocations that no sentence turns on"
    )


def plot(config: Config, result: Result) -> Figure:
    """The end of every run by set: direction of both matrices, loss, agreement."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    table, _, judged = ends(config, result)
    figure, axes = panels(4, figsize=(12, 4.6))
    said = {
        "W_kq": ("Direction of W_kq", "1 − correlation with W_kq⋆"),
        "W_ov": ("Direction of W_ov", "1 − correlation with W_ov⋆"),
        "loss": ("Loss", "L"),
        "unseen": ("Unseen sentences", "as predicted"),
    }
    seeds = [str(config["seeds"][b]) for b in judged]
    for ax, (key, (title, text)) in zip(axes, said.items(), strict=True):
        for k, (way, run) in enumerate(table.items()):
            name = way if way == "two stages" else f"one stage on {way}"
            place = np.arange(len(seeds)) + 0.18 * (k - 1)
            ax.plot(place, run[key], "os^"[k], color=CYCLE[k], label=name)
        ax.set(xticks=range(len(seeds)), xticklabels=seeds, xlabel="set", ylabel=text, title=title)
        ax.margins(x=0.2)
        if key != "unseen":
            ax.set_yscale("log")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False
    )
    return figure


_FULL = {
    "seeds": [31, 32, 33],
    "vocabulary": 20,
    "length": 4,
    "count": 20,
    "rates": [0.2, 0.05],
    "tried": [0.05, 0.2],
    "steps": [1000, 3000],
}

CLAIM = Claim(
    id="D.two-stage-against-one-stage",
    title="Two stages against one",
    kind="question",
    trust="measured",
    statement="A question of ours about v2, Algorithm 1, inside the paper's premises: for the same "
    "number of normalized steps, does the decoder first and attention over it end nearer in "
    "direction to both max-margin solutions than both matrices at once, and predict unseen "
    "sentences at least as often as the solution does? The paper has no such comparison.",
    full=_FULL,
    quick={**_FULL, "seeds": [31], "steps": [300, 900]},
    run=run,
    check=check,
    plot=plot,
    reference="huang2024nexttoken",
)
