"""Plain descent from random starts on instances of equal scores, and where it is proved to end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import Config, Result, seeds_of
from attsvm.experiments.studies.shared.plain_descent import (
    FinalState,
    equal_scored,
    proved_ends,
    safe_step,
)
from attsvm.experiments.studies.shared.proof import recertified, saved_solutions, selected
from attsvm.experiments.studies.shared.random_instances import best_problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many

# Records kept of each run.
_RECORDS = 25


def shape_name(shape: Sequence[int]) -> str:
    """n.T.d."""
    return ".".join(map(str, shape))


def equal_stack(config: Config, shape: Sequence[int]) -> tuple[list[Tokens], Floats]:
    """The instances of equal scores of a config, and their heads (B, d)."""
    pairs = [equal_scored(shape, seed) for seed in seeds_of(config)]
    return [t for t, _ in pairs], np.stack([v for _, v in pairs])


def _starts(config: Config, shape: Sequence[int]) -> tuple[Floats, Floats]:
    """The deviations (B,) of the starts, uniform up to the widest, and the starts (B, d, d)."""
    d, count = shape[2], len(seeds_of(config))
    draw = np.random.default_rng([config["start"], *shape])
    size = config["widest"] * draw.uniform(size=count)
    return size, size[:, None, None] * draw.standard_normal((count, d, d))


def kept_records(steps: Ints) -> Ints:
    """The records that are kept, the first and the last among them."""
    return np.unique(np.linspace(0, len(steps) - 1, _RECORDS).round().astype(int))


def random_runs(config: Config, shape: Sequence[int]) -> Result:
    """Plain descent from random starts, then normalized steps, which follow the same flow."""
    stack, heads = equal_stack(config, shape)
    name = f"random.{shape_name(shape)}"
    _, starts = _starts(config, shape)
    lr = safe_step(stack, heads)
    path = train(
        stack, head=heads, optimizer="gd", lr=lr, steps=config["random_steps"], init={"W": starts}
    )
    rows = kept_records(path.steps)
    flow = train(
        stack,
        head=heads,
        optimizer="ngd",
        lr=config["flow_lr"],
        steps=config["flow_steps"],
        init={"W": path.weights["W"][-1]},
    )
    problems = [best_problem(t, v) for t, v in zip(stack, heads, strict=True)]
    return {
        f"{name}.steps": path.steps[rows],
        f"{name}.W": path.weights["W"][rows],
        f"{name}.loss": path.loss[rows],
        f"{name}.flow": flow.weights["W"][-1],
        **saved_solutions(f"{name}.best", solve_many(problems)),
    }


class RandomEnds:
    """What the random runs of one shape show."""

    def __init__(self, config: Config, result: Result, shape: Sequence[int]) -> None:
        stack, heads = equal_stack(config, shape)
        name, lr = f"random.{shape_name(shape)}", safe_step(stack, heads)
        problems = [best_problem(t, v) for t, v in zip(stack, heads, strict=True)]
        best = recertified(f"{name}.best", problems, "frobenius", result)
        # Theorem 4 asks that the best tokens can be separated.
        inside = np.array([c.status != "infeasible" for c in best])
        W, loss = result[f"{name}.W"][:, inside], result[f"{name}.loss"][:, inside]
        self.best: list[Certificate] = [c for c, i in zip(best, inside, strict=True) if i]
        self.size = _starts(config, shape)[0][inside]
        places = np.flatnonzero(inside)
        stack, heads = [stack[b] for b in places], heads[places]
        self.ends: list[FinalState] = proved_ends(stack, heads, W[-1], lr)
        flow = proved_ends(stack, heads, result[f"{name}.flow"][places], lr)
        # What is proved of the descent itself stays; the flow tells of the rest.
        self.later: list[FinalState] = [
            a if a != "open" else b for a, b in zip(self.ends, flow, strict=True)
        ]
        top = [Selection.best(t, v).indices for t, v in zip(stack, heads, strict=True)]
        self.never = sum(
            not any((selected(t, M) == a).all() for M in W[:, b])
            for b, (t, a) in enumerate(zip(stack, top, strict=True))
        )
        # A loss near its infimum, and a part along W^mm that hardly grows, move by rounding.
        self.rises = int((np.diff(loss, axis=0) > 1e-15).any(axis=0).sum())
        self.shrinks = sum(_shrinks(W[:, b], c) for b, c in enumerate(self.best))

    def share(self, ends: Sequence[FinalState], what: FinalState) -> float:
        """The share of runs with this end; nan without runs."""
        return ends.count(what) / len(ends) if ends else float("nan")


def _shrinks(W: Floats, best: Certificate) -> bool:
    """Whether the part of W (R, d, d) along W^mm ever falls by more than rounding."""
    if best.W is None:
        return True
    along = np.einsum("rij,ij->r", W, np.asarray(best.W))
    return bool((np.diff(along) < -1e-12 * (1 + np.abs(along[1:]))).any())
