"""Primal-dual interior point over the positive semidefinite cone, for both matrix norms.

Both norms are programs in two matrices of size N = dx + dz, M = A*λ = Σ λ_k D_k Z_kᵀ:

    nuclear     P = [X₁ W; Wᵀ X₂],   Q = ½[tI −M; −Mᵀ tI],       norm = ½ tr P
    spectral    P = [sI W; Wᵀ sI],   Q = [Y₁ −½M; −½Mᵀ Y₂],      norm = s, tr Q = t

with P, Q ⪰ 0, PQ = 0, t = 1, and A(W)_k = D_kᵀ W Z_k = b_k + s_k; s, λ ≥ 0, sλ = 0 on margins,
s = 0 on ties. A soft margin, min ½‖W‖² + Σ cap_k ξ_k, has A(W) + ξ − s = b and (cap − λ)ξ = 0 as
well, with ξ ≥ 0, and t is the norm of W.

A step is Mehrotra's predictor and corrector in the Nesterov-Todd scaling, that is T with
T⁻¹ P T⁻ᵀ = Tᵀ Q T = diag(spectrum). Both norms end in a k×k system for dλ and differ only in how
its matrix is formed. In a soft margin t joins (P, s) and (Q, λ): one step length serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.norms import Norm
from attsvm.norms.matrix import NuclearNorm, SpectralNorm
from attsvm.solvers.unit_rows import (
    BestPair,
    UnitRows,
    schur_solver,
    weighted_gram,
)

MOST_STEPS = 60
# Without a better gap for this many steps rounding has taken over.
PATIENCE = 12
# Corrector rounds in a step: each costs two triangular solves, far less than a factorization.
CORRECTORS = 3
# The start keeps off the boundary: W is inflated by INFLATE, A*λ has dual norm DUAL_START < 1.
INFLATE = 1.5
DUAL_START = 0.8
LEAST_SLACK = 0.01
# Share of ‖W‖_F by which the singular values of the start are kept from zero (nuclear); how far the
# norm's variable starts above ‖W‖ (spectral), and t above ‖A*λ‖_dual (soft margins).
SPREAD = 0.2
LIFT = 1.2
# Numbers in rows × unknowns from which the Schur matrix is formed query by query (spectral).
MANY = 200_000


@dataclass(frozen=True)
class ConeState:
    """Interior iterate: P, Q (N, N) positive definite and λ (k,).

    X and Y are the positive variables of the rows, λ and s (k,); of a soft margin λ, cap − λ and
    s, ξ, one after the other (2k,). X is 1 and Y 0 on ties. T⁻¹ P T⁻ᵀ = Tᵀ Q T = diag(spectrum),
    inverse = T⁻¹; ratio (k,) = s/λ + ξ/(cap − λ).
    """

    P: Floats
    Q: Floats
    lam: Floats
    X: Floats
    Y: Floats
    T: Floats
    inverse: Floats
    spectrum: Floats
    ratio: Floats


class NewtonStep(NamedTuple):
    """Newton direction: dP, dQ, scaled T⁻¹ dP T⁻ᵀ and Tᵀ dQ T, all (N, N), and dλ (k,)."""

    P: Floats
    Q: Floats
    scaled_P: Floats
    scaled_Q: Floats
    lam: Floats


# (target (N, N), rhs (k,)) ↦ NewtonStep with scaled dP + scaled dQ = target, A(dW) + ratio·dλ = rhs
Newton = Callable[[Floats, Floats], NewtonStep]


class ConeNorm(NamedTuple):
    """One of the two norms: its first P and Q at W and M, and its Newton systems.

    start(W, M, least): t is 1, or at least `least` where that is given, for ½‖W‖².
    factor(rows, state, squared=…): squared for ½‖W‖².
    """

    start: Callable[[Floats, Floats, float | None], tuple[Floats, Floats]]
    factor: Callable[..., Newton]


def interior_point(
    rows: UnitRows, *, norm: Norm, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """Best W (dx, dz) and λ (k,) found, to relative gap `tol` or until rounding stops the progress.

    W0, lam0: the Frobenius optimum (norm one) and its multipliers, where the search starts.
    """
    cone, soft, stale = CONES[type(norm)], rows.cap is not None, 0
    if soft:
        best = rows.start(norm, W0, lam0)
    else:
        best = BestPair(rows, norm, W0, lam0).judged(W=W0, lam=lam0)
    # A breakdown of the linear algebra is rounding level: what was found until then stands.
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        state = _soft_start(rows, cone, best) if soft else _start(rows, cone, norm, W0, lam0)
        for _ in range(MOST_STEPS):
            if best.gap <= tol or stale > PATIENCE:
                break
            newton = cone.factor(rows, state, squared=soft)
            state = _advance(rows, state, newton, joint=soft)
            old = best.gap
            best = rows.judged(best, corner(rows, state), state.lam)
            stale = 0 if best.gap < old else stale + 1
    return best.W, best.lam


def _start(rows: UnitRows, cone: ConeNorm, norm: Norm, W0: Floats, lam0: Floats) -> ConeState:
    """The first iterate, from the Frobenius optimum."""
    W, held = INFLATE * W0, ~rows.free
    lam0 = np.where(held, np.maximum(lam0, 0.0), lam0)
    slack, lam = start_rows(rows, W, lam0=lam0, norm=norm)
    P, Q = cone.start(W, rows.adjoint(lam), None)
    return place(P, Q, lam=lam, X=np.where(held, lam, 1.0), Y=slack)


def _soft_start(rows: UnitRows, cone: ConeNorm, best: BestPair) -> ConeState:
    """The first iterate of a soft margin, from the best pair."""
    W = best.W
    weight = max(best.upper - best.lower, 0.1) / (sum(W.shape) + 2 * int((~rows.free).sum()))
    lam, X, Y = boxed(rows, best.lam, rows.values(W) - rows.b, weight=weight)
    M = rows.adjoint(lam)
    P, Q = cone.start(W, M, LIFT * float(best.norm.dual(M)))
    return place(P, Q, lam=lam, X=X, Y=Y)


def corner(rows: UnitRows, state: ConeState) -> Floats:
    """The W (dx, dz) in P."""
    dx = rows.D.shape[1]
    return state.P[:dx, dx:]


def off_diagonal(M: Floats) -> Floats:
    """[0 M; Mᵀ 0] for M (dx, dz)."""
    dx, dz = M.shape
    out = np.zeros((dx + dz, dx + dz))
    out[:dx, dx:] = M
    out[dx:, :dx] = M.T
    return out


def symmetric(M: Floats) -> Floats:
    """½(M + Mᵀ)."""
    return 0.5 * (M + M.T)


def start_rows(rows: UnitRows, W: Floats, *, lam0: Floats, norm: Norm) -> tuple[Floats, Floats]:
    """Slack s (k,) at W and λ (k,) with A*λ of dual norm ≤ DUAL_START and sλ near its average.

    lam0 (k,): multipliers of the Frobenius optimum.
    """
    held = ~rows.free
    size, length = float(norm.dual(rows.adjoint(lam0))), float(norm.value(W))
    base = lam0 * (DUAL_START / size) if size > 0.0 else np.zeros_like(lam0)
    slack = np.where(held, np.maximum(rows.values(W) - rows.b, LEAST_SLACK), 0.0)
    mu = max(length - float(rows.b @ base), 0.1 * length) / (sum(W.shape) + int(held.sum()))
    lam = np.where(held, np.maximum(base, 0.0) + mu / np.where(held, slack, 1.0), base)
    size = float(norm.dual(rows.adjoint(lam)))
    return slack, lam * min(1.0, DUAL_START / size) if size > 0.0 else lam


def boxed(
    rows: UnitRows, lam: Floats, slack: Floats, *, weight: float
) -> tuple[Floats, Floats, Floats]:
    """λ (k,), X and Y (2k,) of `ConeState` near λ and slack = A(W) − b (k,).

    Every product of X and Y is at least about `weight`.
    """
    held = ~rows.free
    cap = np.where(held, cast(Floats, rows.cap), 2.0)
    over, under = np.maximum(slack, 0.0), np.maximum(-slack, 0.0)
    near = np.sqrt(weight)
    least = np.minimum(weight / np.maximum(over, near), 0.5 * cap)
    spare = np.minimum(weight / np.maximum(under, near), 0.5 * cap)
    # A small distance to the cap is set, not taken as a difference, which would lose it.
    high = lam > cap - spare
    inside = np.where(high, cap - spare, np.maximum(lam, least))
    room = np.where(high, spare, cap - inside)
    s, xi = np.maximum(over, weight / inside), np.maximum(under, weight / room)
    X, Y = np.where(held, [inside, room], 1.0), np.where(held, [s, xi], 0.0)
    return np.where(held, inside, lam), X.ravel(), Y.ravel()


def place(P: Floats, Q: Floats, *, lam: Floats, X: Floats, Y: Floats) -> ConeState:
    """ConeState with its scaling, from P = LLᵀ, Q = RRᵀ, RᵀL = U diag(spectrum) Vᵀ."""
    if not np.isfinite(P).all() or not np.isfinite(Q).all():
        raise np.linalg.LinAlgError("iterate is not finite")
    L, R = np.linalg.cholesky(P), np.linalg.cholesky(Q)
    U, spectrum, Vt = np.linalg.svd(R.T @ L)
    if not spectrum[-1] > 0.0:
        raise np.linalg.LinAlgError("iterate on the boundary of the cone")
    T, inverse = (L @ Vt.T) / np.sqrt(spectrum), (R @ U).T / np.sqrt(spectrum)[:, None]
    ratio = (Y / X).reshape(-1, len(lam)).sum(axis=0)
    return ConeState(P, Q, lam, X, Y, T, inverse, spectrum, ratio)


def _net(Y: Floats, k: int) -> Floats:
    """s, or s − ξ of a soft margin (k,)."""
    return Y if len(Y) == k else Y[:k] - Y[k:]


def _advance(rows: UnitRows, state: ConeState, newton: Newton, *, joint: bool) -> ConeState:
    """Next iterate: predictor, then correctors for as long as they lengthen the step.

    joint: (P, Y) and (Q, X) go equally far.
    """
    P, Q, X, Y, spectrum = state.P, state.Q, state.X, state.Y, state.spectrum
    N, k, root = len(P), len(rows.b), np.sqrt(spectrum)
    held: Bools = np.tile(~rows.free, len(X) // k)
    residual = rows.b + _net(Y, k) - rows.values(corner(rows, state))
    total = float(spectrum @ spectrum) + float(X @ Y)
    mean = 0.5 * (spectrum[:, None] + spectrum)

    def reach(scaled: Floats, relative: Floats) -> float:
        fall = float(np.linalg.eigvalsh(symmetric(scaled / (root[:, None] * root)))[0])
        return 1.0 / max(1e-3, -fall, -float(relative.min(initial=0.0)))

    def direction(
        aim: float, cross: Floats, product: Floats
    ) -> tuple[NewtonStep, Floats, Floats, float, float]:
        target = -cross / mean
        target[np.diag_indices(N)] += aim / spectrum - spectrum
        linear = np.where(held, (aim - product) / X - Y, 0.0)
        move = newton(target, residual + _net(linear, k))
        dX = np.where(held, np.concatenate([move.lam, -move.lam])[: len(X)], 0.0)
        dY = np.where(held, linear - Y / X * dX, 0.0)
        a, c = reach(move.scaled_P, (dY / Y)[held]), reach(move.scaled_Q, (dX / X)[held])
        return (move, dX, dY, min(a, c), min(a, c)) if joint else (move, dX, dY, a, c)

    # Predictor: what it leaves of the complementarity, cubed, is what the correctors aim at.
    move, dX, dY, a, c = direction(0.0, np.zeros((N, N)), np.zeros_like(X))
    a, c = min(1.0, a), min(1.0, c)
    after = float(np.vdot(P + a * move.P, Q + c * move.Q))
    after += float((X + c * dX)[held] @ (Y + a * dY)[held])
    aim = total / (N + int(held.sum())) * min(1.0, max(0.01, after / total)) ** 3
    a = c = 0.0
    for _ in range(CORRECTORS):
        trial = direction(aim, symmetric(move.scaled_P @ move.scaled_Q), dX * dY)
        if min(1.0, trial[3]) * min(1.0, trial[4]) < min(1.0, a) * min(1.0, c):
            break
        move, dX, dY, a, c = trial
    damp = 0.9 + 0.09 * min(1.0, a, c)
    a, c = min(1.0, damp * a), min(1.0, damp * c)
    P, Q = symmetric(P + a * move.P), symmetric(Q + c * move.Q)
    return place(P, Q, lam=state.lam + c * move.lam, X=X + c * dX, Y=Y + a * dY)


def _blocks(U: Floats, sigma: Floats, Vt: Floats, change: Callable[[Floats], Floats]) -> Floats:
    """[U f(σ) Uᵀ 0; 0 V f(σ) Vᵀ], σ padded with zeros."""
    dx, dz = len(U), len(Vt)
    left, right = np.zeros(dx), np.zeros(dz)
    left[: sigma.size] = right[: sigma.size] = sigma
    out = np.zeros((dx + dz, dx + dz))
    out[:dx, :dx] = (U * change(left)) @ U.T
    out[dx:, dx:] = (Vt.T * change(right)) @ Vt
    return out


def _nuclear_start(W: Floats, M: Floats, least: float | None) -> tuple[Floats, Floats]:
    """X₁ = (WWᵀ + ε²)^½ and X₂ = (WᵀW + ε²)^½ in P, t in Q."""
    P = off_diagonal(W) + _blocks(*np.linalg.svd(W), lambda x: np.hypot(x, SPREAD))
    t = 1.0 if least is None else max(0.5 * float(np.trace(P)), least)
    return P, 0.5 * (t * np.eye(len(P)) - off_diagonal(M))


def _curvature(rows: UnitRows, state: ConeState) -> tuple[Floats, Callable[[Floats], Floats]]:
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


def _nuclear_factor(rows: UnitRows, state: ConeState, *, squared: bool = False) -> Newton:
    """Newton directions from the Schur matrix ½ A(G · G) + diag(s/λ)."""
    if squared:
        return _squared_nuclear_factor(rows, state)
    T, dx = state.T, rows.D.shape[1]
    S, curved = _curvature(rows, state)
    S.ravel()[:: len(S) + 1] += state.ratio
    solve = schur_solver(S, lambda x: curved(x) + state.ratio * x)

    def newton(target: Floats, rhs: Floats) -> NewtonStep:
        lam = solve(rhs - rows.values(T[:dx] @ target @ T[dx:].T))
        dQ = off_diagonal(-0.5 * rows.adjoint(lam))
        scaled_Q = T.T @ dQ @ T
        scaled_P = target - scaled_Q
        return NewtonStep(P=T @ scaled_P @ T.T, Q=dQ, scaled_P=scaled_P, scaled_Q=scaled_Q, lam=lam)

    return newton


def _squared_nuclear_factor(rows: UnitRows, state: ConeState) -> Newton:
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

    def newton(target: Floats, rhs: Floats) -> NewtonStep:
        last = excess + float(spectrum @ target.diagonal()) + float(lam @ rhs)
        x = solve(np.append(rhs - rows.values(T[:dx] @ target @ T[dx:].T), last))
        bend = off_diagonal(-0.5 * rows.adjoint(x[:k]))
        scaled_Q = T.T @ bend @ T
        scaled_Q[np.diag_indices_from(scaled_Q)] += x[k] * spectrum
        scaled_P = target - scaled_Q
        dlam = x[:k] + x[k] * lam
        dQ = off_diagonal(-0.5 * rows.adjoint(dlam))
        dQ[np.diag_indices_from(dQ)] += 0.5 * x[k] * t
        return NewtonStep(
            P=T @ scaled_P @ T.T, Q=dQ, scaled_P=scaled_P, scaled_Q=scaled_Q, lam=dlam
        )

    return newton


def _spectral_start(W: Floats, M: Floats, least: float | None) -> tuple[Floats, Floats]:
    """s above ‖W‖ in P; Y₁, Y₂ = ½|M| plus a multiple of I, of trace t, in Q."""
    s = LIFT * float(SpectralNorm().value(W))
    P = s * np.eye(sum(W.shape)) + off_diagonal(W)
    U, sigma, Vt = np.linalg.svd(M)
    t = 1.0 if least is None else max(s, least)
    spare = (t - float(sigma.sum())) / len(P)
    return P, off_diagonal(-0.5 * M) + _blocks(U, sigma, Vt, lambda x: 0.5 * x + spare)


class SpectralHessian:
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


def _spectral_factor(rows: UnitRows, state: ConeState, *, squared: bool = False) -> Newton:
    """Newton directions: unknowns E (dx, dz), ρ and dλ with dP = ρP + [0 E; Eᵀ 0],

        2H E + 2ρ Q₁₂ − A*dλ = …,   2⟨Q₁₂, E⟩ + ⟨P, Q⟩ρ − A(W)ᵀdλ = …,   A(E) + ρA(W) + s/λ·dλ = …

    so with c = ⟨P, Q⟩ − 2⟨Q₁₂, H⁻¹Q₁₂⟩ > 0 and v = A(W) − A(H⁻¹Q₁₂) the Schur matrix is
    ½ A H⁻¹ A* + vvᵀ/c + diag(s/λ). squared: the objective is ½t², which adds t² to c.
    """
    dx = rows.D.shape[1]
    inverse, spectrum, ratio = state.inverse, state.spectrum, state.ratio
    hessian = SpectralHessian(inverse.T @ inverse, dx)
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

    def newton(target: Floats, rhs: Floats) -> NewtonStep:
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
        return NewtonStep(P=dP, Q=dQ, scaled_P=scaled_P, scaled_Q=scaled_Q, lam=lam)

    return newton


CONES: dict[type[Norm], ConeNorm] = {
    NuclearNorm: ConeNorm(_nuclear_start, _nuclear_factor),
    SpectralNorm: ConeNorm(_spectral_start, _spectral_factor),
}
