"""The Frobenius norm (Σ W_ij²)^½: the limit of gradient descent on the weights, its own dual."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.norms.norm import UNIT, Floats, Norm

if TYPE_CHECKING:
    from attsvm.norms.rational import Exact


@dataclass(frozen=True)
class Frobenius(Norm):
    """‖W‖_F; a vector's ℓ2 norm when W is a column.

    >>> from attsvm.norms import norm_of
    >>> float(norm_of("frobenius").value([[3.0], [4.0]]))
    5.0
    """

    name: str = "frobenius"
    tolerance: float = 1e-8
    unique: bool = True
    rotational: bool = True

    def value(self, W: Any) -> Any:
        """‖W‖_F."""
        W = np.asarray(W, dtype=np.float64)
        return np.sqrt(np.einsum("...ij,...ij->...", W, W))

    def dual(self, G: Any) -> Any:
        """‖G‖_F: the norm is its own dual."""
        return self.value(G)

    def sharp(self, G: Any) -> Floats:
        """G / ‖G‖_F."""
        G = np.asarray(G, dtype=np.float64)
        size = self.value(G)[..., None, None]
        return np.divide(G, size, out=np.zeros_like(G), where=size > 0)

    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """(1, 1)."""
        return 1.0, 1.0

    def rounding(self, shape: tuple[int, int]) -> float:
        """Half the relative error of a sum of d·dq squares, plus the root."""
        return (shape[0] * shape[1] / 2 + 2) * UNIT

    def value_above(self, W: Exact) -> Fraction:
        """A rational at least ‖W‖_F."""
        from attsvm.norms.rational import frobenius_above

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
