"""Primal-dual interior point over the positive semidefinite cone, shared by both matrix norms.

Both norms are programs in two matrices of size N = dx + dz, M = A*λ = Σ λ_k D_k Z_kᵀ:

    nuclear     P = [X₁ W; Wᵀ X₂],   Q = ½[I −M; −Mᵀ I],         norm = ½ tr P
    spectral    P = [tI W; Wᵀ tI],   Q = [Y₁ −½M; −½Mᵀ Y₂],      norm = t, tr Q = 1

with P, Q ⪰ 0, PQ = 0, and A(W)_k = D_kᵀ W Z_k = b_k + s_k; s, λ ≥ 0, sλ = 0 on margins, s = 0 on
ties. A step is Mehrotra's predictor and corrector in the Nesterov-Todd scaling, that is T with
T⁻¹ P T⁻ᵀ = Tᵀ Q T = diag(spectrum). Both norms end in a k×k system for dλ and differ only in how
its matrix is formed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from attsvm.norms.norm import Floats, Norm
from attsvm.solvers.lp_interior_point.gram import Groups

Bools = NDArray[np.bool_]

MOST_STEPS = 60
# Without a better gap for this many steps rounding has taken over.
PATIENCE = 12
# Corrector rounds in a step: each costs two triangular solves, far less than a factorization.
CORRECTORS = 3
# A row missed by less than this is restored by a small change of W, else by scaling W.
SMALL_MISS = 1e-7
# Scaling cannot repair ties and zero right-hand sides, so their miss weighs this much in the gap.
MISS_WEIGHT = 1e3
# The start keeps off the boundary: W is inflated by INFLATE, A*λ has dual norm DUAL_START < 1.
INFLATE = 1.5
DUAL_START = 0.8
LEAST_SLACK = 0.01


@dataclass(frozen=True)
class UnitRows:
    """Rows D_kᵀ W Z_k ≥ b_k, or = b_k where free; D (k, dx), Z (k, dz), b (k,), free (k,)."""

    D: Floats
    Z: Floats
    b: Floats
    free: Bools

    @cached_property
    def groups(self) -> Groups:
        """Which rows have the same Z."""
        return Groups.of(self.Z)

    def values(self, W: Floats) -> Floats:
        """A(W) (k,)."""
        return np.asarray(np.einsum("ke,ke->k", self.D @ W, self.Z))

    def adjoint(self, lam: Floats) -> Floats:
        """A*λ = Σ_k λ_k D_k Z_kᵀ (dx, dz)."""
        return self.D.T @ (lam[:, None] * self.Z)


@dataclass(frozen=True)
class State:
    """Interior iterate: P, Q (N, N) positive definite, λ (k,), slack s (k,), zero on ties.

    T⁻¹ P T⁻ᵀ = Tᵀ Q T = diag(spectrum), inverse = T⁻¹; ratio (k,) = s/λ, zero on ties.
    """

    P: Floats
    Q: Floats
    lam: Floats
    slack: Floats
    T: Floats
    inverse: Floats
    spectrum: Floats
    ratio: Floats


@dataclass(frozen=True)
class Move:
    """Newton direction: dP, dQ, scaled T⁻¹ dP T⁻ᵀ and Tᵀ dQ T, all (N, N), and dλ (k,)."""

    P: Floats
    Q: Floats
    scaled_P: Floats
    scaled_Q: Floats
    lam: Floats


# (target (N, N), rhs (k,)) ↦ Move with scaled dP + scaled dQ = target, A(dW) + ratio·dλ = rhs
Newton = Callable[[Floats, Floats], Move]


@dataclass(frozen=True)
class Best:
    """W of least upper bound and λ of greatest lower bound so far."""

    W: Floats
    lam: Floats
    upper: float = np.inf
    lower: float = 0.0

    @property
    def gap(self) -> float:
        """upper/lower − 1."""
        return self.upper / self.lower - 1.0 if self.lower > 0.0 else np.inf


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


def schur_solver(S: Floats, apply: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """Solver of S x = r: Cholesky with a ridge, then iterative refinement against the true S.

    Duplicated rows make S singular while r stays in its range; the ridge (relative to the diagonal)
    is raised until the Cholesky succeeds, and refinement takes its effect out again.
    S (k, k) in C order, symmetric, destroyed; apply(x) = S x computed from the rows themselves.
    """
    diagonal = np.maximum(S.diagonal(), np.finfo(float).tiny)
    F = S.T  # Fortran order: the factor overwrites the lower triangle, the upper one keeps S
    for ridge in 10.0 ** np.arange(-15.0, -2.0, 2.0):
        np.fill_diagonal(F, diagonal * (1.0 + ridge))
        factor, info = scipy.linalg.lapack.dpotrf(F, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            break
        lower = np.tril_indices_from(F, -1)
        F[lower] = F.T[lower]
    else:
        raise np.linalg.LinAlgError("Schur matrix is not positive definite")

    def solve(rhs: Floats) -> Floats:
        x, r = np.zeros_like(rhs), rhs
        for _ in range(10):
            trial = x + scipy.linalg.lapack.dpotrs(factor, r, lower=1)[0]
            trial_r = rhs - apply(trial)
            old, new = np.linalg.norm(r), np.linalg.norm(trial_r)
            if not new < old:
                break
            x, r = trial, trial_r
            if new > 0.5 * old or new < 1e-15 * np.linalg.norm(rhs):
                break
        return x

    return solve


def settle(rows: UnitRows, W: Floats) -> Floats:
    """W after the least Frobenius change that restores ties and narrowly missed margins.

    A miss of rounding size on a row whose b is itself tiny would cost much if W were scaled.
    """
    chosen = rows.free.copy()
    for _ in range(3):
        short = rows.b - rows.values(W)
        chosen |= short > 0.0
        if not chosen.any() or np.abs(short[chosen]).max() > SMALL_MISS:
            break
        part = UnitRows(rows.D[chosen], rows.Z[chosen], short[chosen], rows.free[chosen])
        W = W + _least_change(part)
    return W


def _least_change(rows: UnitRows) -> Floats:
    """Least Frobenius V with A(V) = b: V = A*x with A A* x = b, A A* = (D Dᵀ)∘(Z Zᵀ)."""
    gram = (rows.D @ rows.D.T) * (rows.Z @ rows.Z.T)
    return rows.adjoint(schur_solver(gram, lambda x: rows.values(rows.adjoint(x)))(rows.b))


def judged(best: Best, rows: UnitRows, *, W: Floats, lam: Floats, norm: Norm) -> Best:
    """`best` after (W, λ) was looked at; W and λ are judged apart."""
    values, held = rows.values(W), ~rows.free
    wide, zero = held & (rows.b > 0.0), held & (rows.b == 0.0)
    share = float((values[wide] / rows.b[wide]).min(initial=np.inf))
    if np.any(rows.b[rows.free] != 0.0) or not wide.any():
        share = min(share, 1.0)  # ties with a right-hand side do not allow W to shrink
    miss = float(np.abs(values - rows.b)[rows.free].max(initial=0.0))
    miss = max(miss, -float(values[zero].min(initial=0.0)))
    upper = float(norm.value(W)) / share * (1.0 + MISS_WEIGHT * miss) if share > 0.0 else np.inf
    if upper < best.upper:
        best = replace(best, W=W.copy(), upper=upper)
    size = float(norm.dual(rows.adjoint(lam)))
    lower = float(rows.b @ lam) / size if size > 0.0 else 0.0
    return replace(best, lam=lam, lower=lower) if lower > best.lower else best


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


def place(P: Floats, Q: Floats, *, lam: Floats, slack: Floats, free: Bools) -> State:
    """State with its scaling, from P = LLᵀ, Q = RRᵀ, RᵀL = U diag(spectrum) Vᵀ."""
    if not np.isfinite(P).all() or not np.isfinite(Q).all():
        raise np.linalg.LinAlgError("iterate is not finite")
    L, R = np.linalg.cholesky(P), np.linalg.cholesky(Q)
    U, spectrum, Vt = np.linalg.svd(R.T @ L)
    if not spectrum[-1] > 0.0:
        raise np.linalg.LinAlgError("iterate on the boundary of the cone")
    T, inverse = (L @ Vt.T) / np.sqrt(spectrum), (R @ U).T / np.sqrt(spectrum)[:, None]
    return State(P, Q, lam, slack, T, inverse, spectrum, slack / np.where(free, 1.0, lam))


def _reach(state: State, move: Move, *, ds: Floats, held: Bools) -> tuple[float, float]:
    """Largest steps ≤ 1e3 that keep (P, s) and (Q, λ) in their cones."""
    root = np.sqrt(state.spectrum)

    def reach(scaled: Floats, relative: Floats) -> float:
        fall = float(np.linalg.eigvalsh(symmetric(scaled / (root[:, None] * root)))[0])
        return 1.0 / max(1e-3, -fall, -float(relative.min(initial=0.0)))

    primal = reach(move.scaled_P, ds[held] / state.slack[held])
    return primal, reach(move.scaled_Q, move.lam[held] / state.lam[held])


def _advance(rows: UnitRows, state: State, newton: Newton) -> State:
    """Next iterate: predictor, then correctors for as long as they lengthen the step."""
    P, Q, lam, slack, spectrum = state.P, state.Q, state.lam, state.slack, state.spectrum
    N, dx, held = P.shape[0], rows.D.shape[1], ~rows.free
    safe = np.where(held, lam, 1.0)
    residual = rows.b + slack - rows.values(P[:dx, dx:])
    total = float(spectrum @ spectrum) + float(lam @ slack)
    mean = 0.5 * (spectrum[:, None] + spectrum)

    def direction(aim: float, cross: Floats, product: Floats) -> tuple[Move, Floats, float, float]:
        target = -cross / mean
        target[np.diag_indices(N)] += aim / spectrum - spectrum
        linear = np.where(held, aim - product, 0.0) / safe - slack
        move = newton(target, residual + linear)
        ds = np.where(held, linear - state.ratio * move.lam, 0.0)
        return move, ds, *_reach(state, move, ds=ds, held=held)

    # Predictor: what it leaves of the complementarity, cubed, is what the correctors aim at.
    move, ds, a, c = direction(0.0, np.zeros((N, N)), np.zeros_like(lam))
    a, c = min(1.0, a), min(1.0, c)
    after = float(np.vdot(P + a * move.P, Q + c * move.Q))
    after += float((lam + c * move.lam)[held] @ (slack + a * ds)[held])
    aim = total / (N + int(held.sum())) * min(1.0, max(0.01, after / total)) ** 3
    a = c = 0.0
    for _ in range(CORRECTORS):
        trial = direction(aim, symmetric(move.scaled_P @ move.scaled_Q), move.lam * ds)
        if min(1.0, trial[2]) * min(1.0, trial[3]) < min(1.0, a) * min(1.0, c):
            break
        move, ds, a, c = trial
    damp = 0.9 + 0.09 * min(1.0, a, c)
    a, c = min(1.0, damp * a), min(1.0, damp * c)
    P, Q = symmetric(P + a * move.P), symmetric(Q + c * move.Q)
    return place(P, Q, lam=lam + c * move.lam, slack=slack + a * ds, free=rows.free)


def interior_point(
    rows: UnitRows,
    norm: Norm,
    *,
    start: Callable[[UnitRows, Floats, Floats], State],
    factor: Callable[[UnitRows, State], Newton],
    W0: Floats,
    lam0: Floats,
    tol: float,
) -> tuple[Floats, Floats]:
    """Best (W, λ) found; stops at relative gap `tol`, or when rounding stops the progress.

    start(rows, W0, λ0) and factor(rows, state) belong to the norm; W0 (dx, dz) and lam0 (k,) are
    the Frobenius optimum and its multipliers.
    """
    dx, stale = W0.shape[0], 0
    lam0 = np.where(rows.free, lam0, np.maximum(lam0, 0.0))
    best = judged(Best(W0, lam0), rows, W=W0, lam=lam0, norm=norm)
    # A breakdown of the linear algebra is rounding level: what was found until then stands.
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        state = start(rows, W0, lam0)
        for _ in range(MOST_STEPS):
            if best.gap <= tol or stale > PATIENCE:
                break
            state = _advance(rows, state, factor(rows, state))
            W, old = state.P[:dx, dx:], best.gap
            for candidate in (W, settle(rows, W)):
                best = judged(best, rows, W=candidate, lam=state.lam, norm=norm)
            stale = 0 if best.gap < old else stale + 1
    return best.W, best.lam
