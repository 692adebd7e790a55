"""certify(): the Certificate that an untrusted pair supports, from the problem's data alone.

A soft margin has bounds on ½‖W‖² + C Σ ξ_k:

    min ½‖W‖² + C Σ ξ_k  s.t.  Δ_kᵀ W z_k ≥ b_k − ξ_k, ξ ≥ 0, ties     (C: the budget)
    max Σ bλ + Σ cμ − ½‖A*λ + C*μ‖²_dual  s.t.  0 ≤ λ ≤ C

Any W is feasible up to the ties, so an upper bound always exists; any λ within the budget gives a
lower bound, and both λ and W may be scaled for a better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints, numbers
from attsvm._utils.expected import number
from attsvm.certificate.bounds import (
    LEAST_MARGIN,
    LowerBound,
    above,
    below,
    ceiling,
    centred,
    exponent,
    length,
    long_below,
    long_fits,
    long_worst_margin,
    margin_error,
    measure,
    value_above,
    worst_margin,
)
from attsvm.certificate.certificate import Certificate, make_certificate
from attsvm.certificate.feasibility_repair import Corrected, correct, restore_ties
from attsvm.errors import BadTokens, Unsupported
from attsvm.norms import Norm, check_shape, norm_of
from attsvm.norms.norm import UNIT
from attsvm.problem.problem import SMALLEST_ROW, Problem, StackRows

# Products up to which both bounds are taken in one compiled pass.
_ONE_PASS = 100_000
# Squares of W, and sums of λ‖Δ‖‖z‖, between these are left as they come: no bound under- or
# overflows. Others are scaled first.
PLAIN = (1e-100, 1e100)
# W = 0 is taken for a soft margin where it is better by more than rounding.
_SAVED = 1e-9
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

    W is scaled to worst margin 1 and, with ties or zero right-hand sides, corrected by the least
    change that restores them, whose norm enters `upper`.

    Parameters
    ----------
    problem : Problem
        The margins and ties.
    norm : str or Norm
        The norm that is minimized.
    W : array (d, dq) or None
        A candidate at any scale; None claims nothing feasible.
    multipliers : array (m,)
        λ at any scale; negative entries count as 0.
    tie_multipliers : array (l,), optional
        μ of any sign; default: zeros.
    tol : float, optional
        The gap up to which the certificate is optimal; default: that of the norm.
    budget : float, default: inf
        C of a soft margin.

    Returns
    -------
    Certificate

    Raises
    ------
    BadTokens
        If the numbers of multipliers, margins and ties differ.
    Unsupported
        If tol or budget is not positive, or the norm does not exist.

    Examples
    --------
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
    made = partial(make_certificate, problem, geometry, tolerance=goal)
    if budget < np.inf:
        lam = np.minimum(lam, budget)
        matrix, upper, moved = soft_upper(problem, geometry, matrix, budget)
        lower = soft_lower(problem, geometry, lam, mu)
        return made(matrix, lam, mu, lower=lower, upper=upper, budget=budget, moved=moved)
    given = lam, mu
    low, high, lam, mu = _bounds(problem, geometry, matrix, lam, mu)
    if high.W is not None and high.norm > float(low.value) * (1 + goal):
        low, high = _longer(problem, geometry, matrix, lam, low, high)
    lower, residual = float(low.value), float(low.residual)
    if high.W is None:
        farkas = _contradiction(problem, *given)
        if farkas is not None:
            return made(None, lam, mu, lower=np.inf, upper=np.inf, proof="exact", farkas=farkas)
        if low.null:
            proof: Literal["numerical"] = "numerical"
            return made(None, lam, mu, lower=lower, upper=np.inf, residual=residual, proof=proof)
    scale = 1.0 / float(low.dual) if low.dual > 0 else 1.0
    return made(
        high.W,
        lam * scale,
        mu * scale,
        lower=lower,
        upper=high.norm,
        residual=residual,
        reach=high.reach,
        moved=high.moved,
    )


def _finite(multipliers: Any, name: str) -> Floats:
    """Multipliers as floats; those that are not finite count as 0."""
    array = numbers(multipliers, name).astype(np.float64, copy=False)
    # A sum of squares that is finite shows it of every entry, in one pass.
    if array.ndim == 1 and isfinite(np.vdot(array, array)):
        return array
    return np.where(np.isfinite(array), array, 0.0)


def _contradiction(problem: Problem, lam: Floats, mu: Floats) -> NDArray[np.object_] | None:
    """Integers (m + l,) that prove exactly that no W exists, sought near (λ, μ), or None.

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
    from attsvm.certificate.exact import exact_infeasibility

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
) -> tuple[LowerBound, Corrected, Floats, Floats]:
    """Both bounds, and the multipliers (λ, μ) that the lower one is of.

    In one compiled pass when the problem is small and plain.
    """
    shape = problem.shape
    if W is None or not problem.scalable or problem.m * shape[0] * shape[1] > _ONE_PASS:
        high = _above(problem, norm, W)
        low, lam, mu = _below(problem, norm, lam, mu)
        return low, high, lam, mu
    combined, sums = measure(problem.stacked, lam[None], W[None], margin_error(shape))
    worth, size, used, worst = sums[0].tolist()
    G = combined[0]
    if LEAST_MARGIN < worst < np.inf:
        high = Corrected(W / worst, float(above(norm, shape, W, worst)))
    else:
        high = Corrected(None, np.inf)
    if PLAIN[0] < size < PLAIN[1]:
        low = below(norm, shape, worth=worth, absolute=worth, size=size, used=used, G=G)
    else:
        low, lam, mu = _below(problem, norm, lam, mu)
    return low, high, lam, mu


