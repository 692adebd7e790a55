"""h(o) = v·o − λ‖o‖²: large pooled outputs cost, so that averaging tokens can pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.training.heads.head import Head


@final
@dataclass(frozen=True, eq=False)
class Quadratic(Head):
    """The quadratic head with v (B, d) and penalty λ ≥ 0.

    Theory: the nonlinear head of the multi-token experiments [tarzanagh2023svm].
    """

    v: Floats
    penalty: float
    name = "quadratic"
    block = "v"

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """−2λ."""
        return -2 * self.penalty

    def value(self, o: Floats) -> Floats:
        """v·o − λ‖o‖²."""
        return np.einsum("bnd,bnd->bn", o, self.v[:, None, :] - self.penalty * o)

    def gradient(self, o: Floats) -> Floats:
        """v − 2λ o."""
        return self.v[:, None, :] - 2 * self.penalty * o

    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i o_i: the penalty is fixed."""
        return np.einsum("bn,bnd->bd", weights, o)
