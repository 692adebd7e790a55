"""Rational arithmetic: exact arrays, floats rounded outwards, and square roots rounded up.

A float is a dyadic rational, so a float matrix is exact data. `Exact` holds such a matrix as
integers over one positive denominator. A function `…_above` returns a number that is not below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from attsvm.errors import BadTokens

Integers = NDArray[np.object_]  # Python integers, of any size

# A rounded square root keeps this many bits, far beyond the 1e-14 that is asked.
_BITS = 160


@final
@dataclass(frozen=True, eq=False)
class Exact:
    """A rational array: numerators / denominator, with Python integers and denominator > 0.

    >>> Exact.of([[0.5, 0.75]]).fractions().tolist()
    [[Fraction(1, 2), Fraction(3, 4)]]
    """

    numerators: Integers
    denominator: int = 1

    @classmethod
    def of(cls, values: Any) -> Exact:
        """The array with exactly these values: floats, integers or Fractions, or an Exact."""
        if isinstance(values, Exact):
            return values
        array = np.asarray(values)
        if array.dtype == object:
            parts = [Fraction(v) for v in array.ravel()]
            below = math.lcm(*(v.denominator for v in parts))
            above = [v.numerator * (below // v.denominator) for v in parts]
            return cls(_objects(above).reshape(array.shape), below)
        if array.dtype.kind in "iub":
            return cls(array.astype(object))
        return cls(*_dyadic(array.astype(np.float64)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.numerators.shape

    @property
    def zero(self) -> bool:
        """Whether every entry is exactly zero."""
        return not self.numerators.any()

    def fractions(self) -> NDArray[np.object_]:
        """The entries as Fractions, in an array of the same shape."""
        parts = [Fraction(v, self.denominator) for v in self.numerators.ravel()]
        return _objects(parts).reshape(self.shape)

    def floats(self) -> NDArray[np.float64]:
        """The nearest float64 to each entry; ±inf beyond the largest."""
        parts = [_nearest(v, self.denominator) for v in self.numerators.ravel()]
        return np.array(parts, dtype=np.float64).reshape(self.shape)

    def times(self, factor: Fraction) -> Exact:
        """The array times one rational number."""
        common = math.gcd(factor.numerator, self.denominator)
        above = self.numerators * (factor.numerator // common)
        return Exact(above, self.denominator // common * factor.denominator)

    def plus(self, other: Exact) -> Exact:
        """The sum with an array of the same shape."""
        below = math.lcm(self.denominator, other.denominator)
        left = self.numerators * (below // self.denominator)
        return Exact(left + other.numerators * (below // other.denominator), below)


def float_above(value: Fraction) -> float:
    """The least float64 that is not below a rational number."""
    near = _nearest(value.numerator, value.denominator)
    if near == math.inf or (near != -math.inf and Fraction(near) >= value):
        return near
    return math.nextafter(near, math.inf)


def float_below(value: Fraction) -> float:
    """The largest float64 that is not above a rational number."""
    return -float_above(-value)


def sqrt_above(value: Fraction) -> Fraction:
    """A rational number not below √value (value ≥ 0): √value itself when that is rational.

    Otherwise the excess is below 2^-158 relative.

    >>> sqrt_above(Fraction(9, 4))
    Fraction(3, 2)
    """
    n, d = value.numerator, value.denominator
    root = math.isqrt(n), math.isqrt(d)
    if root[0] ** 2 == n and root[1] ** 2 == d:
        return Fraction(*root)
    # √(n/d) = √(n 4^s / d) / 2^s, with s such that the root has about _BITS bits.
    s = _BITS - (n.bit_length() - d.bit_length()) // 2
    inside = (n << 2 * s) // d if s >= 0 else n // (d << -2 * s)
    # isqrt(⌊x⌋) + 1 > √x for every real x ≥ 0
    return (math.isqrt(inside) + 1) * Fraction(2) ** -s


def frobenius_above(W: Exact) -> Fraction:
    """A rational number not below (Σ w²)^½."""
    return sqrt_above(Fraction(_squares(W.numerators), W.denominator**2))


def _objects(values: list[Any]) -> NDArray[np.object_]:
    """A flat object array of these values, whatever they are."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _nearest(numerator: int, denominator: int) -> float:
    """The float64 nearest to a quotient with denominator > 0; ±inf beyond the largest."""
    try:
        return numerator / denominator  # correctly rounded for integers of any size
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _squares(numerators: Integers) -> int:
    return sum(v * v for v in numerators.ravel())


def _dyadic(array: NDArray[np.float64]) -> tuple[Integers, int]:
    """Integers and a power of two whose quotients are the floats exactly."""
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise BadTokens(f"entry {list(place)} is {array[place]}: exact arithmetic needs numbers")
    mantissa, exponent = np.frexp(array)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    # Trailing zero bits move to the exponent, so that plain numbers give small integers.
    zeros = np.where(whole == 0, 0, np.frexp((whole & -whole).astype(np.float64))[1] - 1)
    exponent = exponent.astype(np.int64) - 53 + zeros
    base = min(0, int(exponent[whole != 0].min(initial=0)))
    shift = np.where(whole == 0, 0, exponent - base)
    pairs = zip((whole >> zeros).ravel().tolist(), shift.ravel().tolist(), strict=True)
    parts = [n << s for n, s in pairs]
    return _objects(parts).reshape(array.shape), 1 << -base
