"""cvxpy at its best: all rows in one constraint, and the faster of the two Frobenius objectives.

Half the squared norm makes a quadratic program, solved several times faster here than the cone
program of the norm itself; but with few unknowns and many rows (the prompt form) its default
solver stops short after a longer time, so there the norm stays.
"""

from __future__ import annotations

from typing import Any

from benchmarks.contestants.cvxpy_loop import finish, objective
from benchmarks.task import Answer, Task


def answer(task: Task) -> list[Answer]:
    """The answer of cvxpy's default solver to each problem."""
    import cvxpy as cp

    return [_one(cp, task, k) for k in range(task.stack)]


def _one(cp: Any, task: Task, k: int) -> Answer:
    D, Z = task.rows(k)
    if task.z is None:
        W = cp.Variable(D.shape[1])
        rows = [D @ W >= 1]
    else:
        W = cp.Variable((D.shape[1], Z.shape[1]))
        rows = [cp.sum(cp.multiply(D @ W, Z), axis=1) >= 1]
    if task.norm == "frobenius" and task.z is not None:
        goal = cp.sum_squares(W) / 2
    else:
        goal = objective(cp, W, task.norm)
    return finish(cp, cp.Problem(cp.Minimize(goal), rows), W, rows)
