"""Interval: arrays of numbers that are only known to lie between two floats.

Every operation rounds its lower ends down and its upper ends up, so that the true value of a
formula in real numbers lies in the interval that the formula gives. NaN and infinities never pass
a comparison such as `x.hi < y.lo`, so what overflows is simply not proved.

The four operations and the root are correctly rounded by IEEE arithmetic; exp and log of NumPy err
by less than four units, which is what is taken off here. A sum of k terms errs by at most k units
of the sum of absolute values.

Theory: [higham2002accuracy].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats

UNIT = float(np.finfo(np.float64).eps) / 2
# Below this, products and exponentials lose digits to underflow: it is added to every bound.
TINY = float(np.finfo(np.float64).tiny)
_MORE = 1 + 4 * UNIT


def down(x: Any) -> Any:
    """The next float below."""
    return np.nextafter(x, -np.inf)


def up(x: Any) -> Any:
    """The next float above."""
    return np.nextafter(x, np.inf)


class Interval:
    """Numbers between `lo` and `hi`, arrays of one shape."""

    __slots__ = ("hi", "lo")
    __array_ufunc__ = None  # so that array + Interval comes here

    def __init__(self, lo: Any, hi: Any = None) -> None:
        self.lo: Any = np.asarray(lo, dtype=np.float64)
        self.hi: Any = self.lo if hi is None else np.asarray(hi, dtype=np.float64)

    @staticmethod
    def of(x: Interval | Any) -> Interval:
        """An interval as it is; floats as points."""
        return x if isinstance(x, Interval) else Interval(x)

    @staticmethod
    def near(middle: Any, radius: Any) -> Interval:
        """All that lies within `radius` of `middle`."""
        return Interval(down(middle - radius), up(middle + radius))

    @property
    def mid(self) -> Any:
        """A float inside, about the middle."""
        return self.lo if self.lo is self.hi else 0.5 * self.lo + 0.5 * self.hi

    @property
    def radius(self) -> Any:
        """At least the distance of either end from `mid`."""
        if self.lo is self.hi:
            return np.zeros(self.lo.shape)
        mid = self.mid
        return up(np.maximum(self.hi - mid, mid - self.lo))

    @property
    def size(self) -> Any:
        """The largest absolute value."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    def __getitem__(self, index: Any) -> Interval:
        return Interval(self.lo[index], self.hi[index])

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __add__(self, other: Any) -> Interval:
        other = Interval.of(other)
        return Interval(down(self.lo + other.lo), up(self.hi + other.hi))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Interval:
        other = Interval.of(other)
        return Interval(down(self.lo - other.hi), up(self.hi - other.lo))

    def __rsub__(self, other: Any) -> Interval:
        return Interval.of(other) - self

    def __mul__(self, other: Any) -> Interval:
        other = Interval.of(other)
        return _hull(np.multiply, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Interval:
        """The quotient; unbounded where the divisor may be zero."""
        other = Interval.of(other)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = _hull(np.divide, self, other)
        split = (other.lo <= 0) & (other.hi >= 0)
        if np.any(split):
            return Interval(np.where(split, -np.inf, found.lo), np.where(split, np.inf, found.hi))
        return found

    def __rtruediv__(self, other: Any) -> Interval:
        return Interval.of(other) / self

    def squared(self) -> Interval:
        """x², never below zero."""
        low = np.where((self.lo < 0) & (self.hi > 0), 0.0, np.minimum(abs(self.lo), abs(self.hi)))
        return Interval(np.maximum(down(low * low), 0.0), up(self.size * self.size))

    def sqrt(self) -> Interval:
        """The root; what may be negative counts from zero."""
        low, high = np.maximum(self.lo, 0.0), np.maximum(self.hi, 0.0)
        return Interval(np.maximum(down(np.sqrt(low)), 0.0), up(np.sqrt(high)))

    def exp(self) -> Interval:
        """e^x."""
        with np.errstate(over="ignore"):
            low, high = np.exp(self.lo), np.exp(self.hi)
        return Interval(
            np.maximum(down(low * (1 - 8 * UNIT) - TINY), 0.0), up(high * (1 + 8 * UNIT) + TINY)
        )

    def log(self) -> Interval:
        """The logarithm; −inf where zero is possible."""
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = np.log(np.maximum(self.lo, 0.0)), np.log(np.maximum(self.hi, 0.0))
        return Interval(
            down(low - 8 * UNIT * np.abs(low)),
            up(np.where(high == -np.inf, high, high + 8 * UNIT * np.abs(high))),
        )

    def sum(self, axis: int | None = None) -> Interval:
        """The sum along an axis, of all without one."""
        count = self.lo.size if axis is None else self.lo.shape[axis]
        ends = []
        for end, sign in ((self.lo, -1.0), (self.hi, 1.0)):
            total, absolute = end.sum(axis=axis), np.abs(end).sum(axis=axis)
            ends.append(total + sign * ((count + 2) * UNIT * absolute))
        return Interval(down(ends[0]), up(ends[1]))

    def __matmul__(self, other: Any) -> Interval:
        """The product of matrices, or of a matrix and a vector."""
        other = Interval.of(other)
        a, b = self.mid, other.mid
        ra, rb = self.radius, other.radius
        inner = a.shape[-1]
        spread = np.abs(a) @ rb + ra @ (np.abs(b) + rb)
        rounding = (inner + 2) * UNIT * (np.abs(a) @ np.abs(b)) + inner * TINY
        return Interval.near(a @ b, (spread * (1 + (inner + 4) * UNIT) + rounding) * _MORE)

    def __rmatmul__(self, other: Any) -> Interval:
        return Interval.of(other) @ self

    @property
    def T(self) -> Interval:
        """The transpose."""
        return Interval(self.lo.T, self.hi.T)

    def __repr__(self) -> str:
        return f"Interval({self.lo}, {self.hi})"


def _hull(operation: Callable[..., Any], one: Interval, other: Interval) -> Interval:
    """The least interval that holds `operation` of all pairs of ends, rounded outward."""
    if one.lo is one.hi and other.lo is other.hi:
        found = operation(one.lo, other.lo)
        return Interval(down(found), up(found))
    ends = [operation(x, y) for x in (one.lo, one.hi) for y in (other.lo, other.hi)]
    low = np.minimum(np.minimum(ends[0], ends[1]), np.minimum(ends[2], ends[3]))
    high = np.maximum(np.maximum(ends[0], ends[1]), np.maximum(ends[2], ends[3]))
    return Interval(down(low), up(high))


def differences(high: Floats, low: Floats) -> Interval:
    """high − low of exact floats."""
    D = high - low
    return Interval(np.where(D == 0, D, down(D)), np.where(D == 0, D, up(D)))


def total(x: Floats) -> Floats:
    """Sums of numbers ≥ 0 along the rows of x (g, K), rounded up."""
    added: Floats = x.sum(axis=1) * (1 + (x.shape[1] + 8) * UNIT)
    return added
