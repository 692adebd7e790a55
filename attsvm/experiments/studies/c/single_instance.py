"""C: one instance, all exponents from W = 0: the same tokens, each in its own direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    noted,
)
from attsvm.experiments.studies.shared.mirror_runs import compared, run
from attsvm.experiments.studies.shared.published import published_instance
from attsvm.problem.selection import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check(config: Config, result: Result) -> Finding:
    """Every exponent selects the best tokens and ends nearest to its own solution."""
    found = compared(config, result)
    tokens, v = published_instance(config["seeds"][0])
    best = Selection.best(tokens, v).indices
    tests = [
        equals(
            "inputs whose best token is the published one",
            int((best == np.array(config["alpha"])).sum()),
            tokens.n,
        )
    ]
    for p in config["steps"]:
        end = {q: float(found.divergence[p, q][-1, 0]) for q in config["steps"]}
        tests += [
            equals(
                f"p = {p}: inputs that select their best token",
                int((found.alpha[p][0] == best).sum()),
                tokens.n,
            ),
            at_most(f"p = {p}: own divergence", end[p], config["most"]),
            at_least(
                f"p = {p}: least other divergence over the own",
                min(d for q, d in end.items() if q != p) / end[p],
                1.0,
            ),
            *(noted(f"p = {p}: divergence to ℓ{q}", d) for q, d in end.items() if q != p),
        ]
    tests.append(at_most("largest certified gap", found.gap, 1e-6))
    return Finding(tuple(tests), "the published instance of seed 1, from W = 0", 1, found.gap)


def plot(config: Config, result: Result) -> Figure:
    """Two entries of W along the runs, and the divergences over the iterations."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    found = compared(config, result)
    figure, (left, right) = panels(2)
    for k, p in enumerate(config["steps"]):
        W, best = result[f"{p}.W"][:, 0], result[f"{p}.best.W"][0]
        x, y = W[:, 1, 2], W[:, 3, 4]
        far = float(np.hypot(x[-1], y[-1]))
        ray = np.array([best[1, 2], best[3, 4]])
        ray = ray / np.linalg.norm(ray)
        left.plot(x / far, y / far, ".-", color=CYCLE[k], markersize=3, label=f"p = {p}")
        left.plot(
            [0, ray[0]],
            [0, ray[1]],
            "--",
            color=CYCLE[k],
            linewidth=1,
            label=f"certified ℓ{p} direction",
        )
        right.loglog(
            result[f"{p}.steps"][1:],
            found.divergence[p, p][1:, 0],
            color=CYCLE[k],
            label=f"p = {p} to ℓ{p}",
        )
        other = [found.divergence[p, q][1:, 0] for q in config["steps"] if q != p]
        right.loglog(
            result[f"{p}.steps"][1:],
            np.min(other, axis=0),
            ":",
            color=CYCLE[k],
            label=f"p = {p} to the nearest other",
        )
    left.set(xlabel="W₁₂ (a share of the final length)", ylabel="W₃₄", title="Two entries of W")
    right.set(
        xlabel="iteration", ylabel="directional divergence", title="Distance to the solutions"
    )
    left.legend(frameon=False, fontsize=7.5)
    right.legend(frameon=False, fontsize=7.5)
    return figure


_FULL = {
    "seeds": [1],
    "seed": 0,
    "own_starts": {},
    "init": "zero",
    "lr": 0.1,
    "steps": {"1.75": 1500, "2": 2000, "3": 20_000},
    "alpha": [3, 2, 6, 2, 6, 2],
    "most": 0.006,
}

CLAIM = Claim(
    id="C.single-instance",
    title="One instance: same tokens, three directions",
    kind="figure",
    trust="code",
    statement="On the published single instance, started from W = 0, normalized mirror descent "
    "selects the best token of every input for p = 1.75, 2 and 3, and its direction ends nearest "
    "to the ℓp solution of its own exponent.",
    full=_FULL,
    quick={**_FULL, "steps": {"1.75": 1500, "2": 2000, "3": 10_000}},
    run=run,
    check=check,
    plot=plot,
    fixed=True,
    reference="julistiono2024mirror",
    size="as published",
)
