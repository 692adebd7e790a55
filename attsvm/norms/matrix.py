"""Norms of the singular values: nuclear Σ σ_i and spectral σ_1, dual to each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from attsvm.norms.entrywise import clip_largest, shrink
from attsvm.norms.norm import RANK, UNIT, DualOf, Floats, Norm
from attsvm.norms.rational import Exact, frobenius_above, sqrt_above

# LAPACK's singular values err by a small multiple of σ_1 that grows slowly with the size.
_SVD = 16.0


def singular(W: Any) -> Floats:
    """The singular values of each matrix in a stack, largest first."""
    return np.linalg.svd(np.asarray(W, dtype=np.float64), compute_uv=False)


def _svd_rounding(shape: tuple[int, int]) -> float:
    """A relative bound on the error of σ_1, and of Σ σ_i, at this shape."""
    return _SVD * (shape[0] + shape[1]) * UNIT


@dataclass(frozen=True)
class NuclearNorm(Norm):
    """‖W‖_* = Σ σ_i, the limit of factored keys and queries. Solutions need not be unique.

    >>> from attsvm.norms import norm_of
    >>> round(float(norm_of("nuclear").value([[3.0, 0.0], [0.0, 4.0]])), 12)
    7.0
    """

    name: str = "nuclear"
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
        """A rational at least ‖W‖_*.

        With floats W ≈ U Σ Vᵀ and R = W − U Σ Vᵀ exactly, R of rank at most r = min(d, dq):
        ‖W‖_* ≤ Σ σ_i ‖u_i‖ ‖v_i‖ + √r ‖R‖_F.
        """
        if W.zero or min(W.shape) == 1:
            return frobenius_above(W)
        U, values, V, R = _decomposed(W)
        total = sqrt_above(Fraction(min(W.shape))) * frobenius_above(R)
        for i, value in enumerate(values):
            u = Exact(U.numerators[:, i], U.denominator)
            v = Exact(V.numerators[:, i], V.denominator)
            total += value * frobenius_above(u) * frobenius_above(v)
        return total

    def dual_above(self, G: Exact) -> Fraction:
        """A rational at least σ_1.

        With floats G ≈ U Σ Vᵀ and R = G − U Σ Vᵀ exactly:
        σ₁(G) ≤ σ₁ (1 + ‖UᵀU − I‖_F)^½ (1 + ‖VᵀV − I‖_F)^½ + ‖R‖_F.
        """
        if G.zero or min(G.shape) == 1:
            return frobenius_above(G)
        U, values, V, R = _decomposed(G)
        return values[0] * _stretch(U) * _stretch(V) + frobenius_above(R)

    def prox(self, V: Floats, t: float) -> Floats:
        """V with its singular values shrunk by t."""
        return _on_singular_values(shrink, V, t)

    def rank_bound(self, G: Floats, error: float, lower: float, upper: float) -> int:
        """Solutions have Σ σ_i(W)(1 − σ_i(G)) ≤ upper − lower, for G = A*λ of σ_1 at most 1.

        So each σ_j(W) is at most (upper − lower)/Σ_{i≤j} (1 − σ_i(G)).
        """
        p = min(G.shape)
        short = np.maximum(1 - error - singular(G), 0.0)
        slack = upper - lower
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.minimum(slack / np.cumsum(short), upper)
            rest = np.append(slack / short[1:], 0.0)  # of Σ_{i>k} σ_i(W), at most
        most[short == 0] = upper
        largest = float(np.nanmax((lower - rest) / np.arange(1, p + 1), initial=0.0))
        return int((most > RANK * largest).sum())


@dataclass(frozen=True)
class SpectralNorm(DualOf):
    """σ_1(W), the norm of spectral descent. Solutions need not be unique."""

    name: str = "spectral"
    rotational: bool = True
    prox_reach: float = 1e-8
    of = NuclearNorm()

    def dual_maximizer(self, G: Any) -> Floats:
        """U Vᵀ over the nonzero singular values."""
        G = np.asarray(G, dtype=np.float64)
        U, s, Vt = np.linalg.svd(G, full_matrices=False)
        live = s > s[..., :1] * 4 * UNIT * sum(G.shape[-2:])
        W: Floats = (U * live[..., None, :]) @ Vt
        return W

    def prox(self, V: Floats, t: float) -> Floats:
        """V with its largest singular values cut to one size, by t in sum."""
        return _on_singular_values(clip_largest, V, t)


def _on_singular_values(values: Callable[[Floats, float], Floats], V: Floats, t: float) -> Floats:
    """V (d, dq) with its singular values s replaced by values(s, t)."""
    U, s, Vt = np.linalg.svd(V, full_matrices=False)
    s = values(s, t)
    live = s > 0.0
    return np.asarray((U[:, live] * s[live]) @ Vt[live])


def _decomposed(W: Exact) -> tuple[Exact, list[Fraction], Exact, Exact]:
    """U (d, r), σ ≥ 0 (r,), V (dq, r) and R = W − U diag(σ) Vᵀ, exactly; r = min(d, dq)."""
    top = max(abs(v) for v in W.numerators.ravel())
    scale = Fraction(2) ** (W.denominator.bit_length() - top.bit_length())
    u, s, vt = np.linalg.svd(W.times(scale).floats(), full_matrices=False)
    U, S, V = Exact.of(u), Exact.of(np.abs(s)).times(1 / scale), Exact.of(vt.T)
    product = (U.numerators * S.numerators) @ V.numerators.T
    R = W.plus(Exact(-product, U.denominator * S.denominator * V.denominator))
    return U, list(S.fractions()), V, R


def _stretch(U: Exact) -> Fraction:
    """A rational number not below the largest singular value of U, whose columns are near-unit."""
    G = U.numerators.T @ U.numerators
    G[np.diag_indices(len(G))] -= U.denominator**2
    return sqrt_above(1 + frobenius_above(Exact(G, U.denominator**2)))
