"""Coordinate descent and Newton steps on a working set, in the Frobenius norm: many rows."""

from __future__ import annotations

import numpy as np

from attsvm.ground.memory import HEADROOM, available
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.frobenius.large import MEMORY, solve_rows
from attsvm.solvers.solver import Answer


def by_newton_steps(
    problem: Problem,
    norm: Norm,
    *,
    tol: float,
    budget: float = np.inf,
) -> Answer:
    """The answer of coordinate descent and Newton steps on a working set; takes a budget."""
    right = np.concatenate([problem.b, problem.c])
    W, lam = solve_rows(
        problem.keys,
        problem.queries,
        np.concatenate([problem.hi, problem.tie_hi]),
        np.concatenate([problem.lo, problem.tie_lo]),
        np.concatenate([problem.query, problem.tie_query]),
        right,
        free=np.arange(problem.m + problem.ties) >= problem.m,
        tol=0.1 * tol,
        budget=budget,
        memory=min(MEMORY, HEADROOM * available()),
    )
    proof = not W.any() and np.isinf(budget) and float(right @ lam) > 0
    return Answer(None if proof else W, lam[: problem.m], lam[problem.m :], proof)
