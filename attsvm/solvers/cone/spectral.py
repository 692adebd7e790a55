"""Interior point for the spectral norm: min σ₁(W) s.t. D_kᵀ W Z_k ≥ b_k (margins), = b_k (ties).

    primal    t,      P = [tI W; Wᵀ tI] ⪰ 0,  A(W) − s = b
    dual      bᵀλ,    Q = [Y₁ −½A*λ; −½(A*λ)ᵀ Y₂] ⪰ 0,  tr Q = 1,  that is ‖A*λ‖_* ≤ 1

A change of P is split into a move ρP along the ray through it and a change E of W alone: in (t, W)
itself the curvature in t would be lost to cancellation near the optimum.
"""

from __future__ import annotations

import numpy as np

from attsvm.norms.matrix import SpectralNorm
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
from attsvm.solvers.lp_interior_point.gram import weighted_gram

NORM = SpectralNorm()
# The start has t = (1 + LIFT)·σ₁(W).
LIFT = 0.2
# Numbers in rows × unknowns from which the Schur matrix is formed query by query.
MANY = 200_000


def inner(
    D: Floats, Z: Floats, b: Floats, free: Bools, *, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """W (dx, dz) and multipliers λ (k,) of the least spectral norm, to relative gap `tol`.

    D (k, dx), Z (k, dz) with ‖D_k‖‖Z_k‖ = 1; b (k,); free (k,): True on ties.
    W0, lam0: the Frobenius optimum (norm one) and its multipliers, where the search starts.
    Each step costs O(k² dx + k g r² + g² dx dz) for g different Z and r = min(dx, dz).
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
    """Interior state at an inflated W0; Y₁, Y₂ = ½|A*λ| plus a multiple of I to trace one."""
    dx, dz = W0.shape
    N = dx + dz
    W = INFLATE * W0
    t = (1.0 + LIFT) * float(NORM.value(W))
    slack, lam = start_rows(rows, W, lam0=lam0, norm=NORM)
    M = rows.adjoint(lam)
    U, sigma, Vt = np.linalg.svd(M)
    left, right = np.zeros(dx), np.zeros(dz)
    left[: sigma.size] = right[: sigma.size] = 0.5 * sigma
    spare = (1.0 - float(sigma.sum())) / N
    Q = off_diagonal(-0.5 * M)
    Q[:dx, :dx] = (U * (left + spare)) @ U.T
    Q[dx:, dx:] = (Vt.T * (right + spare)) @ Vt
    return place(t * np.eye(N) + off_diagonal(W), Q, lam=lam, slack=slack, free=rows.free)


class _Hessian:
    """E ↦ V₁ E V₂ + V₁₂ Eᵀ V₁₂ on (dx, dz) matrices, inverted in closed form.

    V = T⁻ᵀ T⁻¹ in blocks, V₁ = C₁C₁ᵀ, V₂ = C₂C₂ᵀ, C₁⁻¹ V₁₂ C₂⁻ᵀ = U diag(κ) Rᵀ with 0 ≤ κ < 1.
    With E = C₁⁻ᵀU e (C₂⁻ᵀR)ᵀ the entries decouple into pairs: e_ij + κ_i κ_j e_ji.
    """

    def __init__(self, V: Floats, dx: int) -> None:
        inverse_1 = np.linalg.inv(np.linalg.cholesky(V[:dx, :dx]))
        inverse_2 = np.linalg.inv(np.linalg.cholesky(V[dx:, dx:]))
        U, kappa, Rt = np.linalg.svd(inverse_1 @ V[:dx, dx:] @ inverse_2.T)
        kappa = np.minimum(kappa, 1.0 - np.finfo(float).eps)
        self.left, self.right = inverse_1.T @ U, inverse_2.T @ Rt.T
        self.pair = kappa[:, None] * kappa

    def solve(self, X: Floats) -> Floats:
        """H⁻¹ X (dx, dz)."""
        e = self.left.T @ X @ self.right
        r = self.pair.shape[0]
        core = e[:r, :r]
        e[:r, :r] = (core - self.pair * core.T) / (1.0 - self.pair * self.pair)
        return self.left @ e @ self.right.T

    def gram(self, rows: UnitRows) -> Floats:
        """A H⁻¹ A* (k, k)."""
        if rows.D.shape[0] * rows.D.shape[1] * rows.Z.shape[1] < MANY:
            white = self.whiten(rows)
            return np.asarray(white @ white.T)
        r, of = self.pair.shape[0], rows.groups
        d, z = (rows.D @ self.left)[of.order], of.queries @ self.right
        weights, crossed = np.ones((d.shape[1], z.shape[1])), self.pair.copy()
        # (e_ij, e_ji) ↦ (e_ij − κ_iκ_j e_ji)/(1 − κ_i²κ_j²), and e_ii/(1 + κ_i²)
        weights[:r, :r] = 1.0 / (1.0 - self.pair * self.pair)
        crossed *= -weights[:r, :r]
        np.fill_diagonal(weights[:r, :r], 1.0 / (1.0 + self.pair.diagonal()))
        np.fill_diagonal(crossed, 0.0)
        return of.whole(weighted_gram(d, of.query, z, weights, crossed))

    def whiten(self, rows: UnitRows) -> Floats:
        """Rows times H^−½ (k, dx·dz): products with its transpose give A H⁻¹ A*."""
        r = self.pair.shape[0]
        d, z = rows.D @ self.left, rows.Z @ self.right
        # H has eigenvalue 1 ± κ_iκ_j on e_ij ± e_ji
        even, odd = 0.5 / np.sqrt(1.0 + self.pair), 0.5 / np.sqrt(1.0 - self.pair)
        own, swapped = np.ones((d.shape[1], z.shape[1])), even - odd
        own[:r, :r] = even + odd
        np.fill_diagonal(own[:r, :r], 2.0 * even.diagonal())
        np.fill_diagonal(swapped, 0.0)
        white: Floats = d[:, :, None] * z[:, None, :] * own
        white[:, :r, :r] += d[:, None, :r] * z[:, :r, None] * swapped
        return white.reshape(d.shape[0], -1)


def squared_factor(rows: UnitRows, state: State) -> Newton:
    """Newton directions for ½‖W‖², where tr Q = t."""
    return _factor(rows, state, squared=True)


def _factor(rows: UnitRows, state: State, *, squared: bool = False) -> Newton:
    """Newton directions: unknowns E (dx, dz), ρ and dλ with dP = ρP + [0 E; Eᵀ 0],

        2H E + 2ρ Q₁₂ − A*dλ = …,   2⟨Q₁₂, E⟩ + ⟨P, Q⟩ρ − A(W)ᵀdλ = …,   A(E) + ρA(W) + s/λ·dλ = …

    so with c = ⟨P, Q⟩ − 2⟨Q₁₂, H⁻¹Q₁₂⟩ > 0 and v = A(W) − A(H⁻¹Q₁₂) the Schur matrix is
    ½ A H⁻¹ A* + vvᵀ/c + diag(s/λ). squared: the objective is ½t², which adds t² to c.
    """
    dx = rows.D.shape[1]
    inverse, spectrum, ratio = state.inverse, state.spectrum, state.ratio
    hessian = _Hessian(inverse.T @ inverse, dx)
    W, Q12 = state.P[:dx, dx:], state.Q[:dx, dx:]
    pull = hessian.solve(Q12)
    t = float(state.P[0, 0])
    c = float(spectrum @ spectrum) - 2.0 * float(np.vdot(Q12, pull)) + (t * t if squared else 0.0)
    if not c > 0.0:
        raise np.linalg.LinAlgError("no curvature left along the ray")
    v = rows.values(W - pull)
    S = hessian.gram(rows)
    S *= 0.5
    S += v[:, None] * (v / c)
    S.ravel()[:: v.size + 1] += ratio

    def apply(x: Floats) -> Floats:
        curved = 0.5 * rows.values(hessian.solve(rows.adjoint(x)))
        return curved + v * (float(v @ x) / c) + ratio * x

    solve = schur_solver(S, apply)
    # Rounding lets Q drift from its form; forcing it back would cost Q its definiteness, so the
    # drift is a residual that the next step removes.
    drift = Q12 + 0.5 * rows.adjoint(state.lam)
    trace = t if squared else 1.0
    excess = 2.0 * float(np.vdot(W, drift)) - t * (trace - float(np.trace(state.Q)))

    def newton(target: Floats, rhs: Floats) -> Move:
        shift = inverse[:, :dx].T @ target @ inverse[:, dx:]
        E = hessian.solve(shift + drift)
        along = float(spectrum @ target.diagonal()) + excess - 2.0 * float(np.vdot(Q12, E))
        lam = solve(rhs - rows.values(E) - v * (along / c))
        rho = (along + float(v @ lam)) / c
        E = E + hessian.solve(0.5 * rows.adjoint(lam) - rho * Q12)
        dP = rho * state.P + off_diagonal(E)
        scaled_P = inverse @ dP @ inverse.T
        scaled_Q = target - scaled_P
        dQ = inverse.T @ scaled_Q @ inverse
        return Move(P=dP, Q=dQ, scaled_P=scaled_P, scaled_Q=scaled_Q, lam=lam)

    return newton
