"""Entrywise ℓp for 2 < p < ∞: interior point on the weights, the multipliers and the slacks."""

from __future__ import annotations

import numpy as np

from attsvm.solvers.duality import Array, Mask, Pair, conjugate, length, power, weigh
from attsvm.solvers.normal_matrix import factor
from attsvm.solvers.steps import centred, longest

STEPS = 150
PATIENCE = 15
BACKTRACKS = 20
DIRECT = 3.0  # exponents up to here need no continuation
FLATTEST = 1e-10  # least slope, in units of the largest; keeps the normal matrix in range


def solve(
    A: Array, b: Array, free: Mask, *, p: float, tol: float, growth: float, w0: Array, lam0: Array
) -> Pair:
    """Returns the best pair found for min ‖w‖_p, A w ≥ b (= on free rows).

    Central path of min f(w) − μ Σ log s, A w − s = b, f(w) = τ²/p Σ|w_i/τ|^p, with M = Aᵀλ:

        M = ∇f(w),   A w − s = b,   λ s = μ.

    τ is reset to ‖w‖_p before each step: f has the same minimiser for every τ. The first equation
    is replaced by the chord E dw − dM = M − ∇f(w), with E_i the slope between the points
    (w_i, ∇f(w)_i) and (∇f*(M)_i, M_i) of its graph. With a tangent at either point a step overshoots
    where the graph is flat (M ≈ 0) or steep; with the chord the barrier duality gap

        f(w) + f*(M) − bᵀλ − μ Σ log(s λ)

    falls along the step whenever A w − s = b, and the chord turns into the tangent at the solution.
    The gap is convex, so a step is judged by its slope at the new point. A large p is reached by
    continuation at a fixed barrier weight.

    Args:
        A: (k, N) rows, b: (k,), free: (k,) True on ties.
        growth: factor on p − 1 in one step of the continuation.
        w0, lam0: (N,), (k,) the Frobenius pair.
    """
    target, p = p, min(p, DIRECT)
    margin = ~free
    count = max(int(margin.sum()), 1)
    lam, s = centred(A @ w0 - b, lam0, margin, share=0.1 / count)
    w, step = w0, 1.0
    best, since = Pair(np.inf, w0, lam0), 0
    for _ in range(STEPS):
        q = conjugate(p)
        M, m = lam @ A, A @ w
        mu = float(lam[margin] @ s[margin]) / count
        if p == target:
            pair = weigh(A, b, free, w=w, lam=lam, p=p)
            since = 0 if pair.error < 0.9 * best.error else since + 1
            best = min(best, pair, key=lambda x: x.error)
            if best.error <= tol or since > PATIENCE:
                break
        tau = length(w, p)
        rise, slopes = _chord(w, M, p=p, tau=tau)
        B = 1.0 / np.maximum(slopes, (p - 1.0) * FLATTEST)
        sigma = np.where(margin, s / lam, 0.0)
        system = factor(A, B, sigma=sigma) if tau > 0.0 else None
        if system is None:
            break
        short = np.where(margin, m - s, m) - b
        pull = short - A @ (B * rise)

        def newton(weight: float, bow: Array | float) -> tuple[Array, Array, Array, Array]:
            """Returns (dw, dM, dλ, ds) towards λ s = weight; bow is the second-order term dλ ds."""
            aim = np.where(margin, (weight - bow) / lam - s, 0.0)
            dlam = system(aim - pull)
            dM = dlam @ A
            return B * (dM - rise), dM, dlam, np.where(margin, aim - sigma * dlam, 0.0)

        def slope(a: float) -> float:
            """Returns the derivative of the barrier gap at step a along the direction."""
            smooth = _gradient(w + a * dw, p, tau) @ dw + _gradient(M + a * dM, q, tau) @ dM
            linear = (b + (1.0 - a) * short) @ dlam - short @ (lam + a * dlam)
            logs = (ds / (s + a * ds) + dlam / (lam + a * dlam))[margin].sum()
            return float(smooth - linear - weight * logs)

        weight = mu
        if p == target and mu > 0.0:
            _, _, dlam, ds = newton(0.0, 0.0)
            a = min(1.0, longest(lam, dlam, margin), longest(s, ds, margin))
            after = float((lam + a * dlam)[margin] @ (s + a * ds)[margin]) / count
            # μ must not run ahead of the misfit f(w) + f*(M) − ⟨w, M⟩ of the first equation
            misfit = tau**2 / p + tau**2 / q * (length(M, q) / tau) ** q - float(w @ M)
            keep = max((after / mu) ** 3, 1e-3, 0.3 if step < 0.3 else 0.0)
            weight = min(max(mu * min(0.8, keep), 0.1 * misfit / count), mu)
            dw, dM, dlam, ds = newton(weight, dlam * ds if a > 0.2 else 0.0)
        if p < target or not mu > 0.0 or slope(0.0) > 0.0:
            dw, dM, dlam, ds = newton(weight, 0.0)
        if not (np.isfinite(dw).all() and np.isfinite(dlam).all() and np.isfinite(ds).all()):
            break
        step = min(1.0, 0.995 * min(longest(lam, dlam, margin), longest(s, ds, margin)))
        limit = 0.5 * abs(slope(0.0)) + 1e-14 * tau**2
        for _ in range(BACKTRACKS):
            if slope(step) <= limit:
                break
            step *= 0.6
        w, lam, s = w + step * dw, lam + step * dlam, s + step * ds
        if p < target and step > 0.5:
            p = min(target, 1.0 + growth * (p - 1.0))
    return best


def _gradient(x: Array, p: float, tau: float) -> Array:
    """Returns the gradient of τ²/p Σ|x_i/τ|^p; its inverse is the same with q for p."""
    return tau * np.copysign(power(np.abs(x) / tau, p - 1.0), x)


def _chord(w: Array, M: Array, *, p: float, tau: float) -> tuple[Array, Array]:
    """Returns (∇f(w) − M, E): the misfit of M = ∇f(w) and the chord slopes, both (N,)."""
    image = _gradient(M, conjugate(p), tau)
    rise, run = _gradient(w, p, tau) - M, w - image
    top = np.maximum(np.abs(w), np.abs(image))
    slopes = (p - 1.0) * power(top / tau, p - 2.0)
    # a difference quotient of nearly equal points is rounding; the tangent serves there
    far = np.abs(run) > 1e-5 * top
    slopes[far] = rise[far] / run[far]
    return rise, slopes