def _below(
    problem: Problem, norm: Norm, lam: Floats, mu: Floats
) -> tuple[LowerBound, Floats, Floats]:
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
    problem: Problem, norm: Norm, W: Floats | None, lam: Floats, low: LowerBound, high: Corrected
) -> tuple[LowerBound, Corrected]:
    """The better of these bounds and those evaluated in longer numbers, where that can help."""
    if W is None or high.norm > float(low.value) * 1.01 or not long_fits(problem):
        return low, high
    worst = long_worst_margin(problem, W)
    value = float(above(norm, problem.shape, W, worst))
    if value < high.norm:
        high = Corrected(W / worst, value)
    found = long_below(problem, norm, lam)
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


def certify_stack(
    problems: Sequence[Problem],
    norm: str | Norm,
    W: Floats,
    multipliers: Floats,
    *,
    rows: StackRows | None = None,
    tol: float | None = None,
) -> list[Certificate]:
    """The Certificates of a stack of problems of one size, all without ties and with b > 0.

    W (B, d, dq), multipliers (B, m), rows: the problems' margins, if formed already. The same
    bounds as `certify`, in one pass; what has no feasible W, or lies near the ends of the float
    range, is passed to `certify`.
    """
    geometry = norm_of(norm)
    goal = geometry.tolerance if tol is None else tol
    shape = problems[0].shape
    rows = StackRows.of(problems) if rows is None else rows
    lam = np.fmax(multipliers, 0.0)
    G, sums = measure(rows, lam, W, margin_error(shape))
    worth, size, used, worst = sums.T
    square = np.einsum("bij,bij->b", W, W)
    # What is not plain is certified alone, and its numbers do not enter the others'.
    plain: Bools = (PLAIN[0] < size) & (size < PLAIN[1]) & (worst > LEAST_MARGIN) & (worst < np.inf)
    plain &= (PLAIN[0] < square) & (square < PLAIN[1])
    plain &= rows.norms.min(axis=1, initial=np.inf) >= SMALLEST_ROW
    worst = np.where(plain, worst, 1.0)
    if not plain.all():
        worth, size = np.where(plain, worth, 0.0), np.where(plain, size, 1.0)
        G = _without(G, ~plain)
    low = below(geometry, shape, worth=worth, absolute=worth, size=size, used=used, G=G)
    high = above(geometry, shape, W if plain.all() else _without(W, ~plain), worst)
    scaled = W / worst[:, None, None]
    weights = lam / np.where(low.dual > 0, low.dual, 1.0)[:, None]
    none = np.empty(0)
    numbers_of = low.value.tolist(), high.tolist(), low.residual.tolist(), plain.tolist()
    columns = zip(problems, scaled, weights, *numbers_of, strict=True)
    return [
        make_certificate(
            problem,
            geometry,
            matrix,
            share,
            none,
            lower=lower,
            upper=upper,
            tolerance=goal,
            residual=residual,
        )
        if good
        else certify(problem, geometry, W[k], lam[k], tol=goal)
        for k, (problem, matrix, share, lower, upper, residual, good) in enumerate(columns)
    ]


def _without(stack: Floats, places: Bools) -> Floats:
    """The stack (B, d, dq) with zeros in these places (B,)."""
    return np.where(places[:, None, None], 0.0, stack)


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
