"""Lengths, duality maps and the gap of a pair (W, λ) in entrywise norms, 1 ≤ p ≤ ∞."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attsvm.solvers.power.normal_matrix import Rows, factor

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

REPAIRS = 4


class Pair(NamedTuple):
    """An untrusted primal-dual pair with its own estimate of how far from optimal it is."""

    error: float
    w: Array
    lam: Array


def conjugate(p: float) -> float:
    """Returns the dual exponent q = p/(p−1)."""
    if p == 1.0:
        return np.inf
    return 1.0 if np.isinf(p) else p / (p - 1.0)


def length(v: Array, p: float) -> float:
    """Returns (Σ|v_i|^p)^(1/p), formed from ratios to the largest entry so nothing overflows."""
    size = np.abs(v)
    top = float(size.max(initial=0.0))
    if not 0.0 < top < np.inf or np.isinf(p):
        return top
    with np.errstate(under="ignore"):
        return top * float(np.sum((size / top) ** p)) ** (1.0 / p)


def shares(v: Array, p: float) -> tuple[Array, float]:
    """Returns (|v_i|/‖v‖_p, ‖v‖_p)."""
    norm = length(v, p)
    return np.abs(v) / max(norm, 1e-300), norm


def raised(u: Array, exponent: float) -> Array:
    """Returns u^exponent for u ≥ 0; entries too small for float64 become 0."""
    with np.errstate(under="ignore"):
        return np.asarray(u**exponent)


def duality_map(v: Array, p: float) -> Array:
    """Returns ∇ ½‖v‖_p² = ‖v‖_p sign(v) (|v|/‖v‖_p)^(p−1); its length in the dual norm is ‖v‖_p."""
    u, norm = shares(v, p)
    return norm * np.copysign(raised(u, p - 1.0), v)


def weigh(A: Rows, b: Array, free: Mask, *, w: Array, lam: Array, p: float) -> Pair:
    """Returns the pair with error = |upper/lower − 1| + cost of the rows that scaling cannot mend.

    upper = ‖w‖_p/min(margin/b), lower = bᵀλ/‖Aᵀλ‖_q. Ties and rows with b = 0 (with a tie b ≠ 0:
    all rows) keep their misfit under scaling; a misfit e moves the least norm by the share
    e Σ|λ|/bᵀλ to first order.
    """
    m = A @ w
    lam = np.where(free, lam, np.maximum(lam, 0.0))
    value = float(b @ lam)
    lower = value / max(length(lam @ A, conjugate(p)), 1e-300)
    if not (value > 0.0 and np.isfinite(lower) and np.isfinite(m).all()):
        return Pair(np.inf, w, lam)
    ratio = worst_ratio(m, b, free)
    if not 0.0 < ratio < np.inf:
        return Pair(np.inf, w, lam)
    misfit = np.where(free, np.abs(m / ratio - b), np.maximum(b - m / ratio, 0.0))
    cost = float(misfit.max(initial=0.0)) * float(np.abs(lam).sum()) / value
    return Pair(abs(length(w, p) / (ratio * lower) - 1.0) + cost, w, lam)


def worst_ratio(m: Array, b: Array, free: Mask) -> float:
    """Returns min m_k/b_k over margins b_k > 0, or 1 when a tie b ≠ 0 forbids to rescale w."""
    if b[free].any():
        return 1.0
    positive = ~free & (b > 0.0)
    return float(np.min(m[positive] / b[positive], initial=np.inf))


def mend(A: Rows, b: Array, free: Mask, *, pair: Pair, p: float, tol: float) -> Pair:
    """Returns the pair with w scaled to worst ratio 1, ties and rows with b = 0 restored.

    Restoring is the least change of w; with a tie b ≠ 0 the other margins are restored too. Rows
    that the change itself breaks join in the next round.
    """
    ratio = worst_ratio(A @ pair.w, b, free)
    if not 0.0 < ratio < np.inf:
        return pair
    scaled = Pair(pair.error, pair.w / ratio, pair.lam)
    fixed = np.full_like(free, True) if b[free].any() else free | (b <= 0.0)
    mended = weigh(A, b, free, w=_restore(A, b, free, scaled.w, fixed), lam=pair.lam, p=p)
    best = mended if mended.error <= 2.0 * pair.error + 1e-14 else scaled
    if best.error > tol:
        # rounding on rows with a tiny b: set every row with a multiplier to its right-hand side
        tight = free | (pair.lam > 1e-9 * float(np.abs(pair.lam).max()))
        tight &= free | (A @ scaled.w - b < 1e-6)
        polished = weigh(A, b, free, w=_restore(A, b, tight, scaled.w, fixed), lam=pair.lam, p=p)
        best = min(best, polished, key=lambda x: x.error)
    return best


def _restore(A: Rows, b: Array, rows: Mask, w: Array, fixed: Mask) -> Array:
    """Returns w after the least change that meets the given rows with equality.

    Fixed rows that fall short, now or by the change, join in the next round.
    """
    rows = rows.copy()
    for _ in range(REPAIRS):
        misfit = b - A @ w
        rows |= fixed & (misfit > 0.0)
        active = np.flatnonzero(rows)
        if not active.size or float(np.abs(misfit[active]).max()) < 1e-16:
            break
        part = A[active]
        system = factor(part, np.ones(A.shape[1]), sigma=np.zeros(active.size))
        if system is None:
            break
        w = w + system(misfit[active]) @ part
    return w
