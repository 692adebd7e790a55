"""SciPy's non-negative least squares on the least-distance form.

    min ‖Fᵀu‖² + (1 − 1ᵀu)²  over u ≥ 0;      W = Fᵀu / (1 − 1ᵀu),   λ ∝ u

with the rows Δ zᵀ as vectors F (m, d·dq). Theory: Lawson and Hanson, Solving Least Squares
Problems (1974), chapter 23.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from benchmarks.task import Answer, Task


def answer(task: Task) -> list[Answer]:
    """The answer of the least-distance form to each problem."""
    return [_one(task, k) for k in range(task.stack)]


def _one(task: Task, k: int) -> Answer:
    F = task.features(k)
    E = np.vstack([F.T, np.ones(len(F))])
    goal = np.zeros(len(E))
    goal[-1] = 1.0
    try:
        u, _ = nnls(E, goal)
    except RuntimeError:  # it ran out of iterations
        return Answer(None, None)
    residual = goal - E @ u
    if not residual[-1] > 0:
        return Answer(None, u)
    W = -residual[:-1] / residual[-1]
    return Answer(W.reshape(task.X.shape[3], -1), u)
