"""certify(): the Certificate that an untrusted pair supports, from the problem's data alone."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Floats, Ints, numbers
from attsvm._utils.expected import number
from attsvm.certificate import extended_precision as longer
from attsvm.certificate.bounds import (
    LEAST_MARGIN,
    Below,
    above,
    below,
    margin_error,
    measure,
    worst_margin,
)
from attsvm.certificate.certificate import Certificate, Shown, make_certificate
from attsvm.certificate.feasibility_repair import Corrected, correct
from attsvm.certificate.scale import centred, exponent
from attsvm.certificate.soft import soft_lower, soft_upper
from attsvm.errors import BadTokens, Unsupported
from attsvm.norms import Norm, norm_of
from attsvm.norms.norm import check_shape
from attsvm.problem.problem import Problem

# Products up to which both bounds are taken in one compiled pass.
_ONE_PASS = 100_000
# Squares of W, and sums of λ‖Δ‖‖z‖, between these are left as they come: no bound under- or
# overflows. Others are scaled first.
PLAIN = (1e-100, 1e100)
# Rows, and numbers in them, up to which an exact proof of infeasibility is tried.
_EXACT_ROWS, _EXACT_NUMBERS = 150, 30_000


def certify(
    problem: Problem,
    norm: str | Norm,
    W: Any,
    multipliers: Any,
    tie_multipliers: Any = None,
    *,
    tol: float | None = None,
    budget: float = np.inf,
) -> Certificate:
    """The Certificate that (W, λ, μ) supports, recomputed from the problem's data.

    W may be None (nothing feasible is claimed); negative λ count as 0; both may come at any scale
    of floats. W is scaled to worst margin 1 and, with ties or zero right-hand sides, corrected by
    the least change that restores them, whose norm enters `upper`.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> problem = attsvm.Problem.of(tokens, [0])
    >>> found = attsvm.certify(problem, "frobenius", [[0.0], [3.0]], [0.0, 1.0])
    >>> found.status, round(found.lower, 9), round(found.upper, 9)
    ('optimal', 1.0, 1.0)
    """
    geometry = norm_of(norm)
    check_shape(geometry, problem.shape)
    goal = geometry.tolerance if tol is None else number(tol)
    budget = number(budget)
    if not goal > 0 or not budget > 0:
        raise Unsupported(f"tol is {goal} and the budget {budget}: both must be positive")
    lam = np.maximum(_finite(multipliers, "multipliers"), 0.0)
    mu = np.zeros(problem.ties) if tie_multipliers is None else _finite(tie_multipliers, "ties")
    if lam.shape != (problem.m,) or mu.shape != (problem.ties,):
        raise BadTokens(
            f"{lam.size} multipliers for {problem.m} margins and {mu.size} for {problem.ties} ties"
        )
    problem.check_sizes()
    matrix = _matrix(problem, W)
    if budget < np.inf:
        return _soft(problem, geometry, matrix, np.minimum(lam, budget), mu, goal, budget)
    given = lam, mu
    low, high, lam, mu = _bounds(problem, geometry, matrix, lam, mu)
    if high.W is not None and high.norm > float(low.value) * (1 + goal):
        low, high = _longer(problem, geometry, matrix, lam, low, high)
    scale = 1.0 / float(low.dual) if low.dual > 0 else 1.0
    if high.W is None:
        farkas = _contradiction(problem, *given)
        if farkas is not None:
            shown = Shown(np.inf, np.inf, proof="exact", farkas=farkas)
            return make_certificate(problem, geometry, None, lam, mu, shown, goal)
        if low.null:
            shown = Shown(float(low.value), np.inf, float(low.residual), "numerical")
            return make_certificate(problem, geometry, None, lam, mu, shown, goal)
    shown = Shown(
        float(low.value), high.norm, float(low.residual), reach=high.reach, moved=high.moved
    )
    return make_certificate(problem, geometry, high.W, lam * scale, mu * scale, shown, goal)


def _finite(multipliers: Any, name: str) -> Floats:
    """Multipliers as floats; those that are not finite count as 0."""
    array = numbers(multipliers, name).astype(np.float64, copy=False)
    # A sum of squares that is finite shows it of every entry, in one pass.
    if array.ndim == 1 and isfinite(np.vdot(array, array)):
        return array
    return np.where(np.isfinite(array), array, 0.0)


def _soft(
    problem: Problem,
    norm: Norm,
    W: Floats | None,
    lam: Floats,
    mu: Floats,
    tol: float,
    budget: float,
) -> Certificate:
    """The Certificate of a soft margin: bounds on ½‖W‖² + C Σ ξ."""
    matrix, upper, moved = soft_upper(problem, norm, W, budget)
    lower = soft_lower(problem, norm, lam, mu)
    return make_certificate(
        problem, norm, matrix, lam, mu, Shown(lower, upper, moved=moved), tol, budget
    )


def _contradiction(problem: Problem, lam: Floats, mu: Floats) -> NDArray[np.object_] | None:
    """Whole numbers (m + l,) that prove exactly that no W exists, sought near (λ, μ), or None.

    Rows are few enough to be tried when only those with a multiplier are looked at.
    """
    if not (lam.any() or mu.any()):
        return None
    used = lam.nonzero()[0]
    single = _zero_row(problem, used, mu)
    if single is not None:
        return single
    count = len(used) + problem.ties
    if count > _EXACT_ROWS or count * sum(problem.shape) > _EXACT_NUMBERS:
        return None
    from attsvm.certificate.exact.farkas import exact_infeasibility

    found = exact_infeasibility(problem.part(used), lam[used], mu)
    if found is None:
        return None
    # λ and μ of a proof share one denominator: the numerators alone are one, too.
    out = np.zeros(problem.m + problem.ties, dtype=object)
    out[used] = found.multipliers.numerators
    out[problem.m :] = found.tie_multipliers.numerators
    return out


def _zero_row(problem: Problem, used: Ints, mu: Floats) -> NDArray[np.object_] | None:
    """The proof that one exactly zero row with a right-hand side gives: 0 ≥ b > 0, or 0 = c ≠ 0."""
    out = np.zeros(problem.m + problem.ties, dtype=object)
    for k in used[(problem.row_norms[used] == 0) & (problem.b[used] > 0)]:
        if problem.is_zero(int(k)):
            out[k] = 1
            return out
    off = np.abs(problem.c) > problem.c_error
    for l in (off & (problem.tie_norms == 0) & (mu != 0)).nonzero()[0]:
        if problem.tie_is_zero(int(l)):
            out[problem.m + l] = 1 if problem.c[l] > 0 else -1
            return out
    return None


def _matrix(problem: Problem, W: Any) -> Floats | None:
    """W as a finite array (d, dq), or None."""
    if W is None:
        return None
    matrix = numbers(W, "W").astype(np.float64, copy=False)
    if matrix.ndim == 1 and problem.shape[1] == 1:
        matrix = matrix[:, None]
    if matrix.shape != problem.shape:
        return None
    square = float(np.vdot(matrix, matrix))
    if PLAIN[0] < square < PLAIN[1]:
        return matrix
    if not np.isfinite(matrix).all():
        return None
    if problem.homogeneous:  # any multiple serves as well
        return np.ldexp(matrix, -exponent(matrix))
    # Logits beyond the floats say nothing.
    rows = np.concatenate([problem.row_norms, problem.tie_norms])
    return matrix if exponent(matrix) + exponent(rows) < 1000 else None


def _bounds(
    problem: Problem, norm: Norm, W: Floats | None, lam: Floats, mu: Floats
) -> tuple[Below, Corrected, Floats, Floats]:
    """Both bounds, and the multipliers (λ, μ) that the lower one is of.

    In one compiled pass when the problem is small and plain.
    """
    shape = problem.shape
    if W is None or not problem.scalable or problem.m * shape[0] * shape[1] > _ONE_PASS:
        high = _above(problem, norm, W)
        low, lam, mu = _below(problem, norm, lam, mu)
        return low, high, lam, mu
    found = measure(problem.stacked, lam[None], W[None], margin_error(shape))
    worth, size, used, worst = found.sums[0].tolist()
    G = found.G[0]
    if LEAST_MARGIN < worst < np.inf:
        high = Corrected(W / worst, float(above(norm, shape, W, worst)))
    else:
        high = Corrected(None, np.inf)
    if PLAIN[0] < size < PLAIN[1]:
        low = below(norm, shape, worth=worth, absolute=worth, size=size, used=used, G=G)
    else:
        low, lam, mu = _below(problem, norm, lam, mu)
    return low, high, lam, mu


def _below(problem: Problem, norm: Norm, lam: Floats, mu: Floats) -> tuple[Below, Floats, Floats]:
    """The lower bound of (λ, μ), and these as they were scaled for it."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = problem.row_norms @ lam + problem.tie_norms @ np.abs(mu)
    if not PLAIN[0] < size < PLAIN[1]:
        lam, mu = centred(lam, problem.row_norms, mu, problem.tie_norms)
        size = problem.row_norms @ lam + problem.tie_norms @ np.abs(mu)
    worth = problem.b @ lam
    absolute = worth
    used = np.count_nonzero(lam)
    if problem.ties:
        off = problem.c_error @ np.abs(mu)  # a tie within an error is worth that much less
        worth = worth + problem.c @ mu - off
        absolute = absolute + np.abs(problem.c) @ np.abs(mu) + off
        used += np.count_nonzero(mu)
    G = problem.adjoint(lam, mu)
    low = below(norm, problem.shape, worth=worth, absolute=absolute, size=size, used=used, G=G)
    return low, lam, mu


def _longer(
    problem: Problem, norm: Norm, W: Floats | None, lam: Floats, low: Below, high: Corrected
) -> tuple[Below, Corrected]:
    """The better of these bounds and those evaluated in longer numbers, where that can help."""
    if W is None or high.norm > float(low.value) * 1.01 or not longer.fits(problem):
        return low, high
    worst = longer.worst_margin(problem, W)
    value = float(above(norm, problem.shape, W, worst))
    if value < high.norm:
        high = Corrected(W / worst, value)
    found = longer.lower(problem, norm, lam)
    return (found if found.value > low.value else low), high


def _above(problem: Problem, norm: Norm, W: Floats | None) -> Corrected:
    """The norm of a feasible matrix near W, rounded up; inf without one."""
    if W is None:
        return Corrected(None, np.inf)
    if not problem.scalable:
        return correct(problem, norm, W)
    worst = float(
        worst_margin(
            problem.shape, W, margins=problem.margins(W), row_norms=problem.row_norms, b=problem.b
        )
    )
    if not LEAST_MARGIN < worst < np.inf:
        return Corrected(None, np.inf)
    return Corrected(W / worst, float(above(norm, problem.shape, W, worst)))
