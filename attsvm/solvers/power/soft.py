"""Soft margins in entrywise ℓp norms, 1 < p < ∞: the interior points with λ in a box.

    min f(w) + Σ cap_k ξ_k,  A w + ξ − s = b;   M = Aᵀλ = ∇f(w),  λs = (cap − λ)ξ = μ → 0

p ≤ 2 works on the multipliers with f = ½‖w‖_p², as `dual_point.py` does. p > 2 works on all
variables with f(w) = τ²/p Σ|w_i/τ|^p, as `primal_point.py` does; ½‖w‖_p² has the same gradient
where τ = ‖w‖_p, and τ is found by a secant: ‖w(τ)‖ grows with τ, at most like τ^((p−2)/(p−1)).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attsvm.solvers.power.duality import Array, Mask, conjugate, duality_map, length, raised, shares
from attsvm.solvers.power.entrywise import PATHS, matrix
from attsvm.solvers.power.normal_matrix import Rows, factor
from attsvm.solvers.power.primal_point import chord, gradient
from attsvm.solvers.power.steps import Continuation, affine, longest, patience
from attsvm.solvers.working_set.soft_rows import BestSoft, Soft, boxed

STEPS = 200
BACKTRACKS = 20
# Rounds of the secant for τ, and of those without half the gap before it gives up; the steps of
# the first round, which sets τ = ‖w‖ before each.
ROUNDS, IDLE, FIRST = 25, 3, 40


class _Box(NamedTuple):
    """λ and cap − λ in one vector X (2k,), s and ξ in another Y; `on` marks the margins in both."""

    X: Array
    Y: Array
    on: Mask

    @property
    def sigma(self) -> Array:
        """s/λ + ξ/(cap − λ) on margins, 0 on ties (k,)."""
        return np.where(self.on, self.Y / self.X, 0.0).reshape(2, -1).sum(axis=0)

    @property
    def weight(self) -> float:
        """The mean product XY."""
        return float(self.X[self.on] @ self.Y[self.on]) / max(int(self.on.sum()), 1)

    def aim(self, weight: float, bow: Array | float) -> Array:
        """Y's way to XY = weight at fixed X (2k,); bow is the second-order term dX dY."""
        return np.where(self.on, (weight - bow) / self.X - self.Y, 0.0)

    def sides(self, dlam: Array, aim: Array) -> tuple[Array, Array]:
        """dX and dY of a change dλ."""
        dX = np.where(self.on, np.concatenate([dlam, -dlam]), 0.0)
        return dX, np.where(self.on, aim - self.Y / self.X * dX, 0.0)


class _Point(NamedTuple):
    """An iterate with its linear system: e ↦ dλ of (A K Aᵀ + σ) dλ = e.

    p > 2: K = diag(B) and dw = B dM − pull; p ≤ 2: w follows from M, and B and pull are zero.
    """

    A: Rows
    w: Array
    lam: Array
    M: Array
    box: _Box
    short: Array  # A w + ξ − s − b
    B: Array
    pull: Array
    system: Callable[[Array], Array]


class _Move(NamedTuple):
    """A direction from a point, aimed at XY = weight."""

    weight: float
    dlam: Array
    dM: Array
    dX: Array
    dY: Array


def inner(soft: Soft, *, p: float, tol: float, W0: Array, lam0: Array) -> tuple[Array, Array]:
    """Best (W, λ) found: (dx, dz) and (k,), meant to have relative gap `tol`.

    W0, lam0: the Frobenius optimum (norm one) and its multipliers, where the search starts.
    """
    A = matrix(soft.rows.D, soft.rows.Z)
    best = BestSoft(soft, W0, lam0).judged(W=W0, lam=lam0)
    method = _dual if p <= 2.0 else _secant
    for path in PATHS:
        with np.errstate(all="ignore"):  # a breakdown shows in the gap
            best = method(A, best, p=p, tol=tol, path=path)
        if best.gap <= tol:
            break
    return best.W, best.lam


def _start(A: Rows, best: BestSoft) -> tuple[Array, Array, _Box]:
    """w, λ and the box at `best`, every product at least a tenth of the gap's average."""
    soft, w, held = best.soft, best.W.ravel(), best.soft.held
    weight = 0.1 * max(best.upper - best.lower, 0.1) / max(int(held.sum()), 1)
    box = boxed(soft, best.lam, A @ w - soft.rows.b, weight=weight)
    X = np.concatenate([np.where(held, box.lam, 1.0), box.room])
    return w, box.lam, _Box(X, np.concatenate([box.s, box.xi]), np.concatenate([held, held]))


def _short(soft: Soft, m: Array, box: _Box) -> Array:
    """A w + ξ − s − b on margins, A w − b on ties, for m = A w (k,)."""
    k = len(m)
    return m - soft.rows.b - np.where(soft.held, box.Y[:k] - box.Y[k:], 0.0)


