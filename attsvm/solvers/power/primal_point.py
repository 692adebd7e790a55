"""Entrywise ℓp for 2 < p < ∞: interior point on the weights, the multipliers and the slacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attsvm.solvers.power.duality import Array, Mask, Pair, conjugate, length, raised, weigh
from attsvm.solvers.power.normal_matrix import Rows, factor
from attsvm.solvers.power.steps import Continuation, affine, centred, longest, patience

STEPS = 250
BACKTRACKS = 20


class _Point(NamedTuple):
    """An iterate and the linear system at it; margin is the mask of the rows with a slack."""

    A: Rows
    b: Array
    margin: Mask
    p: float
    tau: float
    w: Array
    M: Array
    lam: Array
    s: Array
    rise: Array  # ∇f(w) − M
    B: Array  # reciprocal chord slopes
    short: Array  # A w − s − b
    system: Callable[[Array], Array]


class _Move(NamedTuple):
    """A direction from a point, aimed at λ s = weight."""

    weight: float
    dw: Array
    dM: Array
    dlam: Array
    ds: Array


def primal_pair(
    A: Rows,
    b: Array,
    free: Mask,
    *,
    p: float,
    tol: float,
    path: Continuation,
    w0: Array,
    lam0: Array,
) -> Pair:
    """Returns the best pair found for min ‖w‖_p, A w ≥ b (= on free rows).

    Central path of min f(w) − μ Σ log s, A w − s = b, f(w) = τ²/p Σ|w_i/τ|^p, with M = Aᵀλ:

        M = ∇f(w),   A w − s = b,   λ s = μ.

    τ is reset to ‖w‖_p before each step: f has the same minimiser for every τ. The first equation
    is replaced by the chord E dw − dM = M − ∇f(w), with E_i the slope between the points
    (w_i, ∇f(w)_i) and (∇f*(M)_i, M_i) of its graph. A tangent at either point overshoots where the
    graph is flat (M ≈ 0) or steep; with the chord the barrier duality gap

        f(w) + f*(M) − bᵀλ − μ Σ log(s λ)

    falls along the step whenever A w − s = b, and the chord turns into the tangent at the solution.
    The gap is convex, so a step is judged by its slope at the new point. A large p is reached by
    continuation at a fixed barrier weight.

    Args:
        A: (k, N) rows, b: (k,), free: (k,) True on ties.
        path: how the exponent p is approached.
        w0, lam0: (N,), (k,) the Frobenius pair.
    """
    target, p = p, min(p, path.start)
    margin = ~free
    count = max(int(margin.sum()), 1)
    lam, s = centred(A @ w0 - b, lam0, margin, share=0.1 / count)
    w, step = w0, 1.0
    best, since = Pair(np.inf, w0, lam0), 0
    for _ in range(STEPS):
        if p == target:
            pair = weigh(A, b, free, w=w, lam=lam, p=p)
            since = 0 if pair.error < 0.9 * best.error else since + 1
            best = min(best, pair, key=lambda x: x.error)
            if best.error <= tol or since > patience(best.error):
                break
        point = _point(A, b, margin, p=p, flattest=path.flattest, w=w, lam=lam, s=s)
        if point is None:
            break
        mu = float(lam[margin] @ s[margin]) / count
        move = None
        if p == target and mu > 0.0:
            trial = _newton(point, 0.0)
            keep, bow = affine(lam, s, trial.dlam, trial.ds, margin)
            # μ must not run ahead of the misfit of M = ∇f(w), nor fall while steps are short
            keep = max(keep, 0.3 if step < 0.3 else 0.0)
            weight = min(max(mu * keep, 0.1 * _misfit(point) / count), mu)
            move = _newton(point, weight, bow=bow)
        if move is None or _slope(point, move, 0.0) > 0.0:
            move = _newton(point, mu if move is None else move.weight)
        if not all(np.isfinite(part).all() for part in move):
            break
        step = min(1.0, 0.995 * min(longest(lam, move.dlam, margin), longest(s, move.ds, margin)))
        limit = 0.5 * abs(_slope(point, move, 0.0)) + 1e-14 * point.tau**2
        for _ in range(BACKTRACKS):
            if _slope(point, move, step) <= limit:
                break
            step *= 0.6
        w, lam, s = w + step * move.dw, lam + step * move.dlam, s + step * move.ds
        if p < target and step > 0.5:
            p = min(target, 1.0 + path.growth * (p - 1.0))
    return best


def _point(
    A: Rows, b: Array, margin: Mask, *, p: float, flattest: float, w: Array, lam: Array, s: Array
) -> _Point | None:
    """Returns the iterate with its factored system, or None at w = 0 or without a factor."""
    M, m, tau = lam @ A, A @ w, length(w, p)
    if not tau > 0.0:
        return None
    rise, slopes = chord(w, M, p=p, tau=tau)
    B = 1.0 / np.maximum(slopes, (p - 1.0) * flattest)
    system = factor(A, B, sigma=np.where(margin, s / lam, 0.0))
    if system is None:
        return None
    short = np.where(margin, m - s, m) - b
    return _Point(A, b, margin, p, tau, w, M, lam, s, rise, B, short, system)


def _newton(x: _Point, weight: float, *, bow: Array | float = 0.0) -> _Move:
    """Returns the direction towards λ s = weight; bow is the second-order term dλ ds."""
    aim = np.where(x.margin, (weight - bow) / x.lam - x.s, 0.0)
    dlam = x.system(aim - x.short + x.A @ (x.B * x.rise))
    dM = dlam @ x.A
    ds = np.where(x.margin, aim - x.s / x.lam * dlam, 0.0)
    return _Move(weight, x.B * (dM - x.rise), dM, dlam, ds)


def _slope(x: _Point, d: _Move, a: float) -> float:
    """Returns the derivative of the barrier gap at step a; A w − s − b shrinks as 1 − a."""
    lam, s = x.lam + a * d.dlam, x.s + a * d.ds
    smooth = gradient(x.w + a * d.dw, x.p, x.tau) @ d.dw
    smooth += gradient(x.M + a * d.dM, conjugate(x.p), x.tau) @ d.dM
    linear = (x.b + (1.0 - a) * x.short) @ d.dlam - x.short @ lam
    return float(smooth - linear - d.weight * (d.ds / s + d.dlam / lam)[x.margin].sum())


def _misfit(x: _Point) -> float:
    """Returns f(w) + f*(M) − ⟨w, M⟩ ≥ 0, zero where M = ∇f(w)."""
    q = conjugate(x.p)
    dual = (length(x.M, q) / x.tau) ** q / q
    return x.tau**2 * (1.0 / x.p + dual) - float(x.w @ x.M)


def gradient(x: Array, p: float, tau: float) -> Array:
    """Returns the gradient of τ²/p Σ|x_i/τ|^p; its inverse is the same with q for p."""
    return tau * np.copysign(raised(np.abs(x) / tau, p - 1.0), x)


def chord(w: Array, M: Array, *, p: float, tau: float) -> tuple[Array, Array]:
    """Returns (∇f(w) − M, E): the misfit of M = ∇f(w) and the chord slopes, both (N,)."""
    image = gradient(M, conjugate(p), tau)
    rise, run = gradient(w, p, tau) - M, w - image
    top = np.maximum(np.abs(w), np.abs(image))
    slopes = (p - 1.0) * raised(top / tau, p - 2.0)
    # a difference quotient of nearly equal points is rounding; the tangent serves there
    far = np.abs(run) > 1e-5 * top
    slopes[far] = rise[far] / run[far]
    return rise, slopes
