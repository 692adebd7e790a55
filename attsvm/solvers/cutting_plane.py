"""The active set on a growing working set, in the Frobenius norm: few unknowns, many rows.

The most violated rows are added; with D = d·dq unknowns no more than D rows are ever active,
whatever the number of margins.
"""

from __future__ import annotations

import numpy as np

from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.frobenius.small import answer_small
from attsvm.solvers.solver import Answer, RowArrays


def by_cutting_planes(
    problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf
) -> Answer:
    """The answer of the active set on a working set that grows by the most violated rows."""
    D = problem.shape[0] * problem.shape[1]
    batch = max(2 * D, 60)
    live = problem.row_norms > 0
    unit = np.where(live, problem.row_norms, 1.0)
    # The first guess: the mean of the rows.
    W = problem.adjoint(np.where(live, 1.0 / unit, 0.0))
    working = np.empty(0, np.int64)
    lam = np.zeros(problem.m)
    answer = Answer(W, lam, np.zeros(problem.ties))
    for _ in range(500):
        violation = np.where(live, (problem.b - problem.margins(W)) / unit, -np.inf)
        size = float(np.linalg.norm(W))
        if len(working) and float(violation.max()) <= max(1e-14, 0.05 * tol) * size:
            break
        count = min(batch, problem.m)
        new = np.argpartition(-violation, count - 1)[:count]
        grown = np.union1d(working[lam[working] > 0], new)
        if len(working) and len(np.setdiff1d(grown, working)) == 0:
            break  # nothing new is violated beyond what rounding explains
        working = grown
        rows = RowArrays.of(problem, working)
        answer = answer_small(rows)
        if answer.proof or answer.W is None:
            break
        lam, W = answer.multipliers, answer.W
    return answer