def _newton(x: _Point, weight: float, *, bow: Array | float = 0.0) -> _Move:
    """The direction towards XY = weight."""
    k, aim = len(x.lam), x.box.aim(weight, bow)
    dlam = x.system(aim[:k] - aim[k:] - x.short + x.A @ x.pull)
    return _Move(weight, dlam, dlam @ x.A, *x.box.sides(dlam, aim))


def _corrected(x: _Point, *, slope: Callable[[_Move], float], floor: float) -> _Move:
    """Mehrotra's direction, without its second-order term where that would climb."""
    now = x.box.weight
    trial = _newton(x, 0.0)
    keep, bow = affine(x.box.X, x.box.Y, trial.dX, trial.dY, x.box.on)
    weight = min(max(keep * now, floor), now)
    move = _newton(x, weight, bow=bow)
    return _newton(x, weight) if slope(move) > 0.0 else move


def _dual(A: Rows, best: BestSoft, *, p: float, tol: float, path: Continuation) -> BestSoft:
    """The best pair from Newton steps on ½‖Aᵀλ‖_q² − bᵀλ − μ Σ log λ − μ Σ log(cap − λ)."""
    soft, target, shape = best.soft, conjugate(p), best.W.shape
    q, b, since = min(target, path.start), soft.rows.b, 0
    _, lam, box = _start(A, best)
    for _ in range(STEPS):
        M = lam @ A
        if q == target:
            old = best.gap
            best = best.judged(W=duality_map(M, q).reshape(shape), lam=lam)
            since = 0 if best.gap < 0.9 * old else since + 1
            if best.gap <= tol or since > patience(best.gap):
                break
        if (point := _dual_point(soft, A, lam, box, q)) is None:
            break

        def slope(move: _Move, step: float = 0.0, q: float = q, x: _Point = point) -> float:
            m = A @ duality_map(x.M + step * move.dM, q)
            bar = (move.dX / (x.box.X + step * move.dX))[x.box.on].sum()
            return float(move.dlam @ (m - b)) - move.weight * float(bar)

        if q < target:
            move = _newton(point, box.weight)
        else:
            move = _corrected(point, slope=slope, floor=0.0)
        if not np.isfinite(move.dlam.sum() + move.dY.sum()):
            break
        step = min(1.0, 0.995 * longest(box.X, move.dX, box.on))
        limit = 0.5 * abs(slope(move)) + 1e-15 * float(np.abs(move.dlam) @ np.abs(b))
        for _ in range(BACKTRACKS):
            if slope(move, step) <= limit:
                break
            step *= 0.6
        lam = lam + step * move.dlam
        other = min(1.0, 0.995 * longest(box.Y, move.dY, box.on))
        box = _Box(box.X + step * move.dX, box.Y + other * move.dY, box.on)
        if q < target and step > 0.5:
            q = min(target, 1.0 + path.growth * (q - 1.0))
    return best


def _dual_point(soft: Soft, A: Rows, lam: Array, box: _Box, q: float) -> _Point | None:
    """The iterate with w = ∇½‖M‖_q², so K = (q−1) diag(u^(q−2)) − (q−2) ŵŵᵀ."""
    M = lam @ A
    u, norm = shares(M, q)
    plain = factor(A, (q - 1.0) * raised(u, q - 2.0), sigma=box.sigma) if norm > 0.0 else None
    if plain is None:
        return None
    solve, w = plain, duality_map(M, q)
    m = A @ w
    g = m / norm
    hg = solve(g)
    # 1 − (q−2) gᵀH⁻¹g ≥ 1/(q−1) in exact arithmetic
    bend = (q - 2.0) / max(1.0 - (q - 2.0) * float(g @ hg), 0.5 / (q - 1.0))

    def system(e: Array) -> Array:
        y = solve(e)
        return np.asarray(y + bend * hg * float(g @ y))

    none = np.zeros_like(w)
    return _Point(A, w, lam, M, box, _short(soft, m, box), none, none, system)


def _secant(A: Rows, best: BestSoft, *, p: float, tol: float, path: Continuation) -> BestSoft:
    """The best pair over τ: log‖w(τ)‖ − log τ has slope between −1 and −1/(p−1)."""
    best, w = _primal(A, best, p=p, tol=tol, path=path, tau=None)
    x = float(np.log(max(length(w, p), 1e-300)))
    steep, last, idle = 1.0, None, 0
    for _ in range(ROUNDS):
        if best.gap <= tol or idle > IDLE or not np.isfinite(x):
            break
        old = best.gap
        best, w = _primal(A, best, p=p, tol=tol, path=path, tau=float(np.exp(x)))
        idle = 0 if best.gap < 0.5 * old else idle + 1
        miss = float(np.log(max(length(w, p), 1e-300))) - x
        if not abs(miss) > 1e-14:
            break
        if last is not None and x != last[0]:
            steep = min(1.0, max((last[1] - miss) / (x - last[0]), 1.0 / (p - 1.0)))
        last = (x, miss)
        x += miss / steep
    return best


