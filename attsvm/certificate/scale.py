"""Sizes that neither overflow nor underflow, and exact scaling by powers of two.

W and multipliers may come at any scale: 1e-200 squares to nothing and 1e200 to infinity. Scaling by
a power of two is exact, so bounds are taken in the middle of the float range.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.norms import Norm

# Sums of squares between these have lost nothing to underflow and not overflowed.
_LEAST, _MOST = 1e-200, 1e200
# Multipliers below this share of the largest, on unit rows, are dropped: any λ ≥ 0 is allowed,
# and what is left can be scaled without underflow.
_DROPPED = 2.0**-450


def exponent(x: Floats) -> int:
    """The e with max|x| in [2^(e−1), 2^e); 0 for zeros and for nothing."""
    return math.frexp(float(np.abs(x).max(initial=0.0)))[1]


def length(x: Floats) -> float:
    """The root of the sum of squares of all entries, at any scale.

    >>> length(np.array([3e-200, 4e-200]))
    5e-200
    """
    square = float(np.vdot(x, x))
    if _LEAST < square < _MOST:
        return math.sqrt(square)
    e = exponent(x)
    scaled = np.ldexp(x, -e)
    # The root is taken of a number near 1; a result below the normal floats is rounded up.
    return ceiling(math.sqrt(float(np.vdot(scaled, scaled))), e)


def ceiling(x: float, e: int) -> float:
    """A float not below x · 2^e (x ≥ 0): exact unless it leaves the normal floats."""
    return math.inf if x == math.inf else _directed(x, e, math.inf)


def floor(x: float, e: int) -> float:
    """A float not above x · 2^e (x ≥ 0): exact unless it leaves the normal floats."""
    return x if x == math.inf else _directed(x, e, 0.0)


def _directed(x: float, e: int, toward: float) -> float:
    try:
        out = math.ldexp(x, e)
    except OverflowError:
        return math.inf if toward == math.inf else math.nextafter(math.inf, 0.0)
    if x and math.ldexp(out, -e) != x:
        return math.nextafter(out, toward)
    return out


def value_above(norm: Norm, W: Floats) -> float:
    """A float not below ‖W‖, at any scale."""
    grown = (1 + norm.rounding(W.shape)) * (1 + 2.0**-51)
    square = float(np.vdot(W, W))
    if _LEAST < square < _MOST:
        plain = math.sqrt(square) if norm.euclidean else float(norm.value(W))
        return plain * grown
    e = exponent(W)
    return ceiling(float(norm.value(np.ldexp(W, -e))) * grown, e)


def centred(lam: Floats, size: Floats, mu: Floats, tie_size: Floats) -> tuple[Floats, Floats]:
    """Multipliers λ (m,) and μ (l,), scaled so that the largest λ_k‖row_k‖ is near 1.

    size (m,) and tie_size (l,) are the norms of the rows. What is far below the largest becomes 0.
    """
    logs = np.concatenate([_logs(lam, size), _logs(mu, tie_size)])
    top = logs.max(initial=-np.inf)
    if top == -np.inf:
        return lam, mu
    kept = logs >= top + np.log2(_DROPPED)
    both = np.where(kept, np.concatenate([lam, mu]), 0.0)
    # In two steps: 2^-1100 itself is no float.
    half = int(-top) // 2
    both = np.ldexp(np.ldexp(both, half), int(-top) - half)
    return both[: len(lam)], both[len(lam) :]


def _logs(multipliers: Floats, size: Floats) -> Floats:
    """log₂(|λ_k| size_k) of each row, −inf where it is zero."""
    with np.errstate(divide="ignore"):
        return np.log2(np.abs(multipliers)) + np.log2(size)
