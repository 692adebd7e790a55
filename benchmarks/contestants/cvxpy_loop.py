"""The published way: cvxpy with one Python constraint a row, the norm as objective, defaults."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.norms import norm_of
from attsvm.norms.entrywise import LpNorm
from benchmarks.task import Answer, Task


def answer(task: Task) -> list[Answer]:
    """The answer of cvxpy's default solver to each problem."""
    import cvxpy as cp

    return [_one(cp, task, k) for k in range(task.stack)]


def _one(cp: Any, task: Task, k: int) -> Answer:
    X, alpha = task.X[k], task.alpha[k]
    n, T, d = X.shape
    rows = []
    if task.z is None:
        W = cp.Variable(d)
        for i in range(n):
            for t in range(T):
                if t != alpha[i]:
                    rows.append((X[i, alpha[i]] - X[i, t]) @ W >= 1)
    else:
        z = task.z[k]
        W = cp.Variable((d, z.shape[1]))
        for i in range(n):
            for t in range(T):
                if t != alpha[i]:
                    rows.append((X[i, alpha[i]] - X[i, t]) @ W @ z[i] >= 1)
    program = cp.Problem(cp.Minimize(objective(cp, W, task.norm)), rows)
    return finish(cp, program, W, rows)


def objective(cp: Any, W: Any, name: str) -> Any:
    """The norm of this name as papers write it in cvxpy."""
    norm = norm_of(name)
    if W.ndim == 1:
        return cp.norm(W)
    if isinstance(norm, LpNorm):
        return cp.pnorm(cp.vec(W, order="C"), norm.p)
    return cp.norm(W, {"frobenius": "fro", "nuclear": "nuc"}[norm.name])


def finish(cp: Any, program: Any, W: Any, rows: list[Any]) -> Answer:
    """The answer of a program once it has been solved; an empty one when its solver gave up."""
    try:
        program.solve()
    except cp.error.SolverError:
        return Answer(None, None)
    solver = str(program.solver_stats.solver_name)
    if W.value is None:
        return Answer(None, None, solver=solver)
    found = np.asarray(W.value, dtype=np.float64)
    found = found[:, None] if found.ndim == 1 else found
    if any(row.dual_value is None for row in rows):
        return Answer(found, None, solver=solver)
    parts = [np.atleast_1d(np.asarray(row.dual_value, dtype=np.float64)) for row in rows]
    return Answer(found, np.concatenate(parts), solver=solver)
