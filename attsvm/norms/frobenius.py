"""The Frobenius norm (Σ W_ij²)^½: the limit of gradient descent on the weights, its own dual."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from attsvm.norms.norm import UNIT, Floats, Norm, largest
from attsvm.norms.rational import Exact, frobenius_above

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

    def cvxpy(self, cp: Any, W: Any) -> Any:
        """‖W‖_F of a cvxpy variable."""
        return cp.norm(cp.vec(W, order="C"), 2)
