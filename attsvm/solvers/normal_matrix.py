"""Solutions of the interior-point normal equations (A diag(D) Aᵀ + diag(σ)) x = r."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

Array = NDArray[np.float64]

# Ridge on the unit-scaled diagonal, tried in this order until the Cholesky factor exists.
RIDGES = (1e-15, 1e-13, 1e-11, 1e-9, 1e-7)
REFINEMENTS = 4


def factor(A: Array, D: Array, *, sigma: Array) -> Callable[[Array], Array] | None:
    """Returns the map r ↦ x of (A diag(D) Aᵀ + diag(σ)) x = r, or None if no factor exists.

    The Cholesky factor is of the k×k matrix, or of I + D^½ Aᵀ σ⁻¹ A D^½ when A is tall. Dependent
    rows make the matrix singular, so it carries a ridge whose effect refinement takes out again.

    Args:
        A: (k, N) rows.
        D: (N,) weights ≥ 0.
        sigma: (k,) diagonal ≥ 0, zero on ties.
    """
    k, N = A.shape
    build = _tall if N < 0.8 * k else _wide
    solve = build(A, D, sigma)
    if solve is None:
        return None
    inner = solve

    def refined(r: Array) -> Array:
        x = inner(r)
        size = float(np.abs(r).max(initial=0.0))
        residual = r - (A @ (D * (x @ A)) + sigma * x)
        error = float(np.abs(residual).max(initial=0.0))
        for _ in range(REFINEMENTS):
            if not error > 1e-14 * size:
                break
            y = x + inner(residual)
            residual = r - (A @ (D * (y @ A)) + sigma * y)
            smaller = float(np.abs(residual).max(initial=0.0))
            if not smaller < 0.7 * error:
                break
            x, error = y, smaller
        return x

    return refined


def _wide(A: Array, D: Array, sigma: Array) -> Callable[[Array], Array] | None:
    """Returns the solve through the k×k matrix, scaled to unit diagonal."""
    P = A * np.sqrt(D)
    # Pᵀ is Fortran-ordered without a copy; trans=1 then forms P Pᵀ, upper triangle only.
    H = dsyrk(1.0, P.T, trans=1)
    diagonal = np.einsum("ii->i", H)
    diagonal += sigma
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-30 * max(float(diagonal.max()), 1e-300)))
    H *= scale
    H *= scale[:, None]
    C = _cholesky(H)
    if C is None:
        return None
    return lambda r: scale * dpotrs(C, scale * r)[0]


def _tall(A: Array, D: Array, sigma: Array) -> Callable[[Array], Array] | None:
    """Returns the solve through the N×N matrix I + D^½ Aᵀ σ⁻¹ A D^½ (Woodbury)."""
    root = np.sqrt(D)
    # Ties have σ = 0: a small σ stands in, refinement removes its effect.
    floor = 1e-12 * max(float((A * A @ D).max()), 1e-300)
    weight = 1.0 / np.maximum(sigma, floor)
    P = A * root
    P *= np.sqrt(weight)[:, None]
    K = dsyrk(1.0, P.T)
    np.einsum("ii->i", K)[...] += 1.0
    scale = 1.0 / np.sqrt(np.diagonal(K))
    K *= scale
    K *= scale[:, None]
    C = _cholesky(K)
    if C is None:
        return None

    def solve(r: Array) -> Array:
        y = scale * dpotrs(C, scale * (root * ((weight * r) @ A)))[0]
        return weight * (r - A @ (root * y))

    return solve


def _cholesky(H: Array) -> Array | None:
    """Returns the upper Cholesky factor of the unit-diagonal H plus the least ridge that works."""
    if not np.isfinite(np.diagonal(H)).all():
        return None
    for ridge in RIDGES:
        np.einsum("ii->i", H)[...] = 1.0 + ridge
        C, info = dpotrf(H, clean=0, overwrite_a=0)
        if info == 0:
            return C
    return None
