"""Entrywise norms (Σ |W_ij|^p)^(1/p): the limits of ℓp mirror descent, with ℓ1 and max at the ends.

Dual exponent q = p/(p − 1). The Frobenius norm, p = 2, is the limit of gradient descent on the
weights and its own dual.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from attsvm._utils.arrays import plain
from attsvm._utils.compiled import ENTRY, njit
from attsvm.norms.norm import UNIT, DualOf, Floats, Norm, largest
from attsvm.norms.rational import Exact, frobenius_above

# Halvings or Newton steps until the root of a power is found to rounding, at most.
_STEPS = 60
# Powers: entries are cut upwards at 2^-200 of the largest, then 60 digits are carried.
_GRID = 200
_CONTEXT = decimal.Context(
    prec=60,
    rounding=decimal.ROUND_CEILING,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)


def power_norm(W: Any, p: float) -> Any:
    """(Σ |W_ij|^p)^(1/p) of each matrix in a stack, without overflow."""
    W = np.abs(np.asarray(W, dtype=np.float64))
    top = W.max(axis=(-2, -1), initial=0.0)
    safe = np.where(top > 0, top, 1.0)
    return top * ((W / safe[..., None, None]) ** p).sum(axis=(-2, -1)) ** (1 / p)


@dataclass(frozen=True)
class LpNorm(Norm):
    """The ℓp norm of the entries for 1 < p < ∞, p kept as the exact fraction of its name.

    Theory: ℓp is 2-uniformly convex with modulus p − 1 for p ≤ 2 [ball1994sharp] and
    p-uniformly convex for p ≥ 2 [clarkson1936uniformly]; that gives `ball` and `dual_ball`.

    >>> from attsvm.norms import norm_of
    >>> round(float(norm_of("l3").value([[1.0, 2.0]])), 6)
    2.080084
    """

    name: str = "l2"
    tolerance: float = 1e-8
    unique: bool = True
    entrywise: bool = True
    prox_reach: float = 1e-9
    exponent: Fraction = Fraction(2)

    @property
    def p(self) -> float:
        """The exponent as a float."""
        return float(self.exponent)

    @property
    def q(self) -> float:
        """The dual exponent p/(p − 1)."""
        return float(self.exponent / (self.exponent - 1))

    def value(self, W: Any) -> Any:
        """(Σ |W_ij|^p)^(1/p)."""
        return power_norm(W, self.p)

    def dual(self, G: Any) -> Any:
        """(Σ |G_ij|^q)^(1/q)."""
        return power_norm(G, self.q)

    def dual_maximizer(self, G: Any) -> Floats:
        """sign(G) |G|^(q−1), scaled to norm 1."""
        G = np.asarray(G, dtype=np.float64)
        top = largest(G)
        unit = np.abs(G) / np.where(top > 0, top, 1.0)[..., None, None]
        W = np.sign(G) * unit ** (self.q - 1)
        size = power_norm(W, self.p)
        unit = W / np.where(size > 0, size, 1.0)[..., None, None]
        return np.asarray(unit)

    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """D^(1/p − ½) where p < 2 and 1 else; the dual likewise with q."""
        D = shape[0] * shape[1]
        return D ** max(1 / self.p - 0.5, 0.0), D ** max(1 / self.q - 0.5, 0.0)

    def rounding(self, shape: tuple[int, int]) -> float:
        """The sum's error over p, and one power (2 units) each way."""
        D = shape[0] * shape[1]
        return (D + 8 + 4 * max(self.p, self.q)) * UNIT

    def value_above(self, W: Exact) -> Fraction:
        """A rational at least the ℓp norm."""
        return power_above(W, self.exponent)

    def dual_above(self, G: Exact) -> Fraction:
        """A rational at least the ℓq norm."""
        return power_above(G, self.exponent / (self.exponent - 1))

    def ball(self, upper: float, lower: float) -> float:
        """Twice the half-distance that the modulus of convexity allows at this gap."""
        return upper * _half_distance(self.p, lower / upper) * 2

    def dual_ball(self, ratio: float) -> float:
        """The same in ℓq for two unit vectors whose midpoint has norm at least (1 + ratio)/2."""
        return 2 * _half_distance(self.q, (1 + ratio) / 2)

    def normal(self, u: Floats) -> Floats:
        """sign(u) |u|^(p−1)."""
        return np.asarray(np.sign(u) * np.abs(u) ** (self.p - 1))

    def prox(self, V: Floats, t: float) -> Floats:
        """The X with X + t sign(X)|X|^(p−1) = V, entry by entry: f is ‖X‖^p/p."""
        out = np.empty(V.size)
        _shrink_power(plain(np.ascontiguousarray(V).ravel()), float(t), self.p, out)
        return out.reshape(V.shape)


