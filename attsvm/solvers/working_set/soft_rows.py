"""A soft margin in unit rows: its bounds, the best pair so far, and where a barrier method starts.

min ½‖W‖² + Σ cap_k ξ_k   s.t.  D_kᵀ W Z_k ≥ b_k − ξ_k,  ξ ≥ 0,  ties exact
max Σ b_k λ_k − ½‖A*λ‖²_dual   s.t.  0 ≤ λ_k ≤ cap_k on margins
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm._utils.objects import lazy
from attsvm.norms import Norm
from attsvm.solvers.cone.central_path import UnitRows


@dataclass(frozen=True)
class Soft:
    """Unit rows with caps: cap (k,), inf on ties; base: what the rows left out add to both bounds.

    The bounds are those of `rows`; a gap is taken relative to the whole, lower + base.
    """

    rows: UnitRows
    cap: Floats
    norm: Norm
    base: float = 0.0

    @property
    def held(self) -> Bools:
        """True on margins (k,)."""
        return ~self.rows.free

    def upper(self, W: Floats, lam: Floats) -> float:
        """½‖W‖² + Σ cap ξ, and twice what the misses of ties cost to first order."""
        short, held = self.rows.b - self.rows.values(W), self.held
        value = 0.5 * float(self.norm.value(W)) ** 2
        value += float(self.cap[held] @ np.maximum(short[held], 0.0))
        return value + 2.0 * float(np.abs(lam)[~held] @ np.abs(short)[~held])

    @lazy
    def _mend(self) -> Floats:
        """The least W for a unit miss of each tie (dx·dz, l)."""
        free = self.rows.free
        D, Z = self.rows.D[free], self.rows.Z[free]
        F = (D[:, :, None] * Z[:, None, :]).reshape(len(D), -1)
        return np.asarray(np.linalg.pinv(F, rcond=1e-10), dtype=np.float64)

    def tied(self, W: Floats) -> Floats:
        """W after the least change that restores the ties; without it `upper` means little."""
        free = self.rows.free
        if not free.any():
            return W
        miss = (self.rows.b - self.rows.values(W))[free]
        return W + (self._mend @ miss).reshape(W.shape)

    def within(self, lam: Floats) -> Floats:
        """λ clipped to its bounds (k,)."""
        return np.where(self.held, np.clip(lam, 0.0, self.cap), lam)

    def lower(self, lam: Floats) -> float:
        """Σ bλ − ½‖A*λ‖²_dual."""
        dual = float(self.norm.dual(self.rows.adjoint(lam)))
        return float(self.rows.b @ lam) - 0.5 * dual * dual


@dataclass(frozen=True)
class BestSoft:
    """W of least upper bound and λ of greatest lower bound so far, and their relative gap."""

    soft: Soft
    W: Floats
    lam: Floats
    upper: float = np.inf
    lower: float = -np.inf

    @property
    def gap(self) -> float:
        """(upper − lower)/lower of the whole problem."""
        whole = self.lower + self.soft.base
        return (self.upper - self.lower) / whole if whole > 0.0 else np.inf

    def judged(self, *, W: Floats, lam: Floats) -> BestSoft:
        """The better of this and (W, λ); W and λ are judged apart."""
        best, lam = self, self.soft.within(lam)
        lower = self.soft.lower(lam)
        if lower > best.lower:
            best = replace(best, lam=lam, lower=lower)
        W = self.soft.tied(W)
        upper = self.soft.upper(W, best.lam)
        return replace(best, W=W.copy(), upper=upper) if upper < best.upper else best


@dataclass(frozen=True)
class Boxed:
    """Positive variables of a barrier method: λ and s, room = cap − λ and ξ, all (k,).

    On the central path λs = room·ξ = weight; both are 1 on ties, where nothing is bounded.
    """

    lam: Floats
    s: Floats
    room: Floats
    xi: Floats


def boxed(soft: Soft, lam: Floats, slack: Floats, *, weight: float) -> Boxed:
    """Variables near λ (k,) and slack = A(W) − b (k,), every product at least about `weight`."""
    held = soft.held
    cap = np.where(held, soft.cap, 2.0)
    over, under = np.maximum(slack, 0.0), np.maximum(-slack, 0.0)
    near = np.sqrt(weight)
    least = np.minimum(weight / np.maximum(over, near), 0.5 * cap)
    spare = np.minimum(weight / np.maximum(under, near), 0.5 * cap)
    # A small room is set, not taken as a difference, which would lose it.
    high = lam > cap - spare
    inside = np.where(high, cap - spare, np.maximum(lam, least))
    room = np.where(high, spare, cap - inside)
    s, xi = np.maximum(over, weight / inside), np.maximum(under, weight / room)
    return Boxed(np.where(held, inside, lam), *(np.where(held, x, 1.0) for x in (s, room, xi)))
