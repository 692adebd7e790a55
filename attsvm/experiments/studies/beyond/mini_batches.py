"""Beyond: normalized descent along small batches leaves the max-margin direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_least,
    at_most,
    noted,
    seeds_of,
)
from attsvm.experiments.studies.shared.majority import mostly
from attsvm.experiments.studies.shared.mini_batches import SCALES, batch_descent
from attsvm.experiments.studies.shared.proof import cosine, recertified, saved_solutions, worst_gap
from attsvm.experiments.studies.shared.random_instances import best_problem, stacked
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _drawn(config: Config) -> tuple[list[Tokens], Floats]:
    return stacked(config["shape"], seeds_of(config), equal_scores=True)


def _problems(config: Config) -> list[Problem]:
    return [best_problem(t, v) for t, v in zip(*_drawn(config), strict=True)]


def run(config: Config) -> Result:
    """The last W of every scale and size of batch, and the solutions of the best tokens."""
    stack, heads = _drawn(config)
    out: Result = saved_solutions("best", solve_many(_problems(config)))
    for scale in SCALES:
        for batch in config["batches"]:
            out[f"{scale} {batch}"] = batch_descent(
                stack,
                heads,
                seeds_of(config),
                batch=batch,
                scale=scale,
                lr=config["lr"],
                steps=config["steps"],
            )
    return out


def _cosines(config: Config, result: Result, best: list[Certificate]) -> dict[str, Floats]:
    """The correlation (B,) of each run's last W with its solution, by scale and batch."""
    return {
        f"{scale} {batch}": np.array(
            [cosine(W, c) for W, c in zip(result[f"{scale} {batch}"], best, strict=True)]
        )
        for scale in SCALES
        for batch in config["batches"]
    }


def check(config: Config, result: Result) -> Finding:
    """Correlations rise with the batch; those of steps scaled by the full gradient hardly move."""
    best = recertified("best", _problems(config), "frobenius", result)
    seen = _cosines(config, result, best)
    one, every = min(config["batches"]), max(config["batches"])
    gap = worst_gap(best)
    tests: list[Test] = [
        noted(f"{name}: median correlation with the solution", float(np.median(values)))
        for name, values in seen.items()
    ]
    middle = {name: float(np.median(values)) for name, values in seen.items()}
    row = [middle[f"own {batch}"] for batch in sorted(config["batches"])]
    tests += [
        mostly(
            f"own scale: batches of {one} are further away than all inputs",
            (seen[f"own {one}"] < seen[f"own {every}"]).tolist(),
        ),
        mostly(
            f"batches of {one}: own scale is further away than that of the full gradient",
            (seen[f"own {one}"] < seen[f"full {one}"]).tolist(),
        ),
        at_least("own scale: least rise of the median with the batch", min(np.diff(row)), 0.0),
        at_least(
            f"own scale: loss of the median from all inputs to {one}", row[-1] - row[0],
            config["lost"],
        ),
        at_most(
            f"full scale: the same, {one} instead of all",
            middle[f"full {every}"] - middle[f"full {one}"],
            config["kept"],
        ),
        at_most(
            "all inputs: largest difference of the two scales",
            float(np.abs(result[f"own {every}"] - result[f"full {every}"]).max()),
            1e-6,
        ),
        at_most("largest certified gap", gap, norm_of("frobenius").tolerance),
    ]  # fmt: skip
    count = len(best)
    premises = (
        f"{count} instances of (n, T, d) = {tuple(config['shape'])} with equal non-optimal scores, "
        f"{config['steps']} steps each"
    )
    return Finding(tuple(tests), premises, count, gap)


def plot(config: Config, result: Result) -> Figure:
    """The correlation over the size of the batch, for both scales."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, panels

    best = recertified("best", _problems(config), "frobenius", result)
    seen = _cosines(config, result, best)
    figure, (axes,) = panels(1, figsize=(6.5, 4.2))
    names = {"own": "scaled by its own norm", "full": "scaled by the full gradient's norm"}
    for k, scale in enumerate(SCALES):
        rows = np.stack([seen[f"{scale} {batch}"] for batch in config["batches"]])
        band(axes, config["batches"], rows, colour=CYCLE[k], label=names[scale])
    axes.set(
        xlabel=f"inputs in a batch, of {config['shape'][0]}",
        ylabel="correlation with the solution",
        title="Steps along the gradients of random batches",
    )
    axes.legend(frameon=False, fontsize=7.5, loc="lower right")
    return figure


_FULL = {
    "shape": [8, 4, 6],
    "seeds": 30,
    "batches": [1, 2, 4, 8],
    "lr": 0.1,
    # A run in a thousand steps is the same on any processor; some are not stable later on.
    "steps": 1000,
    "lost": 0.05,
    "kept": 0.01,
}

CLAIM = Claim(
    id="beyond.mini-batches",
    title="Normalizing the gradients of small batches leaves the max-margin direction",
    kind="question",
    trust="measured",
    statement="Normalized descent along the gradients of random batches of inputs ends the further "
    "from the max-margin direction the smaller the batch: scaled to its own length, a batch pulls "
    "on inputs alike that the full gradient would leave to their small losses. Scaled by the norm "
    "of the full gradient, batches of one input end as near to it as the full gradient.",
    full=_FULL,
    quick={**_FULL, "seeds": 10, "batches": [1, 4, 8], "steps": 600, "kept": 0.02},
    run=run,
    check=check,
    plot=plot,
)
