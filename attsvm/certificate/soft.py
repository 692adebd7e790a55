"""The certificate of a soft margin: bounds on ½‖W‖² + C Σ ξ_k.

    min ½‖W‖² + C Σ ξ_k  s.t.  Δ_kᵀ W z_k ≥ b_k − ξ_k, ξ ≥ 0, ties     (C: the budget)
    max Σ bλ + Σ cμ − ½‖A*λ + C*μ‖²_dual  s.t.  0 ≤ λ ≤ C

Any W is feasible up to the ties, so an upper bound always exists; any λ within the budget gives a
lower bound, and both λ and W may be scaled for a better one.
"""

from __future__ import annotations

import numpy as np

from attsvm.certificate.correction import restore_ties
from attsvm.norms import Norm
from attsvm.norms.norm import UNIT
from attsvm.problem import Problem
from attsvm.tokens import Floats


def soft_lower(problem: Problem, norm: Norm, lam: Floats, mu: Floats) -> float:
    """Σ bλ + Σ cμ − ½‖A*λ + C*μ‖²_dual, rounded down; never below 0, which λ = 0 gives."""
    used = int(np.count_nonzero(lam)) + int(np.count_nonzero(mu))
    worth = float(problem.b @ lam + problem.c @ mu)
    absolute = float(problem.b @ lam + np.abs(problem.c) @ np.abs(mu))
    size = float(problem.row_norms @ lam + problem.tie_norms @ np.abs(mu))
    dual = float(norm.dual(problem.adjoint(lam, mu))) * (1 + norm.rounding(problem.shape))
    dual += norm.spread(problem.shape)[1] * (used + 8) * UNIT * size * 1.01
    value = worth - 0.5 * dual**2
    return max(value - (used + 8) * UNIT * (absolute + dual**2), 0.0)


def soft_upper(
    problem: Problem, norm: Norm, W: Floats | None, budget: float
) -> tuple[Floats | None, float]:
    """W with its ties restored, and ½‖W‖² + C Σ max(0, b − margin), rounded up.

    Rows that are met up to rounding would cost C times their rounding error: without ties of
    another right-hand side than 0, W grown by just that much is tried too.
    """
    if W is None:
        return None, np.inf
    found, total, share = _objective(problem, norm, W, budget)
    if found is None or share == 0.0 or problem.c.any():
        return found, total
    grown, better, _ = _objective(problem, norm, found * (1 + share), budget)
    return (grown, better) if better < total else (found, total)


def _objective(
    problem: Problem, norm: Norm, W: Floats, budget: float
) -> tuple[Floats | None, float, float]:
    """W with its ties restored, the objective above, and the growth that clears rounding."""
    matrix, reach = W, 0.0
    if problem.ties:
        matrix, reach, clean = restore_ties(problem, matrix)
        if not clean:
            return None, np.inf, 0.0
    d, dq = problem.shape
    plain = float(np.linalg.norm(matrix))
    error = ((d + dq + 7) * UNIT * plain * 1.01 + reach) * problem.row_norms
    margins = problem.margins(matrix)
    short = np.maximum(problem.b - margins + error, 0.0)
    near = (short > 0) & (short <= 8 * error + 1e-9 * problem.b) & (margins > 0)
    share = float((2 * short[near] / margins[near]).max(initial=0.0))
    value = float(norm.value(matrix)) * (1 + norm.rounding(problem.shape))
    value += norm.spread(problem.shape)[0] * reach
    total = 0.5 * value**2 + budget * float(short.sum())
    return matrix, total * (1 + (problem.m + 4) * UNIT), share
