"""Norms of the singular values: nuclear Σ σ_i and spectral σ_1, dual to each other."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.norms.norm import UNIT, Floats, Norm
from attsvm.norms.proximal.maps import clip_largest, on_singular_values, shrink

if TYPE_CHECKING:
    from attsvm.norms.exact.rational import Exact

# LAPACK's singular values err by a small multiple of σ_1 that grows slowly with the size.
_SVD = 16.0


def singular(W: Any) -> Floats:
    """The singular values of each matrix in a stack, largest first."""
    return np.linalg.svd(np.asarray(W, dtype=np.float64), compute_uv=False)


def _svd_rounding(shape: tuple[int, int]) -> float:
    """A relative bound on the error of σ_1, and of Σ σ_i, at this shape."""
    return _SVD * (shape[0] + shape[1]) * UNIT


@dataclass(frozen=True)
class Nuclear(Norm):
    """‖W‖_* = Σ σ_i, the limit of factored keys and queries. Solutions need not be unique.

    >>> from attsvm.norms import norm_of
    >>> round(float(norm_of("nuclear").value([[3.0, 0.0], [0.0, 4.0]])), 12)
    7.0
    """

    name: str = "nuclear"
    tolerance: float = 1e-6
    unique: bool = False
    rotational: bool = True
    prox_reach: float = 1e-8

    def value(self, W: Any) -> Any:
        """Σ σ_i."""
        return singular(W).sum(axis=-1)

    def dual(self, G: Any) -> Any:
        """σ_1."""
        return singular(G)[..., 0]

    def dual_maximizer(self, G: Any) -> Floats:
        """u_1 v_1ᵀ of the top singular pair."""
        G = np.asarray(G, dtype=np.float64)
        U, s, Vt = np.linalg.svd(G, full_matrices=False)
        top = U[..., :, :1] * Vt[..., :1, :]
        return np.where((s[..., 0] > 0)[..., None, None], top, 0.0)

    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """(√min(d, dq), 1)."""
        return float(np.sqrt(min(shape))), 1.0

    def rounding(self, shape: tuple[int, int]) -> float:
        """The singular values' error, once for each of them in the sum."""
        return _svd_rounding(shape) * min(shape)

    def value_above(self, W: Exact) -> Fraction:
        """A rational at least ‖W‖_*."""
        from attsvm.norms.exact.rational import nuclear_above

        return nuclear_above(W)

    def dual_above(self, G: Exact) -> Fraction:
        """A rational at least σ_1."""
        from attsvm.norms.exact.rational import spectral_above

        return spectral_above(G)

    def prox(self, V: Floats, t: float) -> Floats:
        """V with its singular values shrunk by t."""
        return on_singular_values(shrink, V, t)

    def cvxpy(self, cp: Any, W: Any) -> Any:
        """‖W‖_* of a cvxpy variable."""
        return cp.normNuc(W)


@dataclass(frozen=True)
class Spectral(Norm):
    """σ_1(W), the norm of spectral descent. Solutions need not be unique."""

    name: str = "spectral"
    tolerance: float = 1e-6
    unique: bool = False
    rotational: bool = True
    prox_reach: float = 1e-8

    def value(self, W: Any) -> Any:
        """σ_1."""
        return singular(W)[..., 0]

    def dual(self, G: Any) -> Any:
        """Σ σ_i."""
        return singular(G).sum(axis=-1)

    def dual_maximizer(self, G: Any) -> Floats:
        """U Vᵀ over the nonzero singular values."""
        G = np.asarray(G, dtype=np.float64)
        U, s, Vt = np.linalg.svd(G, full_matrices=False)
        live = s > s[..., :1] * 4 * UNIT * sum(G.shape[-2:])
        W: Floats = (U * live[..., None, :]) @ Vt
        return W

    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """(1, √min(d, dq))."""
        return 1.0, float(np.sqrt(min(shape)))

    def rounding(self, shape: tuple[int, int]) -> float:
        """The singular values' error, once for each of them in the sum."""
        return _svd_rounding(shape) * min(shape)

    def value_above(self, W: Exact) -> Fraction:
        """A rational at least σ_1."""
        from attsvm.norms.exact.rational import spectral_above

        return spectral_above(W)

    def dual_above(self, G: Exact) -> Fraction:
        """A rational at least ‖G‖_*."""
        from attsvm.norms.exact.rational import nuclear_above

        return nuclear_above(G)

    def prox(self, V: Floats, t: float) -> Floats:
        """V with its largest singular values cut to one size, by t in sum."""
        return on_singular_values(clip_largest, V, t)

    def cvxpy(self, cp: Any, W: Any) -> Any:
        """σ_1 of a cvxpy variable."""
        return cp.sigma_max(W)
