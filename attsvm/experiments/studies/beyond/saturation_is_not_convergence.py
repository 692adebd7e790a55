"""Beyond: attention of 1.000000 is no proof of convergence."""

from __future__ import annotations

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
    equals,
    noted,
)
from attsvm.experiments.studies.shared.proof import selected
from attsvm.experiments.studies.shared.published import published_stack
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.optima import Optimality, optimality, score_gaps
from attsvm.theory.outcome import DECIDED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _start(seed: int) -> Floats:
    """W(0) of a seed: entries uniform in ±1/√10."""
    edge = 1 / np.sqrt(10)
    return np.random.default_rng([0, seed]).uniform(-edge, edge, (10, 10))


def run(config: Config) -> Result:
    """Normalized descent on every seed: two records of each, all of those that stay longest."""
    tokens, heads = published_stack(config["seeds"])
    path = train(
        tokens,
        head=heads,
        lr=config["lr"],
        steps=config["steps"],
        init={"W": np.stack([_start(s) for s in config["seeds"]])},
    )
    at = [int(np.argmax(path.steps >= config["judged_at"])), -1]
    W = path.weights["W"]
    stays = [_stay(config, t, path.steps, W[:, b]) for b, t in enumerate(tokens)]
    length = np.array([path.steps[last] - path.steps[first] for _, first, last, _ in stays])
    which = np.argsort(-length, kind="stable")[: config["watched"]]
    return {
        "steps": path.steps,
        "at": path.steps[at],
        "W": W[at],
        "which": which,
        "watched": W[:, which],
    }


def _sureness(tokens: Tokens, W: Floats) -> Floats:
    """The least, over inputs, probability of the top token at each W (R,)."""
    logits = np.einsum("ntd,rdq,nq->rnt", np.asarray(tokens.keys), W, tokens.queries)
    s = np.exp(logits - logits.max(axis=2, keepdims=True))
    return (1 / s.sum(axis=2)).min(axis=1)


def _verdict(tokens: Tokens, v: Floats, alpha: Ints) -> Optimality:
    return optimality(tokens, Selection.of(tokens, alpha), v)


def _nearest(tokens: Tokens, v: Floats, alpha: Ints, verdict: Optimality) -> float:
    """The least margin, at the certified direction, over a token with a better score."""
    gaps, _ = score_gaps(tokens, alpha, v)
    rows = verdict.certificate.problem.rows
    better = gaps[rows[:, 0], rows[:, 2]] < 0
    return float(verdict.certificate.margins[better].min(initial=np.inf))


def _stay(config: Config, tokens: Tokens, steps: Ints, W: Floats) -> tuple[Ints, int, int, int]:
    """Of a run W (R, d, d): top tokens (R, n), and its longest stay, at more than `sure`, with one
    selection that it leaves: first and last record, and the record after."""
    top = np.stack([selected(tokens, M) for M in W])
    sure = _sureness(tokens, W)
    edges = np.flatnonzero((top[1:] != top[:-1]).any(axis=1)) + 1
    best = (0, 0, 0)
    for start, end in zip(np.concatenate([[0], edges[:-1]]), edges, strict=True):
        held = np.flatnonzero(sure[start:end] >= config["sure"]) + start
        if len(held) and steps[held[-1]] - steps[held[0]] >= steps[best[1]] - steps[best[0]]:
            best = (int(held[0]), int(held[-1]), int(end))
    return top, *best


