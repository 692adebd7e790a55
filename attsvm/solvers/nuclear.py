"""Interior point for the nuclear norm: min ‖W‖_* s.t. D_kᵀ W Z_k ≥ b_k (margins), = b_k (ties).

    primal    ½ tr P,  P = [X₁ W; Wᵀ X₂] ⪰ 0,  A(W) − s = b
    dual      bᵀλ,     Q = ½[I −A*λ; −(A*λ)ᵀ I] ⪰ 0,  that is σ₁(A*λ) ≤ 1

The rows are rank one, so the k×k Schur matrix is a sum of Hadamard products of k×k GEMMs:
O(k² d) to form, never d⁴.
"""

from __future__ import annotations

import numpy as np

from attsvm.norms.matrix import Nuclear
from attsvm.norms.norm import Floats
from attsvm.solvers.cone import (
    INFLATE,
    Bools,
    Move,
    Newton,
    Rows,
    State,
    interior_point,
    off_diagonal,
    place,
    schur_solver,
    start_rows,
)

NORM = Nuclear()
# Share of ‖W‖_F by which the singular values of the start are kept from zero.
SPREAD = 0.2


def inner(
    D: Floats, Z: Floats, b: Floats, free: Bools, *, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """W (dx, dz) and multipliers λ (k,) of the least nuclear norm, to relative gap `tol`.

    D (k, dx), Z (k, dz) with ‖D_k‖‖Z_k‖ = 1; b (k,); free (k,): True on ties.
    W0, lam0: the Frobenius optimum (norm one) and its multipliers, where the search starts.
    """
    return interior_point(
        Rows(D, Z, b, free),
        NORM,
        start=_start,
        factor=_factor,
        W0=W0,
        lam0=lam0,
        tol=tol,
    )


def _start(rows: Rows, W0: Floats, lam0: Floats) -> State:
    """Interior state at an inflated W0: X₁ = (WWᵀ + ε²)^½, X₂ = (WᵀW + ε²)^½."""
    dx, dz = W0.shape
    W = INFLATE * W0
    U, sigma, Vt = np.linalg.svd(W)
    left, right = np.zeros(dx), np.zeros(dz)
    left[: sigma.size] = right[: sigma.size] = sigma
    P = off_diagonal(W)
    P[:dx, :dx] = (U * np.hypot(left, SPREAD)) @ U.T
    P[dx:, dx:] = (Vt.T * np.hypot(right, SPREAD)) @ Vt
    slack, lam = start_rows(rows, W, lam0=lam0, norm=NORM)
    Q = 0.5 * (np.eye(dx + dz) - off_diagonal(rows.adjoint(lam)))
    return place(P, Q, lam=lam, slack=slack, free=rows.free)


def _factor(rows: Rows, state: State) -> Newton:
    """Newton directions; with G = TTᵀ in blocks and B = D G₁₂ Zᵀ the Schur matrix is

    ½[(D G₁ Dᵀ)∘(Z G₂ Zᵀ) + B∘Bᵀ] + diag(s/λ).
    """
    D, Z, T = rows.D, rows.Z, state.T
    k, dx = D.shape
    G = T @ T.T
    G1, G12, G2 = G[:dx, :dx], G[:dx, dx:], G[dx:, dx:]
    left, right = D @ np.linalg.cholesky(G1), Z @ np.linalg.cholesky(G2)
    S = left @ left.T
    S *= right @ right.T
    B = (D @ G12) @ Z.T
    S += B * B.T
    S *= 0.5
    S.ravel()[:: k + 1] += state.ratio

    def apply(x: Floats) -> Floats:
        M = rows.adjoint(x)
        return 0.5 * rows.values(G1 @ M @ G2 + G12 @ M.T @ G12) + state.ratio * x

    solve = schur_solver(S, apply)

    def newton(target: Floats, rhs: Floats) -> Move:
        lam = solve(rhs - rows.values(T[:dx] @ target @ T[dx:].T))
        dQ = off_diagonal(-0.5 * rows.adjoint(lam))
        scaled_Q = T.T @ dQ @ T
        scaled_P = target - scaled_Q
        return Move(P=T @ scaled_P @ T.T, Q=dQ, scaled_P=scaled_P, scaled_Q=scaled_Q, lam=lam)

    return newton
