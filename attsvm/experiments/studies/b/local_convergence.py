"""B: descent on W and on its factors ends at the max-margin solution of the selected tokens."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
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
    seeds_of,
)
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    share,
    worst_gap,
)
from attsvm.experiments.studies.shared.published import EPS, factored_run
from attsvm.experiments.studies.shared.random_instances import attention, stacked, standing
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Runs on W, on factors as published with a ridge, and on factors in exact arithmetic without one;
# and the norm of the solution that each is expected at.
MODELS = {"weight": "frobenius", "ridge": "nuclear", "factored": "nuclear"}
NAMES = {"weight": "W", "ridge": "factors, published ridge", "factored": "factors, no ridge"}
NORMS = ("frobenius", "nuclear")
# A mean of fewer runs is not judged.
_LEAST = 10


def _problems(stack: list[Tokens], W: Floats) -> list[Problem]:
    """The problem of the tokens that each W (B, d, d) selects."""
    return [
        Problem.of(tokens, Selection.of(tokens, selected(tokens, M)))
        for tokens, M in zip(stack, W, strict=True)
    ]


def run(config: Config) -> Result:
    """Every model from a uniform start on every seed, and both problems of what they select."""
    stack, heads = stacked(config["shape"], seeds_of(config))
    out: Result = {}
    for model in ("weight", "factored"):
        path = train(
            stack,
            model=model,
            head=heads,
            lr=config["lr"],
            steps=config["steps"],
            init="uniform",
            seed=config["start"],
        )
        # Every fourth record, and those that the figure is read at.
        wanted = np.isin(path.steps, config["read"]) | (np.arange(len(path.steps)) % 4 == 0)
        W = path.matrices()[wanted].astype(np.float64)
        out |= {f"{model}.steps": path.steps[wanted], f"{model}.W": W}
        if model == "factored":
            first = path.weights["K"][0], path.weights["Q"][0]
            out |= _with_ridge(config, stack, heads, first, path.steps[wanted])
    for model in MODELS:
        problems = _problems(stack, out[f"{model}.W"][-1])
        out |= saved_solutions(f"{model}.frobenius", solve_many(problems))
        out |= saved_solutions(
            f"{model}.nuclear", [solve(problem, "nuclear") for problem in problems]
        )
    return out


def _with_ridge(
    config: Config, stack: list[Tokens], heads: Floats, first: tuple[Floats, Floats], steps: Ints
) -> Result:
    """The published loop on the factors, with its ridge, from the start of the run without."""
    K, Q = factored_run(stack, heads, first, lr=config["lr"], marks=steps, ridge=EPS)
    return {"ridge.steps": steps, "ridge.W": K @ Q.swapaxes(2, 3)}


def check(config: Config, result: Result) -> Finding:
    """The four mean correlations at the published steps, and where each run ends."""
    stack, heads = stacked(config["shape"], seeds_of(config))
    tests: list[Test] = []
    gaps = []
    for model, own in MODELS.items():
        W, steps = result[f"{model}.W"], result[f"{model}.steps"]
        problems = _problems(stack, W[-1])
        best = {norm: recertified(f"{model}.{norm}", problems, norm, result) for norm in NORMS}
        gaps.append(max(worst_gap(found) for found in best.values()))
        for norm in NORMS:
            for step in config["read"]:
                record = int(np.flatnonzero(steps == step)[0])
                what = f"{NAMES[model]}: mean correlation to the {norm} solution at step {step}"
                asked = config["published"].get(f"{model} {norm} {step}")
                tests += _judged(what, _cosines(W[record], best[norm]), asked)
        shares = [share(M, c) for M, c in zip(W[-1], best[own], strict=True)]
        tests.append(
            noted(
                f"{NAMES[model]}: mean certified margin share in the {own} norm at the end",
                float(np.mean(shares)),
            )
        )
        places = Counter(
            standing(tokens, v, M, own)[0] for tokens, v, M in zip(stack, heads, W[-1], strict=True)
        )
        count = len(stack)
        tests += [
            at_least(
                f"{NAMES[model]}: share of runs that end at locally optimal tokens",
                (places["global"] + places["local"]) / count,
                config["local"],
            ),
            noted(
                f"{NAMES[model]}: share of runs that end at the best tokens",
                places["global"] / count,
            ),
            noted(
                f"{NAMES[model]}: runs saturated on tokens that are not locally optimal",
                places["saturated"],
            ),
            noted(
                f"{NAMES[model]}: runs undecided or unknown",
                places["undecided"] + places["unknown"],
            ),
        ]
    tests += [
        noted(
            "published ridge: median ‖W‖ at the end",
            float(np.median(np.linalg.norm(result["ridge.W"][-1], axis=(1, 2)))),
        ),
        at_most("largest certified gap", max(gaps), norm_of("nuclear").tolerance),
    ]
    return Finding(
        tuple(tests),
        f"{len(stack)} seeds, each with the problems of the tokens it selects at the end",
        len(stack) if len(stack) >= _LEAST else 0,
        max(gaps),
        "" if len(stack) >= _LEAST else f"a mean with its error needs {_LEAST} seeds",
    )


def _cosines(W: Floats, best: list[Certificate]) -> list[float]:
    return [cosine(M, c) for M, c in zip(W, best, strict=True)]


def _judged(what: str, cosines: list[float], published: list[Any] | None) -> list[Test]:
    """The mean against a known one, [how, number, error of its reading], and its own error.

    how: ≥ (as near at least), = or <. Ours is a mean over draws: three standard errors of it are
    allowed where it should reach a number, and asked for where it should stay below one.
    """
    mean = float(np.mean(cosines))
    error = float(np.std(cosines, ddof=1) / np.sqrt(len(cosines)))
    if published is None or len(cosines) < _LEAST:
        return [noted(what, mean), noted(f"{what}: its standard error", error)]
    how, number, reading = published
    within = round(reading + 3 * error, 4)
    source = "figure" if reading >= 0.005 else "independent run"
    what = f"{what}, {source} {how} {number:g}, within three standard errors"
    if how == "≥":
        return [at_least(what, mean, number - within)]
    return [
        equals(what, mean, number, within=within)
        if how == "="
        else at_most(what, mean, number - within)
    ]


def plot(config: Config, result: Result) -> Figure:
    """Correlation to both solutions and the largest attention, over the steps, by model."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, panels

    stack, _ = stacked(config["shape"], seeds_of(config))
    figure, axes = panels(2, rows=2)
    for k, model in enumerate(MODELS):
        W, steps = result[f"{model}.W"], np.maximum(result[f"{model}.steps"], 0.5)
        size = np.linalg.norm(W, axis=(2, 3))
        for j, norm in enumerate(NORMS):
            best = result[f"{model}.{norm}.W"]
            cosines = np.einsum("rbij,bij->rb", W, best) / size / np.linalg.norm(best, axis=(1, 2))
            band(axes[k], steps, cosines, colour=CYCLE[j], label=f"{norm.capitalize()} solution")
        sure = np.array(
            [
                [attention(t, M).max(axis=1).mean() for t, M in zip(stack, row, strict=True)]
                for row in W[::2]
            ]
        )
        band(axes[3], steps[::2], sure, colour=CYCLE[2 + k], label=NAMES[model])
        axes[k].set(xlabel="step", xscale="log", ylim=(-0.1, 1.03), title=NAMES[model].capitalize())
        axes[k].legend(frameon=False, fontsize=7.5, loc="lower right")
        axes[k].set_ylabel("correlation (median, middle half)")
    axes[3].set(
        xlabel="step", xscale="log", ylabel="largest attention, mean over inputs", title="Attention"
    )
    axes[3].legend(frameon=False, fontsize=7.5)
    return figure


