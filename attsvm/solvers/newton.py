"""Coordinate descent and Newton steps on a working set, in the Frobenius norm: many rows."""

from __future__ import annotations

import numpy as np

from attsvm._utils.memory import HEADROOM, available
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.frobenius.large import MEMORY, solve_rows
from attsvm.solvers.frobenius.span import in_span
from attsvm.solvers.solver import Answer

# What the descent is asked for, as a share of the gap: its own bounds leave rounding out, and are
# rough for ties and soft margins. Much of the time of a wide tolerance would go into that share.
SHARE = 0.1
WIDE, WIDE_SHARE = 1e-6, 0.9


def by_newton_steps(
    problem: Problem,
    norm: Norm,
    *,
    tol: float,
    budget: float = np.inf,
) -> Answer:
    """The answer of coordinate descent and Newton steps on a working set; takes a budget.

    Whatever the norm is called: the answer is that of the Frobenius norm, sought in the span of the
    queries.
    """
    problem, basis = in_span(problem)
    wide = tol >= WIDE and problem.scalable and np.isinf(budget)
    right = np.concatenate([problem.b, problem.c])
    W, lam = solve_rows(
        problem.keys,
        problem.queries,
        np.concatenate([problem.hi, problem.tie_hi]),
        np.concatenate([problem.lo, problem.tie_lo]),
        np.concatenate([problem.query, problem.tie_query]),
        right,
        free=np.arange(problem.m + problem.ties) >= problem.m,
        tol=(WIDE_SHARE if wide else SHARE) * tol,
        budget=budget,
        memory=min(MEMORY, HEADROOM * available()),
    )
    proof = not W.any() and np.isinf(budget) and float(right @ lam) > 0
    W = W if basis is None else W @ basis.T
    return Answer(None if proof else W, lam[: problem.m], lam[problem.m :], proof)
