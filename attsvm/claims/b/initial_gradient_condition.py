"""B: a first gradient that prefers the best tokens leads to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.claims.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.claims.shared.proof import cosine, recertified, saved_solutions, worst_gap
from attsvm.claims.shared.random_instances import best_problem, stacked, standing
from attsvm.claims.shared.work import solve_many, train
from attsvm.ground.arrays import Bools, Floats
from attsvm.problem.tokens import Tokens
from attsvm.theory.landscape import descent_along, initial_gradient_condition

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _instances(config: Config) -> tuple[list[Tokens], Floats, Bools]:
    """The instances, their heads, and which meet the condition at W = 0."""
    stack, heads = stacked(config["shape"], seeds_of(config))
    met = [
        initial_gradient_condition(t, v).least.sign > 0 for t, v in zip(stack, heads, strict=True)
    ]
    return stack, heads, np.array(met)


def run(config: Config) -> Result:
    """Normalized descent from W = 0 on every instance, whether or not it meets the condition."""
    stack, heads, _ = _instances(config)
    path = train(stack, head=heads, lr=config["lr"], steps=config["steps"])
    rows = np.unique(np.linspace(0, len(path.steps) - 1, 16).round().astype(int))
    found = solve_many([best_problem(t, v) for t, v in zip(stack, heads, strict=True)])
    return {
        "steps": path.steps[rows],
        "W": path.weights["W"][rows],
        **saved_solutions("best", found),
    }


def check(config: Config, result: Result) -> Finding:
    """Every instance that meets the condition ends at its best tokens, descending all the way."""
    stack, heads, met = _instances(config)
    pairs = list(zip(stack, heads, strict=True))
    best = recertified("best", [best_problem(t, v) for t, v in pairs], "frobenius", result)
    W = result["W"]
    where = [standing(t, v, W[-1, b])[0] for b, (t, v) in enumerate(pairs)]
    cosines, against, total = [], 0, 0
    for b in np.flatnonzero(met):
        cosines.append(cosine(W[-1, b], best[b]))
        D = best[b].W
        for M in W[:, b]:
            total += 1
            against += D is None or descent_along(*pairs[b], M, D).sign <= 0
    others = [w == "global" for w, m in zip(where, met, strict=True) if not m]
    tests = (
        equals(
            "runs inside the condition that do not end at the best tokens",
            sum(w != "global" for w, m in zip(where, met, strict=True) if m),
            0,
        ),
        at_least(
            "least correlation to the certified direction",
            float(np.min(cosines, initial=np.inf)) if cosines else float("nan"),
            config["correlation"],
        ),
        equals(f"of {total} records, those where the loss does not fall along W^mm", against, 0),
        noted(
            "share of runs outside the condition that end at the best tokens",
            float(np.mean(others)) if others else float("nan"),
        ),
        at_most(
            "largest certified gap",
            worst_gap([c for c, m in zip(best, met, strict=True) if m]),
            1e-8,
        ),
    )
    premises = (
        f"{int(met.sum())} of {len(stack)} instances: the gradient at W = 0 prefers the best token "
        "of every input to each other one"
    )
    return Finding(tests, premises, int(met.sum()), worst_gap(best))


def plot(config: Config, result: Result) -> Figure:
    """1 − correlation to the best tokens' solution, inside and outside the condition."""
    from attsvm.claims.shared.drawing import CYCLE, panels

    _, _, met = _instances(config)
    figure, axes = panels(2, sharey=True)
    best, W = result["best.W"], result["W"][1:]
    norms = np.linalg.norm(W, axis=(2, 3)) * np.linalg.norm(best, axis=(1, 2))
    away = np.maximum(1 - np.einsum("rbij,bij->rb", W, best) / norms, 1e-9)
    for ax, here, title, colour in (
        (axes[0], met, "Condition met", CYCLE[0]),
        (axes[1], ~met, "Condition not met", CYCLE[1]),
    ):
        ax.loglog(result["steps"][1:], away[:, here], color=colour, linewidth=0.8, alpha=0.7)
        ax.set(xlabel="step", title=f"{title}: {int(here.sum())} instances")
    axes[0].set_ylabel("1 − correlation to the best tokens' solution")
    return figure


_FULL = {"shape": [3, 4, 24], "seeds": 150, "lr": 0.1, "steps": 3000, "correlation": 0.99}

CLAIM = Claim(
    id="B.initial-gradient-condition",
    title="A first gradient that prefers the best tokens",
    kind="theorem",
    trust="as recalled",
    statement="If the gradient at the start prefers the best token of every input to each other "
    "one, descent from there meets no stationary point and converges in direction to the "
    "max-margin solution of the best tokens.",
    full=_FULL,
    quick={**_FULL, "seeds": 50},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
)