@njit(**ENTRY)
def _shrink_power(V: Floats, t: float, p: float, out: Floats) -> None:
    """out (N,) filled by Newton steps on x + t x^(p−1) = |v|, kept inside a bracket.

    For p < 2 the unknown is u = x^(p−1), in which the equation u^(1/(p−1)) + t u = |v| is convex
    and Newton from the right falls straight to the root; for p ≥ 2 it is so in x itself.
    """
    low = p < 2.0
    r = 1.0 / (p - 1.0) if low else p - 1.0
    for i in range(V.size):
        a = abs(V[i])
        if a == 0.0:
            out[i] = 0.0
            continue
        # The root lies below both ends of the bracket: a convex sum of two growing terms.
        if low:
            u = min(a / t, a ** (1.0 / r)) if t > 0.0 else a ** (1.0 / r)
            for _ in range(_STEPS):
                w = u**r
                f = w + t * u - a
                step = f / (r * w / u + t) if u > 0.0 else 0.0
                if not step > 1e-16 * u:
                    break
                u -= step
            x = u**r
            # x itself where it is the large part of the sum: exact to rounding there.
            if x > 0.5 * a:
                x = a - t * u
        else:
            x = min(a, (a / t) ** (1.0 / r)) if t > 0.0 else a
            for _ in range(_STEPS):
                w = t * x**r
                f = x + w - a
                step = f / (1.0 + r * w / x) if x > 0.0 else 0.0
                if not step > 1e-16 * x:
                    break
                x -= step
        out[i] = x if V[i] > 0.0 else -x


