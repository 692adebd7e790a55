"""A: on data of several contexts, attention learns to find the tokens that carry the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.api import train
from attsvm.datasets.instances import contextual_arrays
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    frame_choice,
    noted,
)
from attsvm.experiments.studies.shared.prompt_paths import unsettled
from attsvm.experiments.studies.shared.proof import cosine, recertified, saved_solutions, selected
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.landscape import initial_gradient_condition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What is asked, by name: a prompt for all, the context's query of each input, or its first token.
FORMS = {"prompt": "prompt", "given": "query of the context", "first": "query: first token"}

_NUMBERS = (
    "standing",
    "separable",
    "led",
    "right",
    "cosine",
    "clean",
    "flipped",
    "gap",
    "unsettled",
)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """One instance: the relevant token of each input (n,), the best, and whose label is flipped."""

    tokens: Tokens
    head: Floats
    relevant: Ints
    best: Selection
    flipped: Bools


def _draw(config: Config, form: str, noise: float, flips: float, seed: int) -> _Drawn:
    arrays = contextual_arrays(
        config["n"],
        config["T"],
        config["d"],
        contexts=config["contexts"],
        token_noise=noise,
        label_noise=flips,
        seed=seed,
    )
    X, z, v, y = (np.asarray(arrays[name]) for name in ("X", "z", "v", "y"))
    queries = {"prompt": None, "given": z, "first": "first"}[form]
    tokens = Tokens(X, queries=queries, labels=y)
    # The query is the centre of the context, which only the relevant token is near.
    relevant = np.einsum("ntd,nd->nt", X, z).argmax(axis=1)
    flipped = np.sign(X[np.arange(len(X)), relevant] @ v) != y
    return _Drawn(tokens, v, relevant, Selection.best(tokens, v), flipped)


def instances(config: Config, form: str) -> list[_Drawn]:
    """The instances of every setting (token noise, label noise) and seed, settings first."""
    return [
        _draw(config, form, noise, flips, seed)
        for noise, flips in config["settings"]
        for seed in config["seeds"]
    ]


def run(config: Config) -> Result:
    """Normalized descent from zero on all instances of a form at once."""
    out: Result = {}
    for form in FORMS:
        drawn = instances(config, form)
        model = "prompt" if form == "prompt" else "weight"
        path = train(
            [one.tokens for one in drawn],
            model=model,
            lr=config["lr"],
            steps=config["steps"],
            head=np.stack([one.head for one in drawn]),
        )
        frames = frame_choice(path.steps, config["records"])
        out |= {f"{form}.steps": path.steps[frames], f"{form}.W": path.matrices()[frames]}
        best = solve_many([Problem.of(one.tokens, one.best) for one in drawn])
        out |= saved_solutions(f"{form}.best", best)
    return out


def _seen(config: Config, form: str, result: Result) -> dict[str, Floats]:
    """Numbers of every instance (settings, seeds), from the weights at the end and the data.

    standing: whether all best tokens are the relevant ones; separable; led: whether the gradient
    at zero prefers the best tokens; right: whether all best tokens are selected; cosine; clean,
    flipped: shares of the inputs of either kind that select their relevant token (nan: none); gap;
    unsettled: whether the problem is neither solved nor proved infeasible.
    """
    drawn = instances(config, form)
    problems = [Problem.of(one.tokens, one.best) for one in drawn]
    best = recertified(f"{form}.best", problems, "frobenius", result)
    rows: dict[str, list[float]] = {name: [] for name in _NUMBERS}
    for one, target, W in zip(drawn, best, result[f"{form}.W"][-1], strict=True):
        chosen = selected(one.tokens, W)
        found = chosen == one.relevant
        rows["standing"].append(bool((one.best.indices == one.relevant).all()))
        rows["separable"].append(target.W is not None)
        rows["led"].append(initial_gradient_condition(one.tokens, one.head).least.sign > 0)
        rows["right"].append(bool((chosen == one.best.indices).all()))
        rows["cosine"].append(cosine(W, target))
        for name, part in (("clean", ~one.flipped), ("flipped", one.flipped)):
            rows[name].append(float(found[part].mean()) if part.any() else np.nan)
        rows["unsettled"].append(unsettled([target]))
        rows["gap"].append(float(target.gap) if target.W is not None else 0.0)
    shape = (len(config["settings"]), len(config["seeds"]))
    return {
        name: np.array(values, dtype=np.float64).reshape(shape) for name, values in rows.items()
    }


def check(config: Config, result: Result) -> Finding:
    """Clean settings are judged inside the premises; the noisy ones are reported."""
    clean = np.array([flips == 0 for _, flips in config["settings"]])
    tests, counts, gaps = [], [], [0.0]
    judged = unknown = 0
    for form, title in FORMS.items():
        seen = _seen(config, form, result)
        gaps.append(float(seen["gap"].max()))
        unknown += int(seen["unsettled"].sum())
        premise = (seen["standing"] * seen["separable"] > 0) & clean[:, None]
        led = premise & (seen["led"] > 0)
        right = seen["right"] > 0
        reached = premise & right
        judged += int(reached.sum() + (led & ~right).sum())
        counts.append(f"{title}: {int(premise.sum())}, of which {int(led.sum())} led")
        tests += [
            equals(
                f"{title}: led instances that select all relevant tokens",
                int((led & right).sum()),
                int(led.sum()),
            ),
            at_least(f"{title}: instances that select all relevant tokens", int(reached.sum()), 1),
            # 40,000 steps of 0.1 are a way of 4,000: 0.999 lets 180 of it be spent on other tokens.
            at_least(
                f"{title}: least cosine of those to the certified direction",
                seen["cosine"][reached].min(initial=np.inf),
                0.999,
            ),
            noted(
                f"{title}: share of the clean instances, led or not, that do",
                float(right[premise].mean()) if premise.any() else np.nan,
            ),
        ]
        for k, (noise, flips) in enumerate(config["settings"]):
            if flips > 0:
                name = f"{title}, {flips:.0%} of the labels flipped, token noise {noise:g}"
                tests += [
                    noted(
                        f"{name}: share of clean inputs at their relevant token",
                        float(np.nanmean(seen["clean"][k])),
                    ),
                    noted(
                        f"{name}: share of flipped inputs at theirs",
                        float(np.nanmean(seen["flipped"][k])),
                    ),
                ]
    tests += [
        equals("problems neither solved nor proved infeasible", unknown, 0),
        at_most("largest certified gap", max(gaps), norm_of("frobenius").tolerance),
    ]
    premises = (
        "instances with clean labels whose best tokens are the relevant ones and separable; led: "
        "the gradient at zero prefers all best tokens. " + "; ".join(counts)
    )
    return Finding(tuple(tests), premises, judged, max(gaps))


def plot(config: Config, result: Result) -> Figure:
    """The direction over the steps, and who selects the relevant token, by both kinds of noise."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, level, panels

    figure, (left, middle, right) = panels(3, figsize=(12, 4.6))
    settings = np.array(config["settings"])
    seeds = len(config["seeds"])
    clean = np.flatnonzero(settings[:, 1] == 0)
    shown = int(clean[np.argmin(np.abs(settings[clean, 0] - 0.5))])
    noisy = np.flatnonzero(settings[:, 0] == settings[shown, 0])
    for j, (form, title) in enumerate(FORMS.items()):
        seen = _seen(config, form, result)
        W = result[f"{form}.W"][1:, shown * seeds : (shown + 1) * seeds]
        target = result[f"{form}.best.W"][shown * seeds : (shown + 1) * seeds]
        cosines = (W * target).sum(axis=(2, 3)) / np.linalg.norm(W, axis=(2, 3))
        cosines /= np.linalg.norm(target, axis=(1, 2))
        band(left, result[f"{form}.steps"][1:], 1 - cosines, colour=CYCLE[j], label=title)
        middle.plot(
            settings[clean, 0], seen["clean"][clean].mean(axis=1), "o-", color=CYCLE[j], label=title
        )
        right.plot(
            100 * settings[noisy, 1],
            np.nanmean(seen["clean"][noisy], axis=1),
            "o-",
            color=CYCLE[j],
            label=f"{title}; right label",
        )
        flipped = noisy[settings[noisy, 1] > 0]
        right.plot(
            100 * settings[flipped, 1],
            np.nanmean(seen["flipped"][flipped], axis=1),
            "s--",
            color=CYCLE[j],
            label=f"{title}; flipped label",
        )
    level(left, 1e-3, "asked: 1e-3")
    left.set(
        xscale="log",
        yscale="log",
        xlabel="step",
        title=f"Token noise {settings[shown, 0]:g}",
        ylabel="1 − cosine to the certified direction",
    )
    middle.set(
        xlabel="size of the other tokens",
        ylim=(0, 1.04),
        title="Clean labels",
        ylabel="share of inputs at their relevant token",
    )
    right.set(
        xlabel="flipped labels, per cent",
        ylim=(-0.02, 1.04),
        ylabel="share of inputs at their relevant token",
        title="Flipped labels",
    )
    middle.legend(frameon=False, loc="lower left")
    right.legend(frameon=False, fontsize=7.5, loc="center left")
    return figure


_FULL = {
    "n": 12,
    "T": 6,
    "d": 12,
    "contexts": 3,
    "seeds": list(range(10)),
    "lr": 0.1,
    "steps": 40_000,
    "records": 16,
    "settings": [[0.25, 0.0], [0.5, 0.0], [1.0, 0.0], [1.5, 0.0], [0.5, 0.1], [0.5, 0.2]],
}

CLAIM = Claim(
    id="A.contextual-data",
    title="Several contexts: attention finds the relevant tokens",
    kind="question",
    trust="measured",
    statement="Each input belongs to one of three contexts; one of its tokens lies near the centre "
    "of the context and carries the label, the others are noise. With clean labels, normalized "
    "descent from zero selects the relevant token of every input wherever the first gradient "
    "prefers them all, and where it selects them it follows their max-margin direction, for one "
    "prompt, for the query of the context, and for self-attention from the first token.",
    full=_FULL,
    quick={
        **_FULL,
        "seeds": [0, 1, 2, 3],
        "steps": 20_000,
        "settings": [[0.5, 0.0], [1.0, 0.0], [0.5, 0.2]],
    },
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
)
