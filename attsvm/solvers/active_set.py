"""The dual active set on all rows at once, in the Frobenius norm: small problems, exactly."""

from __future__ import annotations

import numpy as np

from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.frobenius.dual_active_set import NO_SOLUTION, solve_small
from attsvm.solvers.frobenius.small import answer_small, met
from attsvm.solvers.solver import Answer, RowArrays


def by_active_set(
    problem: Problem, norm: Norm, *, tol: float = 0.0, budget: float = np.inf
) -> Answer:
    """The answer of the dual active set on all rows."""
    if not problem.ties and problem.smallest > 0:
        # The common case needs no copy of the rows.
        status, lam, W, short = solve_small(
            problem.differences(), problem.queries, problem.query, problem.row_norms, problem.b,
            np.zeros(problem.m, dtype=bool),
        )  # fmt: skip
        if status != NO_SOLUTION and met(short, W, problem.row_norms, problem.b):
            return Answer(W, lam, np.empty(0))
    return answer_small(RowArrays.of(problem))