def _primal(
    A: Rows, best: BestSoft, *, p: float, tol: float, path: Continuation, tau: float | None
) -> tuple[BestSoft, Array]:
    """The best pair, and the last w, of steps that lower the barrier duality gap

        f(w) + f*(M) − bᵀλ + Σ cap ξ − μ Σ log(λ s (cap − λ) ξ).

    tau: that of f; None sets it to ‖w‖_p before each step.
    """
    soft, shape, since, (target, p) = best.soft, best.W.shape, 0, (p, min(p, path.start))
    b, cap, k = soft.rows.b, np.where(soft.held, soft.cap, 0.0), len(soft.cap)
    w, lam, box = _start(A, best)
    step, error, steps = 1.0, np.inf, 0
    for _ in range(STEPS):
        if not (size := length(w, p) if tau is None or p < target else tau) > 0.0:
            break
        if tau is not None and p == target and steps == 0:
            w = w * min(1.0, tau / max(length(w, p), 1e-300))  # beyond τ a large p makes f immense
        M = lam @ A
        if p == target:
            best = best.judged(W=w.reshape(shape), lam=lam)
            short = _short(soft, A @ w, box)
            now = _misfit(w, M, p, size) + 2 * k * box.weight + abs(float(short @ lam))
            now /= max(best.lower + soft.base, 1e-300)
            since = 0 if now < 0.9 * error else since + 1
            error, steps = min(error, now), steps + 1
            done = best.gap <= tol or error <= 0.1 * tol or since > patience(error)
            if done or (tau is None and steps > FIRST):
                break
        point = _primal_point(soft, A, w, lam, box, p=p, tau=size, flattest=path.flattest)
        if point is None:
            break

        def slope(
            d: _Move, a: float = 0.0, x: _Point = point, p: float = p, tau: float = size
        ) -> float:
            dw = x.B * d.dM - x.pull
            smooth = gradient(x.w + a * dw, p, tau) @ dw
            smooth += gradient(x.M + a * d.dM, conjugate(p), tau) @ d.dM
            linear = (b + (1.0 - a) * x.short) @ d.dlam - x.short @ (x.lam + a * d.dlam)
            bar = d.dX / (x.box.X + a * d.dX) + d.dY / (x.box.Y + a * d.dY)
            cost = float(cap @ d.dY[k:])
            return float(smooth - linear) + cost - d.weight * float(bar[x.box.on].sum())

        if p < target:
            move = _newton(point, box.weight)
        else:
            # μ must not run ahead of the misfit of M = ∇f(w), nor fall while steps are short
            floor = 0.1 * _misfit(w, M, p, size) / max(2 * k, 1)
            floor = max(floor, 0.3 * box.weight if step < 0.3 else 0.0)
            move = _corrected(point, slope=slope, floor=floor)
        if not np.isfinite(move.dlam.sum() + move.dY.sum()):
            break
        reach = min(longest(box.X, move.dX, box.on), longest(box.Y, move.dY, box.on))
        step = min(1.0, 0.995 * reach)
        limit = 0.5 * abs(slope(move)) + 1e-14 * size**2
        for _ in range(BACKTRACKS):
            if slope(move, step) <= limit:
                break
            step *= 0.6
        w, lam = w + step * (point.B * move.dM - point.pull), lam + step * move.dlam
        box = _Box(box.X + step * move.dX, box.Y + step * move.dY, box.on)
        if p < target and step > 0.5:
            p = min(target, 1.0 + path.growth * (p - 1.0))
    return best, w


def _primal_point(
    soft: Soft, A: Rows, w: Array, lam: Array, box: _Box, *, p: float, tau: float, flattest: float
) -> _Point | None:
    """The iterate with M = ∇f(w) replaced by its chord, so K = diag(1/slopes)."""
    M = lam @ A
    rise, slopes = chord(w, M, p=p, tau=tau)
    B = 1.0 / np.maximum(slopes, (p - 1.0) * flattest)
    if (system := factor(A, B, sigma=box.sigma)) is None:
        return None
    return _Point(A, w, lam, M, box, _short(soft, A @ w, box), B, B * rise, system)


def _misfit(w: Array, M: Array, p: float, tau: float) -> float:
    """f(w) + f*(M) − ⟨w, M⟩ ≥ 0, zero where M = ∇f(w); inf where it is too large a number."""
    q = conjugate(p)
    value = np.power(length(w, p) / tau, p) / p + np.power(length(M, q) / tau, q) / q
    return float(tau**2 * value - w @ M)
