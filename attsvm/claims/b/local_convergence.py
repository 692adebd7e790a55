"""B: descent on W and on its factors ends at the max-margin solution of the selected tokens."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from attsvm.certificate import Certificate
from attsvm.claims.claim import (
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
from attsvm.claims.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    share,
    worst_gap,
)
from attsvm.claims.shared.random_instances import attention, stacked, standing
from attsvm.claims.shared.work import solve, solve_many, train
from attsvm.ground.arrays import Floats
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = {"weight": "frobenius", "factored": "nuclear"}
NORMS = ("frobenius", "nuclear")


def _problems(stack: list[Tokens], W: Floats) -> list[Problem]:
    """The problem of the tokens that each W (B, d, d) selects."""
    return [
        Problem.of(tokens, Selection.of(tokens, selected(tokens, M)))
        for tokens, M in zip(stack, W, strict=True)
    ]


def run(config: Config) -> Result:
    """Both models from a uniform start on every seed, and both problems of what they select."""
    stack, heads = stacked(config["shape"], seeds_of(config))
    out: Result = {}
    for model in MODELS:
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
        W = path.matrices()[wanted]
        out |= {f"{model}.steps": path.steps[wanted], f"{model}.W": W.astype(np.float64)}
        problems = _problems(stack, W[-1])
        out |= saved_solutions(f"{model}.frobenius", solve_many(problems))
        out |= saved_solutions(
            f"{model}.nuclear", [solve(problem, "nuclear") for problem in problems]
        )
    return out


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
                mean = float(np.mean(_cosines(W[record], best[norm])))
                what = f"{model}: mean correlation to the {norm} solution at step {step}"
                asked = config["asked"].get(f"{model} {norm} {step}")
                tests.append(_judged(what, mean, asked))
        shares = [share(M, c) for M, c in zip(W[-1], best[own], strict=True)]
        tests.append(
            noted(
                f"{model}: mean certified margin share in the {own} norm at the end",
                float(np.mean(shares)),
            )
        )
        places = Counter(
            standing(tokens, v, M, own)[0] for tokens, v, M in zip(stack, heads, W[-1], strict=True)
        )
        count = len(stack)
        tests += [
            at_least(
                f"{model}: share of runs that end at locally optimal tokens",
                (places["global"] + places["local"]) / count,
                config["local"],
            ),
            noted(f"{model}: share of runs that end at the best tokens", places["global"] / count),
            noted(
                f"{model}: runs saturated on tokens that are not locally optimal",
                places["saturated"],
            ),
            noted(f"{model}: runs undecided or unknown", places["undecided"] + places["unknown"]),
        ]
    tests.append(at_most("largest certified gap", max(gaps), norm_of("nuclear").tolerance))
    return Finding(
        tuple(tests),
        f"{len(stack)} seeds, each with the problems of the tokens it selects at the end",
        len(stack),
        max(gaps),
    )


def _cosines(W: Floats, best: list[Certificate]) -> list[float]:
    return [cosine(M, c) for M, c in zip(W, best, strict=True)]


def _judged(what: str, mean: float, asked: list[float] | None) -> Test:
    """The test that the config asks for: [low], [centre, within], or [nan, high]."""
    if asked is None:
        return noted(what, mean)
    if len(asked) == 1:
        return at_least(what, mean, asked[0])
    if asked[0] < 0:
        return at_most(what, mean, asked[1])
    return equals(what, mean, asked[0], within=asked[1])


def plot(config: Config, result: Result) -> Figure:
    """Correlation to both solutions and the least attention, over the steps, for both models."""
    from attsvm.claims.shared.drawing import CYCLE, band, panels

    stack, _ = stacked(config["shape"], seeds_of(config))
    figure, axes = panels(3)
    for k, model in enumerate(MODELS):
        W, steps = result[f"{model}.W"], np.maximum(result[f"{model}.steps"], 0.5)
        size = np.linalg.norm(W, axis=(2, 3))
        for j, norm in enumerate(NORMS):
            best = result[f"{model}.{norm}.W"]
            cosines = np.einsum("rbij,bij->rb", W, best) / size / np.linalg.norm(best, axis=(1, 2))
            band(axes[k], steps, cosines, colour=CYCLE[j], label=f"{norm} solution")
        sure = np.array(
            [
                [attention(t, M).max(axis=1).mean() for t, M in zip(stack, row, strict=True)]
                for row in W[::2]
            ]
        )
        band(axes[2], steps[::2], sure, colour=CYCLE[2 + k], label=model)
        axes[k].set(xlabel="step", xscale="log", ylim=(-0.1, 1.03), title=model.capitalize())
        axes[k].legend(frameon=False, fontsize=7.5, loc="lower right")
    axes[0].set_ylabel("correlation (median, middle half)")
    axes[2].set(
        xlabel="step", xscale="log", ylabel="largest attention, mean over inputs", title="Attention"
    )
    axes[2].legend(frameon=False, fontsize=7.5)
    return figure


# [least], [centre, within] or [-1, most]. At step 1000 read off the figure, 0.99 and 0.86, each
# to 0.005; correlations to the nuclear solution spread by about 0.05 from seed to seed, and 0.02
# is 0.005 and three standard errors of a mean of 100. At step 2000 an independent run of the same
# experiment has 0.995 and more, and below 0.9 from the factors to the Frobenius solution: that to
# the nuclear one lies on the other side of it.
_ASKED = {
    "weight frobenius 1000": [0.985],
    "weight nuclear 1000": [0.86, 0.02],
    "weight frobenius 2000": [0.995],
    "factored nuclear 2000": [0.9],
    "factored frobenius 2000": [-1.0, 0.9],
}

_FULL = {
    "shape": [6, 8, 10],
    "seeds": 100,
    "start": 0,
    "lr": 0.1,
    "steps": 2000,
    "read": [1000, 2000],
    "asked": _ASKED,
    # Nearly all: nine in ten.
    "local": 0.9,
}

CLAIM = Claim(
    id="B.local-convergence",
    title="Descent ends at the solution of what it selects",
    kind="figure",
    trust="image",
    statement="On random instances, normalized descent on W ends near the Frobenius max-margin "
    "solution of the tokens it selects and away from the nuclear one; on factors K, Q it is the "
    "other way round. Nearly all runs end at locally optimal tokens.",
    full=_FULL,
    quick={
        **_FULL,
        "seeds": 20,
        "asked": {
            # A fifth of the seeds. A run that has yet to switch tokens is at about 0.6: one of 20
            # costs the mean 0.02. Three standard errors are 0.034 now.
            **_ASKED,
            "weight frobenius 1000": [0.965],
            "weight nuclear 1000": [0.86, 0.04],
        },
    },
    run=run,
    check=check,
    plot=plot,
    differs="The released code adds 2.2e-16 to the gradient's norm and, for factors, a ridge of "
    "2.2e-16 (‖K‖² + ‖Q‖²) to the loss. The ridge stops the factored runs: a rerun of it on 20 "
    "seeds stays at ‖W‖ = 122 from step 200 on, a point of the regularization path, at "
    "correlation 0.997 to the nuclear solution; without it, plain float gradients decay to 0.87 "
    "by step 2000 from rounding alone. Exact gradients without a ridge are at 0.98 by step 2000 "
    "and still rise. Neither saturated attention nor a locally optimal selection proves that a run "
    "has ended: where it stands after its last step is judged by certified tight rows and scores, "
    "and saturated runs on other tokens are counted.",
    reference="tarzanagh2023svm",
)
