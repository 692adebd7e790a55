"""Attention SVM in entrywise ℓp norms, 1 < p < ∞."""

from __future__ import annotations

import numpy as np

from attsvm.solvers.power.dual_point import dual_pair
from attsvm.solvers.power.duality import Array, Mask, Pair, mend, weigh
from attsvm.solvers.power.primal_point import primal_pair
from attsvm.solvers.power.query_rows import QueryRows, apart
from attsvm.solvers.power.steps import Continuation

# Continuations in p, or in its dual when p ≤ 2; the second is tried when the first fails.
PATHS = (Continuation(3.2, 1.6, 1e-10), Continuation(2.0, 1.2, 1e-8))
STEEPEST = 100.0  # where a larger p fails, the optimum of this one comes within N^(1/100)
RETRY = 1e-7  # errors up to here are rounding, which a second run meets again


def matrix(D: Array, Z: Array) -> Array | QueryRows:
    """Returns `rows`, not stacked where they are many numbers and wide."""
    return QueryRows(D, Z) if apart(len(D), D.shape[1] * Z.shape[1]) else rows(D, Z)


def rows(D: Array, Z: Array) -> Array:
    """Returns (k, dx·dz): row k is vec(D_k Z_kᵀ), so that row @ W.ravel() = D_kᵀ W Z_k."""
    return np.ascontiguousarray((D[:, :, None] * Z[:, None, :]).reshape(len(D), -1))


def inner(
    D: Array, Z: Array, b: Array, free: Mask, *, p: float, tol: float, W0: Array, lam0: Array
) -> tuple[Array, Array]:
    """Returns (W, λ) for min (Σ|W_ij|^p)^(1/p), D_kᵀ W Z_k ≥ b_k (= on free rows), 1 < p < ∞.

    p ≤ 2 works on the multipliers (the dual exponent is ≥ 2, so the dual is smooth), p > 2 on the
    weights. The pair is the best one found; its gap is meant to be at most tol, but only a
    certificate can tell.

    Args:
        D, Z: (k, dx), (k, dz) rows with ‖D_k‖‖Z_k‖ = 1.
        b: (k,) right-hand sides, ≥ 0 where not free.
        free: (k,) True on ties, whose multipliers are free in sign.
        p: the exponent.
        tol: relative gap asked for.
        W0, lam0: (dx, dz), (k,) the Frobenius optimum, of norm 1, and its multipliers.
    """
    A = matrix(D, Z)
    method = dual_pair if p <= 2.0 else primal_pair
    best = Pair(np.inf, W0.ravel(), lam0)
    for path in PATHS:
        with np.errstate(all="ignore"):  # a breakdown shows in the error of the pair
            pair = method(A, b, free, p=p, tol=0.5 * tol, path=path, w0=W0.ravel(), lam0=lam0)
            pair = mend(A, b, free, pair=pair, p=p, tol=tol)
        best = min(best, pair, key=lambda x: x.error)
        if best.error <= max(tol, RETRY):
            break
    if best.error > 1e-3 and p > STEEPEST:
        w, lam = inner(D, Z, b, free, p=STEEPEST, tol=tol, W0=W0, lam0=lam0)
        pair = weigh(A, b, free, w=w.ravel(), lam=lam, p=p)
        best = min(best, pair, key=lambda x: x.error)
    return best.w.reshape(W0.shape), best.lam
