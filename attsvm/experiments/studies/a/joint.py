"""A: prompt and decoder trained together on three inputs of two tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.api import train
from attsvm.datasets import EXAMPLES
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
)
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    worst_gap,
)
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_sets import relaxed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def instance(name: str) -> tuple[Tokens, Selection]:
    """The tokens of the example and the selection that is learned."""
    arrays = EXAMPLES[name]()
    tokens = Tokens(arrays["X"], labels=arrays["y"])
    return tokens, Selection.of(tokens, arrays["alpha"])


def problems(name: str) -> dict[str, Problem]:
    """The prompt's problem, whole and relaxed, and the decoder's."""
    tokens, keep = instance(name)
    return {
        "whole": Problem.of(tokens, keep),
        "relaxed": relaxed(tokens, keep),
        "labels": Problem.of_labels(tokens, keep),
    }


def run(config: Config) -> Result:
    """Normalized descent on p and v, each by its own norm, from the published start."""
    arrays = EXAMPLES[config["example"]]()
    tokens, _ = instance(config["example"])
    path = train(
        tokens,
        model="joint-prompt",
        lr=config["lr"],
        steps=config["steps"],
        init={"p": arrays["p0"], "v": arrays["v0"]},
    )
    out: Result = {"steps": path.steps, "p": path.weights["p"][:, 0], "v": path.weights["v"][:, 0]}
    for name, problem in problems(config["example"]).items():
        out |= saved_solutions(name, [solve(problem)])
    return out


def check(config: Config, result: Result) -> Finding:
    """p ends in the direction the config names, v in that of its own problem."""
    tokens, keep = instance(config["example"])
    best = {
        name: recertified(name, [problem], "frobenius", result)[0]
        for name, problem in problems(config["example"]).items()
    }
    gap = worst_gap(list(best.values()))
    p, v = result["p"][-1][:, None], result["v"][-1][:, None]
    limit = np.array(config["limit"])[:, None]
    wanted = best[config["problem"]]
    found = np.zeros_like(limit) if wanted.W is None else np.asarray(wanted.W)
    tests = [
        equals(
            "inputs that select their second token",
            int((selected(tokens, p) == keep.indices).sum()),
            tokens.n,
        ),
        at_least("cosine of p to its certified direction", cosine(p, wanted), config["cosine"]),
        at_least("cosine of v to its certified direction", cosine(v, best["labels"]), 0.9999),
        at_most(
            "distance of the certified p to the closed form",
            float(np.linalg.norm(found - limit)),
            1e-8,
        ),
        equals(
            "½‖p‖² of the certified p",
            float(wanted.upper) ** 2 / 2,
            config["half_square"],
            within=5e-6,
        ),
        at_most("largest certified gap", gap, 1e-9),
    ]
    if config["problem"] == "relaxed":
        tests.append(
            at_least(
                "cosine to the relaxed less that to the unrelaxed p",
                cosine(p, best["relaxed"]) - cosine(p, best["whole"]),
                0.01,
            )
        )
    return Finding(tuple(tests), "the published instance and start", 1, gap)


def plot(config: Config, result: Result) -> Figure:
    """The paths of p and v with their certified directions, and the probabilities."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    tokens, keep = instance(config["example"])
    figure, (left, middle, right) = panels(3)
    shown = result["steps"] <= 200
    lines = {"whole": ("p, unrelaxed", "--"), "relaxed": ("p, relaxed", "-.")}
    for name, (label, style) in lines.items():
        ray = result[f"{name}.W"][0, :, 0]
        ray = 18 * ray / np.linalg.norm(ray)
        left.plot([0, ray[0]], [0, ray[1]], style, color="#444444", linewidth=1, label=label)
    left.plot(*result["p"][shown].T, color=CYCLE[0], label="p")
    ray = result["labels.W"][0, :, 0]
    ray = 18 * ray / np.linalg.norm(ray)
    middle.plot([0, ray[0]], [0, ray[1]], "--", color="#444444", linewidth=1, label="certified v")
    middle.plot(*result["v"][shown].T, color=CYCLE[1], label="v")
    for axes, title in ((left, "Prompt, 200 steps"), (middle, "Decoder, 200 steps")):
        axes.set(xlabel="first coordinate", ylabel="second coordinate", title=title)
        axes.legend(frameon=False, fontsize=7.5)
    X = np.asarray(tokens.X)
    logits = np.einsum("ntd,rd->rnt", X, result["p"])
    s = np.exp(logits - logits.max(axis=2, keepdims=True))
    s /= s.sum(axis=2, keepdims=True)
    f = np.einsum("rnt,ntd,rd->rn", s, X, result["v"]) * np.asarray(tokens.labels)
    steps = np.maximum(result["steps"], 0.5)
    right.semilogx(
        steps,
        s[:, np.arange(tokens.n), keep.indices].mean(axis=1),
        color=CYCLE[0],
        label="attention on the selected",
    )
    right.semilogx(
        steps, (1 / (1 + np.exp(-f))).mean(axis=1), color=CYCLE[1], label="probability of the label"
    )
    right.set(xlabel="step", ylabel="mean probability", title="Probabilities")
    right.set_ylim(top=1.25)  # room for the legend above the curves
    right.legend(frameon=False, fontsize=7.5, loc="upper left")
    return figure


_TIGHT = {
    "example": "joint-tight",
    "problem": "whole",
    "lr": 0.1,
    "steps": 1000,
    "limit": [4 / 3, 1 / 3],
    "half_square": 0.944444,
    "cosine": 0.999,
}

TIGHT = Claim(
    id="A.joint-tight",
    title="Prompt and decoder: all inputs support the decoder",
    kind="figure",
    trust="code",
    statement="Normalized descent on prompt and decoder together, with every selected token a "
    "support vector of the decoder, ends in both max-margin directions, the prompt's unrelaxed.",
    full=_TIGHT,
    quick=_TIGHT,
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
    numbered="notebook",
    size="as published",
)

_RELAXED = {
    "example": "joint-relaxed",
    "problem": "relaxed",
    "lr": 0.1,
    "steps": 1000,
    "limit": [1.0, 0.0],
    "half_square": 0.5,
    "cosine": 0.999,
}

RELAXED = Claim(
    id="A.joint-relaxed",
    title="Prompt and decoder: one input does not support the decoder",
    kind="figure",
    trust="code",
    statement="When one selected token is no support vector of the decoder, the prompt of the "
    "published descent ends in the direction of the relaxed problem, which asks that input for a "
    "margin of 0 only, and not in that of the unrelaxed one.",
    full=_RELAXED,
    quick=_RELAXED,
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
    numbered="notebook",
    size="as published",
)
