"""cvxpy as an optional second opinion, graded by the same certificate.

It is never needed at run time: the extra `bench` brings it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.version import install
from attsvm.errors import Unsupported
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.solver import Answer

_FAILED = ("infeasible", "infeasible_inaccurate")


def by_cvxpy(
    problem: Problem,
    norm: Norm,
    *,
    tol: float,
    budget: float = np.inf,
    **options: Any,
) -> Answer:
    """The answer of cvxpy's default solver, all rows in one vectorised constraint."""
    if norm.cvxpy is None:
        raise Unsupported(f"norm {norm.name} does not say what it is in cvxpy: give it `cvxpy`")
    try:
        import cvxpy as cp
    except ImportError as error:
        raise Unsupported(f"solver 'cvxpy' needs cvxpy: {install('bench')}") from error
    W = cp.Variable(problem.shape)
    margins = _expression(cp, W, problem.differences(), problem.queries[problem.query])
    ties = _expression(cp, W, problem.tie_differences(), problem.queries[problem.tie_query])
    soft = np.isfinite(budget)
    slack = cp.Variable(problem.m, nonneg=True) if soft else 0.0
    rows = [margins + slack >= problem.b] if problem.m else []
    equal = [ties == problem.c] if problem.ties else []
    value = norm.cvxpy(cp, W)
    goal = cp.square(value) / 2 + budget * cp.sum(slack) if soft else value
    program = cp.Problem(cp.Minimize(goal), rows + equal)
    try:
        program.solve(**options)
    except cp.error.SolverError:
        return Answer(None, np.zeros(problem.m), np.zeros(problem.ties))
    lam = _dual(rows, problem.m)
    mu = -_dual(equal, problem.ties)
    if program.status in _FAILED:
        return Answer(None, np.maximum(lam, 0.0), mu, True)
    found = None if W.value is None else np.asarray(W.value).reshape(problem.shape)
    return Answer(found, np.maximum(lam, 0.0), mu)


def _expression(cp: Any, W: Any, D: Any, Z: Any) -> Any:
    """Δ_kᵀ W z_k of every row as one expression (k,)."""
    return cp.sum(cp.multiply(D @ W, Z), axis=1) if len(D) else None


def _dual(constraints: list[Any], size: int) -> Any:
    """The multipliers of a constraint, zero where the solver gave none."""
    if not constraints or constraints[0].dual_value is None:
        return np.zeros(size)
    return np.asarray(constraints[0].dual_value, dtype=np.float64).reshape(size)
