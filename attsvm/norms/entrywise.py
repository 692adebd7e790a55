"""Entrywise norms (Σ |W_ij|^p)^(1/p): the limits of ℓp mirror descent, with ℓ1 and max at the ends.

Dual exponent q = p/(p − 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.norms.norm import UNIT, Floats, Norm, largest
from attsvm.norms.proximal.maps import clip_largest, shrink, shrink_power

if TYPE_CHECKING:
    from attsvm.norms.exact.rational import Exact


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
    rotational: bool = False
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
        from attsvm.norms.exact.rational import power_above

        return power_above(W, self.exponent)

    def dual_above(self, G: Exact) -> Fraction:
        """A rational at least the ℓq norm."""
        from attsvm.norms.exact.rational import power_above

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
        """The X with X + t sign(X)|X|^(p−1) = V: f is ‖X‖^p/p."""
        return shrink_power(V, t, self.p)

    def cvxpy(self, cp: Any, W: Any) -> Any:
        """The ℓp norm of a cvxpy variable."""
        return cp.pnorm(cp.vec(W, order="C"), self.p)


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
    unique: bool = False
    rotational: bool = False
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
        from attsvm.norms.exact.rational import l1_above

        return l1_above(W)

    def dual_above(self, G: Exact) -> Fraction:
        """max |G_ij|, exact."""
        from attsvm.norms.exact.rational import max_above

        return max_above(G)

    def prox(self, V: Floats, t: float) -> Floats:
        """V with every entry shrunk by t."""
        return shrink(V, t)

    def cvxpy(self, cp: Any, W: Any) -> Any:
        """Σ |W_ij| of a cvxpy variable."""
        return cp.norm(cp.vec(W, order="C"), 1)


@dataclass(frozen=True)
class MaxNorm(Norm):
    """max |W_ij|, the norm of sign descent; dual Σ |G_ij|. Solutions need not be unique."""

    name: str = "max"
    tolerance: float = 1e-8
    unique: bool = False
    rotational: bool = False
    prox_reach: float = 1e-8

    def value(self, W: Any) -> Any:
        """max |W_ij|."""
        return largest(np.asarray(W, dtype=np.float64))

    def dual(self, G: Any) -> Any:
        """Σ |G_ij|."""
        return np.abs(np.asarray(G, dtype=np.float64)).sum(axis=(-2, -1))

    def dual_maximizer(self, G: Any) -> Floats:
        """sign(G): every entry at full size."""
        return np.sign(np.asarray(G, dtype=np.float64))

    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """(1, √(d·dq))."""
        return 1.0, float(np.sqrt(shape[0] * shape[1]))

    def rounding(self, shape: tuple[int, int]) -> float:
        """The error of a sum of d·dq terms."""
        return (shape[0] * shape[1] + 1) * UNIT

    def value_above(self, W: Exact) -> Fraction:
        """max |W_ij|, exact."""
        from attsvm.norms.exact.rational import max_above

        return max_above(W)

    def dual_above(self, G: Exact) -> Fraction:
        """Σ |G_ij|, exact."""
        from attsvm.norms.exact.rational import l1_above

        return l1_above(G)

    def prox(self, V: Floats, t: float) -> Floats:
        """V with its largest entries cut to one size, by t in sum."""
        return clip_largest(V, t)

    def cvxpy(self, cp: Any, W: Any) -> Any:
        """max |W_ij| of a cvxpy variable."""
        return cp.norm(cp.vec(W, order="C"), "inf")