# How ours should compare, the number, and its error: at step 1000 read off the figure to 0.005. At
# step 2000 nothing is published: the numbers are of an independent implementation, rounded.
_PUBLISHED = {
    "weight frobenius 1000": ["≥", 0.99, 0.005],
    "weight nuclear 1000": ["=", 0.86, 0.005],
    "weight frobenius 2000": ["≥", 0.996, 0.0005],
    "ridge nuclear 2000": ["≥", 0.997, 0.0005],
    "ridge frobenius 2000": ["<", 0.9, 0.0],
}

_FULL = {
    "shape": [6, 8, 10],
    "seeds": 100,
    "start": 0,
    "lr": 0.1,
    "steps": 2000,
    "read": [1000, 2000],
    "published": _PUBLISHED,
    # Nearly all: nine in ten.
    "local": 0.9,
}

CLAIM = Claim(
    id="B.local-convergence",
    title="Descent ends at the solution of what it selects",
    kind="figure",
    trust="image",
    statement="On random instances, normalized descent on W ends near the Frobenius max-margin "
    "solution of the tokens it selects and away from the nuclear one (mean correlations 0.99 and "
    "0.86 after 1,000 steps, read off the figure); on factors K, Q with a ridge of 2.2e-16 it is "
    "the other way round. Nearly all runs end at locally optimal tokens. An independent run has "
    "0.996 for W after 2,000 steps, and for the factors 0.997 to the nuclear solution and below "
    "0.9 to the Frobenius one.",
    full=_FULL,
    quick={**_FULL, "seeds": 20},
    run=run,
    check=check,
    plot=plot,
    differs="With the published ridge 0.997 comes out again, because the ridge stops the runs: "
    "they stay at ‖W‖ = 122 from step 200 on, a point of the regularization path. Exact gradients "
    "without a ridge go on: they are at 0.983 by step 2,000, less than with it by six standard "
    "errors, and still rise. Without a ridge, plain float gradients decay to 0.87 by step 2,000 "
    "from rounding alone. Neither saturated attention nor a locally optimal selection proves that "
    "a run has ended: where it stands after its last step is judged by certified tight rows and "
    "scores, and saturated runs on other tokens are counted.",
    reference="tarzanagh2023svm",
    numbered="code: local_converge",
    size="as published",
)
