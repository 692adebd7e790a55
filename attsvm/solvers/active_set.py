"""The dual active set on all rows at once, in the Frobenius norm: small problems, exactly."""

from __future__ import annotations

import numpy as np

from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.frobenius.small import answer_small
from attsvm.solvers.frobenius.stacked import solve_small
from attsvm.solvers.solver import Answer, RowArrays


def by_active_set(
    problem: Problem, norm: Norm, *, tol: float = 0.0, budget: float = np.inf
) -> Answer:
    """The answer of the dual active set on all rows."""
    if not problem.ties and problem.smallest > 0:
        # The common case needs no copy of the rows.
        found = solve_small(problem.stacked, np.zeros(problem.m, dtype=bool))
        if found.met:
            return Answer(found.W, found.lam, np.empty(0))
    return answer_small(RowArrays.of(problem))
