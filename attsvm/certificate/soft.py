"""The certificate of a soft margin: bounds on ½‖W‖² + C Σ ξ_k.

    min ½‖W‖² + C Σ ξ_k  s.t.  Δ_kᵀ W z_k ≥ b_k − ξ_k, ξ ≥ 0, ties     (C: the budget)
    max Σ bλ + Σ cμ − ½‖A*λ + C*μ‖²_dual  s.t.  0 ≤ λ ≤ C

Any W is feasible up to the ties, so an upper bound always exists; any λ within the budget gives a
lower bound, and both λ and W may be scaled for a better one.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate.bounds import margin_error
from attsvm.certificate.feasibility_repair import restore_ties
from attsvm.certificate.scale import ceiling, exponent, length, value_above
from attsvm.norms import Norm
from attsvm.norms.norm import UNIT
from attsvm.problem.problem import Problem

# W = 0 is taken where it is better by more than rounding.
_SAVED = 1e-9


def soft_lower(problem: Problem, norm: Norm, lam: Floats, mu: Floats) -> float:
    """Σ bλ + Σ cμ − Σ c_error |μ| − ½‖A*λ + C*μ‖²_dual, rounded down; never below 0, which λ = 0
    gives, and 0 where floats overflow."""
    used = int(np.count_nonzero(lam)) + int(np.count_nonzero(mu))
    with np.errstate(over="ignore", invalid="ignore"):
        off = float(problem.c_error @ np.abs(mu))
        worth = float(problem.b @ lam + problem.c @ mu) - off
        absolute = float(problem.b @ lam + np.abs(problem.c) @ np.abs(mu)) + off
        size = float(problem.row_norms @ lam + problem.tie_norms @ np.abs(mu))
        G = problem.adjoint(lam, mu)
        if not np.isfinite(size) or not np.isfinite(G).all():
            return 0.0
        dual = _dual_above(norm, G)
        dual += norm.spread(problem.shape)[1] * (used + 8) * UNIT * size * 1.01
        value = worth - 0.5 * dual * dual
        value -= (used + 8) * UNIT * (absolute + dual * dual)
    return value if 0 < value < np.inf else 0.0


def _dual_above(norm: Norm, G: Floats) -> float:
    """A float not below dual(G), at any scale."""
    e = exponent(G)
    grown = (1 + norm.rounding(G.shape)) * (1 + 4 * UNIT)
    return ceiling(float(norm.dual(np.ldexp(G, -e))) * grown, e)


def soft_upper(
    problem: Problem, norm: Norm, W: Floats | None, budget: float
) -> tuple[Floats | None, float, float]:
    """W with its ties restored, ½‖W‖² + C Σ max(0, b − margin) rounded up, and how far its ties
    may be from c at most.

    Rows that are met up to rounding would cost C times their rounding error: without ties of
    another right-hand side than 0, W grown by just that much is tried too, and W = 0.
    """
    if W is None:
        return None, np.inf, 0.0
    found, total, share, moved = _objective(problem, norm, W, budget)
    if not problem.homogeneous:
        return found, total, moved
    nothing = budget * float(problem.b.sum()) * (1 + (problem.m + 2) * UNIT)
    if nothing < total * (1 - _SAVED):
        return np.zeros(problem.shape), nothing, 0.0
    if found is None or share == 0.0:
        return found, total, moved
    grown, better, _, also = _objective(problem, norm, found * (1 + share), budget)
    return (grown, better, also) if better < total else (found, total, moved)


def _objective(
    problem: Problem, norm: Norm, W: Floats, budget: float
) -> tuple[Floats | None, float, float, float]:
    """W with its ties restored, the objective above, the growth that clears rounding, and how far
    ties may be from c at most."""
    matrix, reach, moved = W, 0.0, 0.0
    if problem.ties:
        restored, moved = restore_ties(problem, matrix)
        if not restored.clean:
            return None, np.inf, 0.0, 0.0
        matrix, reach = restored.W, restored.reach
    with np.errstate(over="ignore", invalid="ignore"):
        error = (margin_error(problem.shape) * length(matrix) + 1.01 * reach) * problem.row_norms
        margins = problem.margins(matrix)
        short = np.maximum(problem.b - margins + error + 2 * UNIT * problem.b, 0.0)
        near = (short > 0) & (short <= 8 * error + 1e-9 * problem.b) & (margins > 0)
        share = float((2 * short[near] / margins[near]).max(initial=0.0))
        value = value_above(norm, matrix) + norm.spread(problem.shape)[0] * reach
        total = 0.5 * value * value + budget * float(short.sum())
        total *= 1 + (problem.m + 8) * UNIT
    if not total < np.inf:  # nan where an infinite budget meets nothing missed
        return None, np.inf, 0.0, 0.0
    return matrix, total, share, moved
