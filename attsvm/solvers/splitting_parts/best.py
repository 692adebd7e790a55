"""The best W and the best λ seen so far, each by its own bound on the least norm."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.norms import Norm
from attsvm.solvers.frobenius.coordinate import Segments, adjoint, margins


@dataclass(frozen=True, eq=False)
class Best:
    """W (d, dq) of least `upper` and λ (m,), sorted, of greatest `lower`; plain floats, untrusted.

    upper = ‖W‖/min(margin/b), and what it costs to first order to restore ties and rows with
    b = 0: their misses, weighted by λ.
    """

    W: Floats
    lam: Floats
    upper: float = np.inf
    lower: float = 0.0

    @property
    def gap(self) -> float:
        """upper/lower − 1."""
        return self.upper / self.lower - 1.0 if self.lower > 0.0 else np.inf

    def below(self, rows: Segments, norm: Norm, lam: Floats) -> Best:
        """The better of this and λ, which comes at any scale."""
        size = float(norm.dual(adjoint(rows, lam)))
        worth = float(rows.b @ lam)
        if not 0.0 < size < np.inf or not worth > self.lower * size:
            return self
        return replace(self, lam=lam / size, lower=worth / size)

    def above(self, rows: Segments, norm: Norm, W: Floats) -> Best:
        """The better of this and W, scaled to worst margin 1."""
        values = margins(rows, W)
        tied = rows.floor < 0.0
        scaled = (rows.b > 0.0) & ~tied
        least = float((values[scaled] / rows.b[scaled]).min(initial=np.inf))
        if tied.any() and rows.b[tied].any():
            least = min(least, 1.0)  # W may grow no more than the ties allow
        if not 0.0 < least < np.inf:
            return self
        upper = float(norm.value(W)) / least
        if not scaled.all():
            miss = np.where(tied, np.abs(values - rows.b), np.maximum(rows.b - values, 0.0))
            upper += 2.0 * float(np.abs(self.lam[~scaled]) @ miss[~scaled]) / least
        return replace(self, W=W / least, upper=upper) if upper < self.upper else self


@dataclass(frozen=True, eq=False)
class BestSoft:
    """The same for a soft margin, min ½‖W‖² + Σ cap ξ, with cap (m,) inf on ties.

    lower = Σ bλ − ½‖Σ λ Δ zᵀ‖²_dual for λ ≤ cap.
    """

    W: Floats
    lam: Floats
    cap: Floats
    upper: float = np.inf
    lower: float = 0.0

    @property
    def gap(self) -> float:
        """upper/lower − 1."""
        return self.upper / self.lower - 1.0 if self.lower > 0.0 else np.inf

    def below(self, rows: Segments, norm: Norm, lam: Floats) -> BestSoft:
        """The better of this and λ, cut to its caps, and of its best multiple within them."""
        lam = np.clip(lam, rows.floor, self.cap)
        square, worth = float(norm.dual(adjoint(rows, lam))) ** 2, float(rows.b @ lam)
        if not (worth > 0.0 and 0.0 < square < np.inf):
            return self
        most = float((self.cap[lam > 0] / lam[lam > 0]).min(initial=np.inf))
        share = min(worth / square, most)
        lower = share * worth - 0.5 * share * share * square
        return replace(self, lam=share * lam, lower=lower) if lower > self.lower else self

    def above(self, rows: Segments, norm: Norm, W: Floats) -> BestSoft:
        """The better of this and W."""
        short, tied = rows.b - margins(rows, W), rows.floor < 0.0
        upper = 0.5 * float(norm.value(W)) ** 2
        upper += float(self.cap[~tied] @ np.maximum(short[~tied], 0.0))
        upper += 2.0 * float(np.abs(self.lam[tied]) @ np.abs(short[tied]))
        return replace(self, W=W, upper=upper) if upper < self.upper else self
