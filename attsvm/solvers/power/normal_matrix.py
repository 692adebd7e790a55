"""Solutions of the interior-point normal equations (A diag(D) Aᵀ + diag(σ)) x = r."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from attsvm.solvers.power.query_rows import TALL, QueryRows

Array = NDArray[np.float64]
Rows = Array | QueryRows

# Ridge on the unit-scaled diagonal, tried in this order until the Cholesky factor exists.
RIDGES = (1e-15, 1e-13, 1e-11, 1e-9, 1e-7)
REFINEMENTS = 4
# Numbers in A from which a factor in short numbers is tried first, and what it may leave.
SHORT = 100_000
ENOUGH = 1e-11


def factor(A: Rows, D: Array, *, sigma: Array) -> Callable[[Array], Array] | None:
    """Returns the map r ↦ x of (A diag(D) Aᵀ + diag(σ)) x = r, or None if no factor exists.

    The k×k matrix is factored, or with many more rows than columns a smaller one. Dependent rows
    make it singular, so it carries a ridge whose effect refinement takes out again.

    Args:
        A: (k, N) rows.
        D: (N,) weights ≥ 0.
        sigma: (k,) diagonal ≥ 0, zero on ties.
    """
    k, N = A.shape
    short = None

    def build() -> Callable[[Array], Array] | None:
        if isinstance(A, QueryRows):
            return _scaled(A.gram(D), sigma)
        return (_wide if TALL * k <= N else _tall)(A, D, sigma)

    if TALL * k <= N and k * N >= SHORT and not isinstance(A, QueryRows):
        short = _short(A, D, sigma)
    long: list[Callable[[Array], Array] | None] = []

    def refined(r: Array) -> Array:
        if short is not None:
            x, left = _refine(A, D, sigma, r, short, 2 * REFINEMENTS)
            if left <= ENOUGH:
                return x
        if not long:
            long.append(build())
        if long[0] is None:
            return np.full(len(r), np.nan)
        return _refine(A, D, sigma, r, long[0], REFINEMENTS)[0]

    if short is None:
        long.append(build())
        if long[0] is None:
            return None
    return refined


def _refine(
    A: Rows, D: Array, sigma: Array, r: Array, inner: Callable[[Array], Array], most: int
) -> tuple[Array, float]:
    """Returns x and what is left of r, relative, after up to `most` refinements with `inner`."""
    x = inner(r)
    size = float(np.abs(r).max(initial=0.0))
    residual = r - (A @ (D * (x @ A)) + sigma * x)
    error = float(np.abs(residual).max(initial=0.0))
    for _ in range(most):
        if not error > 1e-14 * size:
            break
        y = x + inner(residual)
        residual = r - (A @ (D * (y @ A)) + sigma * y)
        smaller = float(np.abs(residual).max(initial=0.0))
        if not smaller < 0.7 * error:
            break
        x, error = y, smaller
    return x, error / size if size > 0 else 0.0


def _short(A: Array, D: Array, sigma: Array) -> Callable[[Array], Array] | None:
    """Returns the solve through a k×k matrix in short numbers, which take half the time.

    It is only ever refined against the long ones; None where it has no factor.
    """
    top = float(D.max())
    P = A.astype(np.float32)
    P *= np.sqrt(D / top).astype(np.float32)
    H = scipy.linalg.blas.ssyrk(1.0, P.T, trans=1)
    diagonal = np.einsum("ii->i", H) + sigma / top
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-30 * max(float(diagonal.max()), 1e-300)))
    H *= scale.astype(np.float32)
    H *= scale.astype(np.float32)[:, None]
    np.einsum("ii->i", H)[:] = diagonal * scale**2 + 1e-6
    C, info = scipy.linalg.lapack.spotrf(H)
    if info != 0 or not np.isfinite(np.diagonal(C)).all():
        return None
    return lambda r: scale / top * scipy.linalg.lapack.spotrs(C, (scale * r).astype(np.float32))[0]


def _wide(A: Array, D: Array, sigma: Array) -> Callable[[Array], Array] | None:
    """Returns the solve through the k×k matrix."""
    return _gram(A * np.sqrt(D), sigma)


def _gram(P: Array, sigma: Array) -> Callable[[Array], Array] | None:
    """Returns the map r ↦ x of (P Pᵀ + diag(σ)) x = r, its matrix scaled to unit diagonal."""
    # Pᵀ is Fortran-ordered without a copy; trans=1 then forms P Pᵀ, upper triangle only.
    return _scaled(scipy.linalg.blas.dsyrk(1.0, P.T, trans=1), sigma)


def _scaled(H: Array, sigma: Array) -> Callable[[Array], Array] | None:
    """Returns the map r ↦ x of (H + diag(σ)) x = r; H, its upper triangle alone, is destroyed."""
    diagonal = np.einsum("ii->i", H)
    diagonal += sigma
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-30 * max(float(diagonal.max()), 1e-300)))
    H *= scale
    H *= scale[:, None]
    C = _cholesky(H)
    if C is None:
        return None
    return lambda r: scale * scipy.linalg.lapack.dpotrs(C, scale * r)[0]


def _tall(A: Array, D: Array, sigma: Array) -> Callable[[Array], Array] | None:
    """Returns the solve that eliminates the loose rows in the space of the N columns.

    Rows L with a large σ go into K = I + R A_Lᵀ σ_L⁻¹ A_L R, R = diag(D)^½ (N×N); the stiff rows S
    (ties among them, about N at most near a solution) keep their own matrix
    A_S R K⁻¹ R A_Sᵀ + diag(σ_S). Neither divides by a small σ.
    """
    N = A.shape[1]
    root = np.sqrt(D)
    P = A * root
    stiff = sigma < 1e-3 * np.einsum("kj,kj->k", P, P)
    loose = ~stiff
    S, L, weight = P[stiff], P[loose], 1.0 / sigma[loose]
    K = np.eye(N, order="F")
    if loose.any():
        K = scipy.linalg.blas.dsyrk(1.0, (L * np.sqrt(weight)[:, None]).T, beta=1.0, c=K)
    C, info = scipy.linalg.lapack.dpotrf(K, clean=1)
    if info != 0 or not np.isfinite(np.diagonal(C)).all():
        return None
    if not stiff.any():
        return lambda r: weight * (r - L @ scipy.linalg.lapack.dpotrs(C, (weight * r) @ L)[0])
    Q = scipy.linalg.lapack.dtrtrs(C, S.T, trans=1)[0].T  # K = CᵀC, so S K⁻¹ Sᵀ = Q Qᵀ
    lone = _gram(np.ascontiguousarray(Q), sigma[stiff])
    if lone is None:
        return None
    settle = lone

    def solve(r: Array) -> Array:
        x = np.empty_like(r)
        h = (weight * r[loose]) @ L
        x[stiff] = settle(r[stiff] - S @ scipy.linalg.lapack.dpotrs(C, h)[0])
        x[loose] = weight * (r[loose] - L @ scipy.linalg.lapack.dpotrs(C, h + x[stiff] @ S)[0])
        return x

    return solve


def _cholesky(H: Array) -> Array | None:
    """Returns the upper Cholesky factor of the unit-diagonal H plus the least ridge that works."""
    if not np.isfinite(np.diagonal(H)).all():
        return None
    for ridge in RIDGES:
        np.einsum("ii->i", H)[...] = 1.0 + ridge
        C, info = scipy.linalg.lapack.dpotrf(H, clean=0, overwrite_a=0)
        if info == 0:
            return C
    return None
