"""B: the least loss in growing balls turns to the max-margin solution, Frobenius and nuclear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
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
from attsvm.experiments.studies.shared.random_instances import best_problem, drawn
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.regularization_path.paths import regpath
from attsvm.training.heads import head_of
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import Evaluation, evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(config: Config) -> Result:
    """The least loss in balls whose radii are multiples of the least norm, on every seed."""
    best, W = [], []
    for seed in seeds_of(config):
        tokens, v = drawn(config["shape"], seed)
        best.append(solve(best_problem(tokens, v), config["norm"]))
        radii = best[-1].upper * np.array(config["radii"])
        path = regpath(
            tokens,
            model=config["model"],
            head=v,
            radii=radii,
            seed=seed,
            starts=config["starts"],
        )
        W.append(path.matrices()[:, 0])
    return {"W": np.stack(W), **saved_solutions("best", best)}


def _at(tokens: Tokens, v: Floats, W: Floats) -> Evaluation:
    return evaluate(
        model_of("weight"),
        {"W": W[None]},
        Batch.of(tokens),
        head_of(v, tokens.d),
        loss_of("logistic"),
    )


def away_from_stationary(tokens: Tokens, v: Floats, W: Floats, norm: str) -> float:
    """1 − ⟨−∇L, W⟩/(‖∇L‖_dual ‖W‖): zero where W is stationary on the sphere of its norm."""
    G, geometry = _at(tokens, v, W).gradient.direction["W"][0], norm_of(norm)
    return float(1 + np.vdot(G, W) / (float(geometry.dual(G)) * float(geometry.value(W))))


def check(config: Config, result: Result) -> Finding:
    """Paths of stationary points of the right size turn to the certified direction."""
    norm = config["norm"]
    pairs = [drawn(config["shape"], seed) for seed in seeds_of(config)]
    best = recertified("best", [best_problem(*p) for p in pairs], norm, result)
    inside = [b for b, c in enumerate(best) if c.status != "infeasible"]
    wrong, stationary, size, excess = 0, 0.0, 0.0, 0.0
    ends, shares, first = [], [], []
    for b in inside:
        (tokens, v), c, W = pairs[b], best[b], result["W"][b]
        scores = tokens.scores(v).max(axis=1)
        floor = float(np.mean(np.logaddexp(0.0, -scores)))
        wrong += bool((selected(tokens, W[-1]) != Selection.best(tokens, v).indices).any())
        stationary = max(stationary, *(away_from_stationary(tokens, v, M, norm) for M in W[1:]))
        radii = c.upper * np.array(config["radii"])
        found = float(np.max(np.asarray(norm_of(norm).value(W)) / radii))
        size = max(size, found if c.W is not None else np.inf)
        excess = max(excess, float(_at(tokens, v, W[-1]).loss[0]) - floor)
        ends.append(cosine(W[-1], c))
        first.append(cosine(W[0], c))
        shares.append(share(W[-1], c))
    tests: list[Test] = [
        equals("paths that do not end at the best tokens", wrong, 0),
        at_least(
            "least certified margin share at the largest radius",
            float(np.min(shares)),
            config["share"],
        ),
        at_most("largest distance from stationary, radii after the first", stationary, 1e-4),
        at_most("largest size over its radius", size, 1 + 1e-6),
        at_most("loss above that of the best tokens at the largest radius", excess, 1e-9),
        noted("median correlation at the smallest radius", float(np.median(first))),
        at_most("largest certified gap", worst_gap([best[b] for b in inside]), 2e-6),
    ]
    least = float(np.min(ends))
    what = "least correlation at the largest radius"
    if norm == "frobenius":
        tests.insert(1, at_least(what, least, config["correlation"]))
    else:  # solutions need not be unique, so the margin share is the measure
        tests.insert(1, noted(what, least))
    premises = f"{len(inside)} of {len(pairs)} instances are separable for their best tokens"
    return Finding(tuple(tests), premises, len(inside), worst_gap([best[b] for b in inside]))


def plot(config: Config, result: Result) -> Figure:
    """1 − correlation and 1 − margin share over the radius, one line per seed."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    pairs = [drawn(config["shape"], seed) for seed in seeds_of(config)]
    best = recertified("best", [best_problem(*p) for p in pairs], config["norm"], result)
    figure, (left, right) = panels(2)
    for b, c in enumerate(best):
        if c.W is None:
            continue
        name = f"instance {seeds_of(config)[b]}"
        style = {"color": CYCLE[b % len(CYCLE)], "linewidth": 1.0, "alpha": 0.8, "label": name}
        style["linestyle"] = ("-", "--", ":")[b // len(CYCLE) % 3]
        W = result["W"][b]
        left.loglog(config["radii"], [max(1 - cosine(M, c), 1e-12) for M in W], marker=".", **style)
        right.loglog(config["radii"], [max(1 - share(M, c), 1e-9) for M in W], marker=".", **style)
    name = f"radius over the least {config['norm']} norm"
    left.set(xlabel=name, ylabel="1 − correlation to the certified W", title="Direction")
    right.set(xlabel=name, ylabel="1 − certified margin share", title="Margin")
    right.legend(frameon=False, fontsize=7, loc="lower left", ncols=2)
    return figure


_FROBENIUS = {
    "shape": [4, 5, 6],
    "seeds": 10,
    "model": "weight",
    "norm": "frobenius",
    "starts": 2,
    "radii": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0],
    "correlation": 0.999,
    "share": 0.99,
}

FROBENIUS = Claim(
    id="B.regularization-path-frobenius",
    title="Regularization path, Frobenius",
    kind="theorem",
    trust="read",
    statement="Minimising the loss with ‖W‖_F ≤ R, W_R/R tends to the Frobenius max-margin "
    "direction of the best tokens as R grows, if they are unique and can be separated.",
    full=_FROBENIUS,
    quick={**_FROBENIUS, "seeds": 3, "radii": [1.0, 10.0, 100.0, 1000.0]},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
    numbered="v1, Theorem 2",
)

_NUCLEAR = {
    "shape": [4, 5, 6],
    "seeds": 10,
    "model": "factored",
    "norm": "nuclear",
    "starts": 2,
    "radii": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0],
    "correlation": 0.999,
    "share": 0.99,
}

NUCLEAR = Claim(
    id="B.regularization-path-nuclear",
    title="Regularization path, nuclear",
    kind="theorem",
    trust="read",
    statement="Minimising the loss with ‖K‖² + ‖Q‖² ≤ 2R, K Qᵀ/R tends to the set of nuclear "
    "max-margin solutions of the best tokens as R grows, if they are unique and can be separated.",
    full=_NUCLEAR,
    quick={**_NUCLEAR, "seeds": 3, "radii": [1.0, 10.0, 100.0, 1000.0]},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
    numbered="v1, Theorem 2",
)