def power_above(W: Exact, p: Fraction) -> Fraction:
    """A rational number not below (Σ |w|^p)^(1/p), for a rational p > 1.

    s (Σ r^p)^(1/p) with s = max|w| and r = |w|/s ≤ 1. The decimal module rounds ln and exp
    correctly to the nearest, so the next number up bounds each from above; divisions, products
    and sums are rounded up.
    """
    sizes = [abs(v) for v in W.numerators.ravel()]
    top = max(sizes, default=0)
    if top == 0:
        return Fraction(0)
    ctx = _CONTEXT
    unit = decimal.Decimal(1 << _GRID)
    total = decimal.Decimal(0)
    for size in sizes:
        if size:
            ratio = ctx.divide(decimal.Decimal(-(-(size << _GRID) // top)), unit)
            total = ctx.add(total, _power(ratio, p))
    return Fraction(_power(total, 1 / p)) * Fraction(top, W.denominator)


def _power(x: decimal.Decimal, p: Fraction) -> decimal.Decimal:
    """A decimal number not below x^p, for x > 0 and p > 0; exact at x = 1."""
    if x == 1:
        return x
    ctx = _CONTEXT
    log = ctx.next_plus(ctx.ln(x))
    log = ctx.divide(
        ctx.multiply(log, decimal.Decimal(p.numerator)), decimal.Decimal(p.denominator)
    )
    return ctx.next_plus(ctx.exp(log))


def _half_distance(p: float, middle: float) -> float:
    """The largest ‖(U − V)/2‖_p for U, V in the unit ball whose midpoint has norm ≥ middle."""
    if p <= 2:
        return float(np.sqrt(max((1 - middle) * (1 + middle), 0.0) / (p - 1)))
    return float(max(1 - middle**p, 0.0) ** (1 / p))


@dataclass(frozen=True)
class L1Norm(Norm):
    """ℓ1: Σ |W_ij|; dual max |G_ij|. A linear program; solutions need not be unique."""

    name: str = "l1"
    tolerance: float = 1e-8
    entrywise: bool = True
    prox_reach: float = 1e-8

    def value(self, W: Any) -> Any:
        """Σ |W_ij|."""
        return np.abs(np.asarray(W, dtype=np.float64)).sum(axis=(-2, -1))

    def dual(self, G: Any) -> Any:
        """max |G_ij|."""
        return largest(np.asarray(G, dtype=np.float64))

    def dual_maximizer(self, G: Any) -> Floats:
        """The sign of one largest entry, alone."""
        G = np.asarray(G, dtype=np.float64)
        flat = G.reshape(*G.shape[:-2], -1)
        place = np.abs(flat).argmax(axis=-1)[..., None]
        W = np.zeros_like(flat)
        np.put_along_axis(W, place, np.sign(np.take_along_axis(flat, place, -1)), -1)
        return np.asarray(W.reshape(G.shape))

    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """(√(d·dq), 1)."""
        return float(np.sqrt(shape[0] * shape[1])), 1.0

    def rounding(self, shape: tuple[int, int]) -> float:
        """The error of a sum of d·dq terms."""
        return (shape[0] * shape[1] + 1) * UNIT

    def value_above(self, W: Exact) -> Fraction:
        """Σ |W_ij|, exact."""
        return Fraction(sum(abs(v) for v in W.numerators.ravel()), W.denominator)

    def dual_above(self, G: Exact) -> Fraction:
        """max |G_ij|, exact."""
        top = max((abs(v) for v in G.numerators.ravel()), default=0)
        return Fraction(top, G.denominator)

    def prox(self, V: Floats, t: float) -> Floats:
        """V with every entry shrunk by t."""
        return shrink(V, t)


@dataclass(frozen=True)
class MaxNorm(DualOf):
    """max |W_ij|, the norm of sign descent; dual Σ |G_ij|. Solutions need not be unique."""

    name: str = "max"
    tolerance: float = 1e-8
    entrywise: bool = True
    prox_reach: float = 1e-8
    of = L1Norm()

    def dual_maximizer(self, G: Any) -> Floats:
        """sign(G): every entry at full size."""
        return np.sign(np.asarray(G, dtype=np.float64))

    def prox(self, V: Floats, t: float) -> Floats:
        """V with its largest entries cut to one size, by t in sum."""
        return clip_largest(V, t)


def shrink(V: Floats, t: float) -> Floats:
    """sign(V) max(|V| − t, 0): the proximal map of Σ |V|."""
    return np.asarray(np.sign(V) * np.maximum(np.abs(V) - t, 0.0))


def clip_largest(V: Floats, t: float) -> Floats:
    """V with its largest entries cut to one size, by t in sum: the proximal map of max |V|.

    Zero when all of V is at most t in sum.
    """
    sizes = np.sort(np.abs(V), axis=None)[::-1]
    excess = np.cumsum(sizes) - t
    if not len(sizes) or excess[-1] <= 0.0:
        return np.zeros_like(V)
    # The least number k of entries whose cut, (Σ of the k largest − t)/k, the next one respects.
    level = excess / np.arange(1, len(sizes) + 1)
    k = int(np.flatnonzero(sizes > level)[-1])
    return np.asarray(np.clip(V, -level[k], level[k]))


# Sums of squares between these have lost nothing.
_LEAST, _MOST = 1e-280, 1e280


@dataclass(frozen=True)
class FrobeniusNorm(Norm):
    """‖W‖_F; a vector's ℓ2 norm when W is a column.

    >>> from attsvm.norms import norm_of
    >>> float(norm_of("frobenius").value([[3.0], [4.0]]))
    5.0
    """

    name: str = "frobenius"
    tolerance: float = 1e-8
    unique: bool = True
    rotational: bool = True
    euclidean: bool = True

    def value(self, W: Any) -> Any:
        """‖W‖_F."""
        W = np.asarray(W, dtype=np.float64)
        squares = np.einsum("...ij,...ij->...", W, W)
        if np.all((squares > _LEAST) & (squares < _MOST)):
            return np.sqrt(squares)
        # Squares under- and overflow long before the numbers do: once more, over the largest.
        top = largest(W)
        safe = np.where((top > 0) & (top < np.inf), top, 1.0)
        unit = W / safe[..., None, None]
        return safe * np.sqrt(np.einsum("...ij,...ij->...", unit, unit))

    def dual(self, G: Any) -> Any:
        """‖G‖_F: the norm is its own dual."""
        return self.value(G)

    def dual_maximizer(self, G: Any) -> Floats:
        """G / ‖G‖_F."""
        G = np.asarray(G, dtype=np.float64)
        size = self.value(G)[..., None, None]
        W: Floats = np.divide(G, size, out=np.zeros_like(G), where=size > 0)
        return W

    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """(1, 1)."""
        return 1.0, 1.0

    def rounding(self, shape: tuple[int, int]) -> float:
        """Half the relative error of a sum of d·dq squares, plus the root."""
        return (shape[0] * shape[1] / 2 + 2) * UNIT

    def value_above(self, W: Exact) -> Fraction:
        """A rational at least ‖W‖_F."""
        return frobenius_above(W)

    def dual_above(self, G: Exact) -> Fraction:
        """A rational at least ‖G‖_F."""
        return self.value_above(G)

    def ball(self, upper: float, lower: float) -> float:
        """√(upper² − lower²): from ⟨W*, W − W*⟩ ≥ 0 for every feasible W."""
        return float(np.sqrt(max((upper - lower) * (upper + lower), 0.0)))

    def dual_ball(self, ratio: float) -> float:
        """2 √(1 − r²) with r = (1 + ratio)/2, by the parallelogram law."""
        r = (1 + ratio) / 2
        return float(2 * np.sqrt(max((1 - r) * (1 + r), 0.0)))

    def normal(self, u: Floats) -> Floats:
        """u itself."""
        return u
