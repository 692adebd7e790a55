"""Descent with heads that keep several tokens: all cells of a config, in exact arithmetic or by the
published loop in plain floats, and the problems of the runs that are accepted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import Config, Result
from attsvm.experiments.studies.shared.published import EPS, plain_run
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.experiments.studies.shared.staying_tokens import (
    PARTS,
    StayingCell,
    cells,
    head_of_rows,
    instances,
    judged_records,
    kept_tokens,
    limit_of,
    problems,
)
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.training.heads import Head

# Records of a run that are kept.
_KEPT = 24


def _moving(stack: Sequence[Tokens], head: Head) -> list[int]:
    """The instances with a gradient at W = 0. Where no unit of a ReLU head sees any input there is
    none: W stays at zero, and the filter drops the run."""
    if not stack:
        return []
    pooled = np.stack([np.asarray(tokens.X).mean(axis=1) for tokens in stack])
    return np.flatnonzero(head.gradient(pooled).any(axis=(1, 2))).tolist()


def records(config: Config, steps: Ints) -> list[int]:
    """The records that are kept, those nearest to the steps that are judged among them."""
    spread = np.linspace(1, len(steps) - 1, _KEPT).round().astype(int)
    judged = [int(np.abs(steps - share * config["steps"]).argmin()) for share in config["at"]]
    return sorted({*spread.tolist(), *judged})


def run(config: Config) -> Result:
    """Descent from W = 0 in every cell, and the problems of the accepted runs."""
    out: Result = {}
    for loop in config["loops"]:
        out |= _run_loop(config, loop)
    return out


def _run_loop(config: Config, loop: str) -> Result:
    """The cells of one loop, in one stack: zeros added to tokens and heads of smaller dimensions
    change nothing, since W = 0 never leaves their span."""
    d = max(config["dimensions"])
    here = [cell for cell in cells(config) if cell.loop == loop]
    made = {cell: instances(config, cell) for cell in here}
    moving = {cell: _moving(*made[cell]) for cell in here}
    stack = [_widened(made[cell][0][b], d) for cell in here for b in moving[cell]]
    steps, W = np.zeros(1, dtype=np.int64), np.zeros((1, 0, d, d))
    if stack:
        rows = [getattr(h := made[cell][1], h.block)[moving[cell]] for cell in here]
        steps, W = _descended(config, loop, stack, head_of_rows(config, np.concatenate(
            [_grown(block, d) for block in rows]
        )))  # fmt: skip
    out: Result = {}
    start = 0
    for cell in here:
        end, k = start + len(moving[cell]), cell.d
        found = np.zeros((len(steps), len(made[cell][0]), k, k))
        found[:, moving[cell]] = W[:, start:end, :k, :k]
        out |= {f"{cell.name}.steps": steps, f"{cell.name}.W": found}
        out |= _solved(config, cell, made[cell], steps, found)
        start = end
    return out


def _solved(
    config: Config, cell: StayingCell, made: tuple[list[Tokens], Head], steps: Ints, W: Floats
) -> Result:
    """The solutions of the accepted runs of a cell, at each judged record."""
    out: Result = {}
    stack, head = made
    for k in judged_records(config, steps):
        solved: dict[str, list[Certificate]] = {part: [] for part in PARTS}
        for b, tokens in enumerate(stack):
            s = attention(tokens, W[k, b])
            kept = kept_tokens(config, tokens, head, b, s)
            if kept is not None:
                s = limit_of(tokens, head, b, kept, s)
                for part, problem in problems(tokens, kept, s).items():
                    solved[part].append(solve(problem))
        for part in PARTS:
            out |= _padded(f"{cell.name}.{steps[k]}.{part}", solved[part], (cell.d, cell.d))
    return out


def _widened(tokens: Tokens, d: int) -> Tokens:
    """The tokens and queries with zeros up to dimension d."""
    X, z = _grown(np.asarray(tokens.X), d, axes=(2,)), _grown(tokens.queries, d, axes=(1,))
    return Tokens(X, queries=z, labels=tokens.labels)


def _grown(a: Floats, d: int, axes: tuple[int, ...] = ()) -> Floats:
    """The array with zeros up to d along these axes; without them along all but the first."""
    axes = axes or tuple(range(1, a.ndim))
    return np.pad(a, [(0, d - n if k in axes else 0) for k, n in enumerate(a.shape)])


def _descended(config: Config, loop: str, stack: list[Tokens], head: Head) -> tuple[Ints, Floats]:
    """The steps of the kept records and the weights there (R, B, d, d), by one loop."""
    if loop == "exact":
        given = {"optimizer": config["optimizer"], "lr": config["lr"], "steps": config["steps"]}
        path = train(stack, head=head, **given)
        keep = records(config, path.steps)
        return path.steps[keep], path.weights["W"][keep]
    steps = np.unique(np.geomspace(1, config["steps"], 4 * _KEPT).round().astype(np.int64))
    steps = steps[records(config, steps)]
    start = np.zeros((len(stack), stack[0].d, stack[0].d))
    return steps, plain_run(stack, head, start, lr=config["lr"], marks=steps, eps=EPS)


def _padded(name: str, found: Sequence[Certificate], shape: tuple[int, int]) -> Result:
    """Solutions of problems of several sizes, multipliers padded with zeros."""
    m = max((c.problem.m for c in found), default=0)
    ties = max((c.problem.ties for c in found), default=0)
    W, lam = np.full((len(found), *shape), np.nan), np.zeros((len(found), m))
    mu = np.zeros((len(found), ties))
    for k, c in enumerate(found):
        W[k] = np.nan if c.W is None else c.W
        lam[k, : c.problem.m], mu[k, : c.problem.ties] = c.multipliers, c.tie_multipliers
    return {f"{name}.W": W, f"{name}.multipliers": lam, f"{name}.ties": mu}
