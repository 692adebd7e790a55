"""Nonlinear prediction heads: quadratic, for which averaging tokens can pay, and a ReLU network."""

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

    @classmethod
    def random(cls, rng: np.random.Generator, size: int, d: int) -> Quadratic:
        """A Gaussian v, and the penalty 0.3."""
        return cls(rng.standard_normal((size, d)), 0.3)

    def value(self, o: Floats) -> Floats:
        """v·o − λ‖o‖²."""
        return np.einsum("bnd,bnd->bn", o, self.v[:, None, :] - self.penalty * o)

    def gradient(self, o: Floats) -> Floats:
        """v − 2λ o."""
        return self.v[:, None, :] - 2 * self.penalty * o

    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i o_i: the penalty is fixed."""
        return np.einsum("bn,bnd->bd", weights, o)


@final
@dataclass(frozen=True, eq=False)
class Relu(Head):
    """The ReLU head with V (B, d, width).

    Theory: the nonlinear head of the multi-token experiments [tarzanagh2023svm].
    """

    V: Floats
    name = "relu"
    curvature = 0.0
    block = "V"

    @classmethod
    def random(cls, rng: np.random.Generator, size: int, d: int) -> Relu:
        """Six Gaussian units."""
        return cls(rng.standard_normal((size, d, 6)))

    def value(self, o: Floats) -> Floats:
        """Σ_j max(0, V_j·o)."""
        return np.maximum(o @ self.V, 0.0).sum(axis=-1)

    def gradient(self, o: Floats) -> Floats:
        """Σ over active j of V_j."""
        return self._active(o) @ np.swapaxes(self.V, -1, -2)

    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i o_i in the columns of the units active at o_i."""
        return np.swapaxes(o * weights[:, :, None], -1, -2) @ self._active(o)

    def units(self, o: Floats) -> Floats:
        """1 for units that are active at o, 0 for the others."""
        return self._active(o)

    def _active(self, o: Floats) -> Floats:
        return (o @ self.V > 0).astype(np.float64)
