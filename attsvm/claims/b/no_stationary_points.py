"""B: where every margin is tight, the loss falls along the max-margin direction everywhere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

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
from attsvm.claims.shared.proof import recertified, saved_solutions, worst_gap
from attsvm.claims.shared.random_instances import attention, best_problem, compact
from attsvm.claims.shared.work import searched, solve
from attsvm.ground.arrays import Floats
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.landscape import LeastCosine, all_tight, descent_along, least_descent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(config: Config) -> Result:
    """The point of least descent along W^mm that samples and a local search find, by instance."""
    out: Result = {}
    for d in config["dimensions"]:
        best, points, sampled = [], [], []
        for seed in seeds_of(config):
            tokens, v = compact([*config["size"], d], seed)
            best.append(solve(best_problem(tokens, v)))
            if best[-1].W is None:
                points.append(np.full(best[-1].problem.shape, np.nan))
                sampled.append(np.nan)
                continue
            ask = partial(
                least_descent,
                tokens,
                v,
                best[-1],
                radius=config["radius"],
                seed=seed,
                samples=config["samples"],
                rounds=config["rounds"],
            )
            found = searched(ask, _read, {"W": best[-1].problem.shape, "sampled": ()})
            points.append(found["W"])
            sampled.append(float(found["sampled"]))
        out |= {f"{d}.W": np.stack(points), f"{d}.sampled": np.array(sampled)}
        out |= saved_solutions(f"{d}.best", best)
    return out


def _read(found: LeastCosine) -> Result:
    return {"W": found.W, "sampled": np.array(found.sampled)}


def _formula(tokens: Tokens, v: Any, W: Floats) -> float:
    """(1/n) Σ |ℓ'| s_opt (γ_opt − f) of the logistic loss."""
    s, scores = attention(tokens, W), tokens.scores(v)
    top = Selection.best(tokens, v).indices
    rows = np.arange(tokens.n)
    f = (s * scores).sum(axis=1)
    short = (s * (scores[rows, top][:, None] - scores)).sum(axis=1)
    return float(np.mean(s[rows, top] * short / (1 + np.exp(f))))


def _size(tokens: Tokens, v: Any, W: Floats, D: Floats) -> tuple[float, float]:
    """−⟨∇L(W), D⟩ and the same as a share of ‖∇L(W)‖‖D‖, by its parts along the unit matrices."""
    value = descent_along(tokens, v, W, D).value
    basis = np.eye(D.size).reshape(-1, *D.shape)
    gradient = np.array([descent_along(tokens, v, W, E).value for E in basis])
    return value, value / float(np.linalg.norm(gradient) * np.linalg.norm(D))


def check(config: Config, result: Result) -> Finding:
    """Descent is positive at the worst point of every all-tight instance, and as derived."""
    tight = loose = witnesses = rising = 0
    error, least, gap, edge = 0.0, np.inf, 0.0, np.inf
    for d in config["dimensions"]:
        pairs = [compact([*config["size"], d], seed) for seed in seeds_of(config)]
        best = recertified(f"{d}.best", [best_problem(*p) for p in pairs], "frobenius", result)
        for (tokens, v), c, W in zip(pairs, best, result[f"{d}.W"], strict=True):
            if c.status == "inseparable":
                continue
            gap = max(gap, worst_gap([c]))
            if c.W is None:
                continue
            value = descent_along(tokens, v, W, c.W)
            if all_tight(c) is True:
                tight += 1
                rising += value.sign <= 0
                wanted = _formula(tokens, v, W)
                error = max(error, abs(value.value - wanted))
                least = min(least, value.value)
            elif all_tight(c) is False:
                loose += 1
                witnesses += value.sign < 0
                edge = min(edge, value.value)
    tests = (
        at_least("all-tight instances", tight, 1),
        equals("of them with a point where the loss does not fall along W^mm", rising, 0),
        # Both are sums of a dozen products of size up to 1: rounding of 1e-15 each.
        at_most("largest difference from the derived formula", error, 1e-13),
        noted("least −⟨∇L, W^mm⟩ found on them", least),
        # That it can fail is shown by one point.
        at_least(
            "instances with a loose margin and a point where the loss rises along W^mm",
            witnesses,
            1,
        ),
        noted(
            "the same as a share of the instances with a loose margin", witnesses / max(loose, 1)
        ),
        noted("least −⟨∇L, W^mm⟩ found on those", edge),
        at_most("largest certified gap", gap, norm_of("frobenius").tolerance),
    )
    points = config["samples"] + 128 * config["rounds"]
    premises = (
        f"{tight} instances with all margins tight are judged by the theorem, {loose} with a "
        f"loose one by whether it can fail; {points} points each, ‖W‖ up to {config['radius']:g}"
    )
    return Finding(tests, premises, tight, gap)


def plot(config: Config, result: Result) -> Figure:
    """The least cosine found on each instance, by dimension, all-tight ones apart."""
    from attsvm.claims.shared.drawing import CYCLE, level, panels

    figure, (ax,) = panels(1, figsize=(7.5, 4.6))
    for k, d in enumerate(config["dimensions"]):
        pairs = [compact([*config["size"], d], seed) for seed in seeds_of(config)]
        best = recertified(f"{d}.best", [best_problem(*p) for p in pairs], "frobenius", result)
        for j, (p, c, W) in enumerate(zip(pairs, best, result[f"{d}.W"], strict=True)):
            if c.W is None or all_tight(c) is None:
                continue
            value = _size(*p, W, c.W)[1]
            place = k + 0.5 * (j / max(len(pairs) - 1, 1) - 0.5)
            ax.plot(
                place,
                value,
                "o" if all_tight(c) else "x",
                markersize=5,
                color=CYCLE[0] if all_tight(c) else CYCLE[1],
            )
    level(ax, 0.0)
    ax.plot([], [], "o", color=CYCLE[0], label="all margins tight")
    ax.plot([], [], "x", color=CYCLE[1], label="some margin loose")
    ax.set_xticks(range(len(config["dimensions"])), [str(d) for d in config["dimensions"]])
    ax.set_yscale("symlog", linthresh=1e-14)
    ax.set(
        xlabel="d (one mark per instance)",
        ylabel="least cosine of −∇L with W^mm found",
        title="Does the loss fall along W^mm everywhere?",
    )
    ax.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


_FULL = {
    "size": [3, 4],
    "dimensions": [3, 6, 12, 50, 200],
    "seeds": 30,
    "radius": 30.0,
    "samples": 1000,
    "rounds": 40,
}

CLAIM = Claim(
    id="B.no-stationary-points",
    title="No stationary point where all margins are tight",
    kind="theorem",
    trust="derived",
    statement="If every margin is tight at the max-margin W of the best tokens, then −⟨∇L(W), "
    "W^mm⟩ = (1/n) Σ |ℓ'| s_opt (γ_opt − f) is positive at every W, so that there is no stationary "
    "point, whatever the scores. Where a margin is loose this can fail.",
    full=_FULL,
    quick={**_FULL, "dimensions": [3, 200], "seeds": 8, "samples": 300, "rounds": 20},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
)
