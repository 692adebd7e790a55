"""Interior point for the nuclear norm: min ‖W‖_* s.t. D_kᵀ W Z_k ≥ b_k (margins), = b_k (ties).

    primal    ½ tr P,  P = [X₁ W; Wᵀ X₂] ⪰ 0,  A(W) − s = b
    dual      bᵀλ,     Q = ½[I −A*λ; −(A*λ)ᵀ I] ⪰ 0,  that is σ₁(A*λ) ≤ 1

The rows are rank one, so the k×k Schur matrix is a sum of Hadamard products of k×k GEMMs:
O(k² d) to form, never d⁴.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attsvm.norms.matrix import NuclearNorm
from attsvm.norms.norm import Floats
from attsvm.solvers.cone.central_path import (
    INFLATE,
    Bools,
    Move,
    Newton,
    State,
    UnitRows,
    interior_point,
    off_diagonal,
    place,
    schur_solver,
    start_rows,
)

NORM = NuclearNorm()
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
        UnitRows(D, Z, b, free),
        NORM,
        start=_start,
        factor=_factor,
        W0=W0,
        lam0=lam0,
        tol=tol,
    )


def _start(rows: UnitRows, W0: Floats, lam0: Floats) -> State:
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


def _curvature(rows: UnitRows, state: State) -> tuple[Floats, Callable[[Floats], Floats]]:
    """The matrix ½ A(G · G) restricted to the rows plus diag(ratio), and its product with x (k,).

    With G = TTᵀ in blocks and B = D G₁₂ Zᵀ it is ½[(D G₁ Dᵀ)∘(Z G₂ Zᵀ) + B∘Bᵀ] + diag(ratio).
    """
    D, Z, dx = rows.D, rows.Z, rows.D.shape[1]
    G = state.T @ state.T.T
    G1, G12, G2 = G[:dx, :dx], G[:dx, dx:], G[dx:, dx:]
    left, right = D @ np.linalg.cholesky(G1), Z @ np.linalg.cholesky(G2)
    S = left @ left.T
    S *= right @ right.T
    B = (D @ G12) @ Z.T
    S += B * B.T
    S *= 0.5

    def apply(x: Floats) -> Floats:
        M = rows.adjoint(x)
        return 0.5 * rows.values(G1 @ M @ G2 + G12 @ M.T @ G12)

    return S, apply


def _factor(rows: UnitRows, state: State) -> Newton:
    """Newton directions from the Schur matrix ½ A(G · G) + diag(s/λ)."""
    T, dx = state.T, rows.D.shape[1]
    S, curved = _curvature(rows, state)
    S.ravel()[:: len(S) + 1] += state.ratio
    solve = schur_solver(S, lambda x: curved(x) + state.ratio * x)

    def newton(target: Floats, rhs: Floats) -> Move:
        lam = solve(rhs - rows.values(T[:dx] @ target @ T[dx:].T))
        dQ = off_diagonal(-0.5 * rows.adjoint(lam))
        scaled_Q = T.T @ dQ @ T
        scaled_P = target - scaled_Q
        return Move(P=T @ scaled_P @ T.T, Q=dQ, scaled_P=scaled_P, scaled_Q=scaled_Q, lam=lam)

    return newton


def squared_factor(rows: UnitRows, state: State) -> Newton:
    """Newton directions for ½‖W‖², where Q = ½[tI −A*λ; −(A*λ)ᵀ tI] with t = ½ tr P.

    A change of (t, λ) is split into a move ρ along the ray through it, which takes Q to (1 + ρ)Q,
    and a change e of λ alone: in (t, λ) itself the large parts of G would cancel. With R =
    diag(ratio), h = Rλ − A(W) and c = t² + ⟨P, Q⟩ + λᵀRλ the unknowns (e, ρ) have the matrix

        [½ A(G · G) + R   h]
        [hᵀ               c]
    """
    T, dx, k, lam, ratio = state.T, rows.D.shape[1], len(rows.b), state.lam, state.ratio
    spectrum, t = state.spectrum, 2.0 * float(state.Q[0, 0])
    values = rows.values(state.P[:dx, dx:])
    own = t * t + float(spectrum @ spectrum)
    part, curved = _curvature(rows, state)
    S = np.empty((k + 1, k + 1))
    S[:k, :k] = part
    S.ravel()[: k * (k + 1) : k + 2] += ratio
    S[:k, k] = S[k, :k] = ratio * lam - values
    S[k, k] = own + float(lam @ (ratio * lam))

    def apply(x: Floats) -> Floats:
        pull = ratio * (x[:k] + x[k] * lam)
        last = own * x[k] - float(values @ x[:k]) + float(lam @ pull)
        return np.append(curved(x[:k]) + pull - x[k] * values, last)

    solve = schur_solver(S, apply)
    excess = t * (0.5 * float(np.trace(state.P)) - t)

    def newton(target: Floats, rhs: Floats) -> Move:
        last = excess + float(spectrum @ target.diagonal()) + float(lam @ rhs)
        x = solve(np.append(rhs - rows.values(T[:dx] @ target @ T[dx:].T), last))
        bend = off_diagonal(-0.5 * rows.adjoint(x[:k]))
        scaled_Q = T.T @ bend @ T
        scaled_Q[np.diag_indices_from(scaled_Q)] += x[k] * spectrum
        scaled_P = target - scaled_Q
        dlam = x[:k] + x[k] * lam
        dQ = off_diagonal(-0.5 * rows.adjoint(dlam))
        dQ[np.diag_indices_from(dQ)] += 0.5 * x[k] * t
        return Move(P=T @ scaled_P @ T.T, Q=dQ, scaled_P=scaled_P, scaled_Q=scaled_Q, lam=dlam)

    return newton