def check(config: Config, result: Result) -> Finding:
    """A long stay on tokens certified wrong is left, and every run ends at certified ones.

    A selection certified locally optimal can be left as well, while a better token is nearly tight
    and the norm is not yet large: how many do is noted.
    """
    tokens, heads = published_stack(config["seeds"])
    tests: list[Test] = []
    gaps: list[float] = []
    lengths: list[int] = []
    near: list[float] = []
    for k, place in enumerate(result["which"]):
        seed, t, v = config["seeds"][int(place)], tokens[int(place)], heads[int(place)]
        top, first, last, after = _stay(config, t, result["steps"], result["watched"][:, k])
        before, end = _verdict(t, v, top[last]), _verdict(t, v, top[-1])
        gaps += [float(before.certificate.gap), float(end.certificate.gap)]
        stay = int(result["steps"][last] - result["steps"][first])
        tests += [
            equals(
                f"seed {seed}: certified locally optimal at the end",
                float(end.locally is True),
                1.0,
            ),
            noted(f"seed {seed}: iterations at probability 1.000000", stay),
            noted(f"seed {seed}: left by iteration", float(result["steps"][after])),
            noted(
                f"seed {seed}: least score gap to a tight neighbour while it stays",
                before.score_gap,
            ),
        ]
        if before.locally is False:
            lengths.append(stay)
    tests.append(
        at_least(
            "longest stay at probability 1.000000 on certified wrong tokens, iterations",
            max(lengths, default=0),
            config["long"],
        )
    )
    counts = {"stays": 0, "kept": 0, "wrong": 0, "left": 0, "open": 0, "end": 0}
    for b, t in enumerate(tokens):
        early, late = (selected(t, W) for W in result["W"][:, b])
        counts["end"] += _verdict(t, heads[b], late).locally is True
        if _sureness(t, result["W"][:1, b])[0] < DECIDED:
            counts["open"] += 1
            continue
        verdict = _verdict(t, heads[b], early)
        gaps.append(float(verdict.certificate.gap))
        moved = bool((early != late).any())
        if verdict.locally:
            counts["stays"] += 1
            counts["kept"] += not moved
            near += [_nearest(t, heads[b], early, verdict)] if moved else []
        elif verdict.locally is False:
            counts["wrong"] += 1
            counts["left"] += moved
    tests += [
        equals("runs that end at certified locally optimal tokens", counts["end"], len(tokens)),
        equals(
            "saturated runs at certified wrong tokens that do not leave them",
            counts["wrong"] - counts["left"],
            0,
        ),
        noted("saturated runs at certified wrong tokens", counts["wrong"]),
        noted("saturated runs at certified locally optimal tokens", counts["stays"]),
        noted("of these, runs that leave them all the same", counts["stays"] - counts["kept"]),
        at_most("largest certified gap", max(gaps), norm_of("frobenius").tolerance),
    ]
    premises = (
        f"at iteration {config['judged_at']:,} {counts['stays']} of {len(tokens)} runs are "
        f"saturated at certified locally optimal tokens, {counts['wrong']} at certified others, "
        f"{counts['open']} are not saturated"
    )
    lost = counts["stays"] - counts["kept"]
    note = (
        f"{lost} of {counts['stays']} runs leave tokens that are certified locally optimal: the "
        "verdict is on the limit of large norms, and a better token is nearly tight (margin "
        f"{min(near, default=np.inf):.4f} where tight is 1) while the norm is still moderate"
    )
    return Finding(
        tuple(tests), premises, counts["wrong"] + len(lengths), max(gaps), note if lost else ""
    )


def plot(config: Config, result: Result) -> Figure:
    """What is missing to probability 1, and the logit lead of the token that wins in the end."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, right) = panels(2)
    steps = result["steps"]
    for k, place in enumerate(result["which"]):
        seed = config["seeds"][int(place)]
        (t,), _ = published_stack([seed])
        W = result["watched"][:, k]
        top, first, last, _ = _stay(config, t, steps, W)
        logits = np.einsum("ntd,rdq,nq->rnt", np.asarray(t.keys), W, t.queries)
        i = int((top[last] != top[-1]).argmax())
        a, b = top[last, i], top[-1, i]
        s = logits[:, i] - logits[:, i].max(axis=1, keepdims=True)
        probability = np.exp(s[:, a]) / np.exp(s).sum(axis=1)
        left.semilogx(
            steps[1:], probability[1:], color=CYCLE[k], label=f"seed {seed}, input {i}, token {a}"
        )
        right.semilogx(
            steps[1:],
            (logits[:, i, a] - logits[:, i, b])[1:],
            color=CYCLE[k],
            label=f"seed {seed}: token {a} over token {b}",
        )
        right.axvspan(
            steps[first],
            steps[last],
            0.02 + 0.03 * k,
            0.045 + 0.03 * k,
            color=CYCLE[k],
            alpha=0.5,
            linewidth=0,
        )
    right.axhline(0.0, color="#888888", linewidth=0.8, label="neither leads")
    left.set(
        xlabel="iteration",
        ylabel="probability of the token that is left",
        title="Saturated, then gone",
    )
    right.set(
        xlabel="iteration (bars: at probability 1.000000)",
        ylabel="lead in logits",
        title="The lead grows, turns and falls",
    )
    left.legend(frameon=False, fontsize=7.5, loc="upper left")
    right.legend(frameon=False, fontsize=7.5, loc="upper left")
    return figure


_FULL = {
    "seeds": list(range(100)),
    "watched": 3,
    "lr": 0.1,
    "steps": 20_000,
    "judged_at": 2000,  # Thousands: two of them.
    "sure": 1 - 5e-7,
    "long": 1000,
}

CLAIM = Claim(
    id="beyond.saturation-is-not-convergence",
    title="Saturated attention is not convergence",
    kind="question",
    trust="measured",
    statement="A run can hold probability 1.000000 for over a thousand iterations on tokens that "
    "are certified not locally optimal, and then leave them; every run ends at tokens that are "
    "certified locally optimal.",
    full=_FULL,
    quick={**_FULL, "seeds": [0, 1, 2, 3, 4, 5, 6, 7, 37, 39], "watched": 1, "steps": 9000},
    run=run,
    check=check,
    plot=plot,
)
