"""Entrywise ℓp for 1 < p ≤ 2: interior point on the multipliers."""

from __future__ import annotations

import numpy as np

from attsvm.solvers.duality import (
    Array,
    Mask,
    Pair,
    conjugate,
    duality_map,
    length,
    power,
    shares,
    weigh,
)
from attsvm.solvers.normal_matrix import factor
from attsvm.solvers.steps import centred, longest

STEPS = 150
PATIENCE = 12
BACKTRACKS = 20
DIRECT = 3.4  # dual exponents up to here need no continuation


def solve(
    A: Array, b: Array, free: Mask, *, p: float, tol: float, growth: float, w0: Array, lam0: Array
) -> Pair:
    """Returns the best pair found for min ‖w‖_p, A w ≥ b (= on free rows).

    The dual min_λ ½‖Aᵀλ‖_q² − bᵀλ (λ ≥ 0 off the free rows) is twice differentiable as q ≥ 2, and
    w = ∇½‖·‖_q² at M = Aᵀλ. With the barrier −μ Σ log λ each Newton system has the matrix

        A [(q−1) diag(u^(q−2)) − (q−2) ŵŵᵀ] Aᵀ + diag(s/λ),   u = |M|/‖M‖_q,  ŵ = w/‖w‖_p.

    The barrier function is convex, so a step is judged by its slope at the new point alone. A large
    q is reached by continuation at a fixed barrier weight.

    Args:
        A: (k, N) rows, b: (k,), free: (k,) True on ties.
        growth: factor on q − 1 in one step of the continuation.
        w0, lam0: (N,), (k,) the Frobenius pair.
    """
    target = conjugate(p)
    margin = ~free
    count = max(int(margin.sum()), 1)
    q = min(target, DIRECT)
    lam, s = centred(A @ w0 - b, lam0, margin, share=0.1 / count)
    best = Pair(np.inf, w0, lam0)
    since = 0
    for _ in range(STEPS):
        M = lam @ A
        value, norm = float(b @ lam), length(M, q)
        if value > 0.0 and norm > 0.0 and q < target:
            lam *= value / norm**2
            M *= value / norm**2
        u, norm = shares(M, q)
        w = duality_map(M, q)
        m = A @ w
        mu = float(lam[margin] @ s[margin]) / count
        if q == target:
            pair = weigh(A, b, free, w=w, lam=lam, p=p)
            since = 0 if pair.error < 0.9 * best.error else since + 1
            best = min(best, pair, key=lambda x: x.error)
            if best.error <= tol or since > PATIENCE:
                break
        sigma = np.where(margin, s / lam, 0.0)
        system = factor(A, (q - 1.0) * power(u, q - 2.0), sigma=sigma)
        if system is None or norm == 0.0:
            break
        g = m / norm
        hg = system(g)
        bend = (q - 2.0) / max(1.0 - (q - 2.0) * float(g @ hg), 0.5 / (q - 1.0))

        def newton(weight: float, bow: Array | float) -> tuple[Array, Array]:
            """Returns (dλ, ds) towards λ s = weight; bow is the second-order term dλ ds."""
            aim = np.where(margin, (weight - bow) / lam, 0.0)
            x = system(b - m + aim)
            dlam = x + bend * hg * float(g @ x)
            return dlam, np.where(margin, aim - s - sigma * dlam, 0.0)

        if q < target:
            weight = mu
            dlam, ds = newton(weight, 0.0)
        else:
            dlam, ds = newton(0.0, 0.0)
            a = min(longest(lam, dlam, margin), longest(s, ds, margin))
            after = float((lam + a * dlam)[margin] @ (s + a * ds)[margin]) / count
            weight = mu * min(0.8, max(1e-3, (after / mu) ** 3)) if mu > 0.0 else 0.0
            dlam, ds = newton(weight, dlam * ds if a > 0.2 else 0.0)
        if not (np.isfinite(dlam).all() and np.isfinite(ds).all()):
            break
        slope = float(dlam @ (m - b)) - weight * float(np.sum(dlam[margin] / lam[margin]))
        if slope > 0.0:
            dlam, ds = newton(weight, 0.0)
            slope = float(dlam @ (m - b)) - weight * float(np.sum(dlam[margin] / lam[margin]))
        step = min(1.0, 0.995 * longest(lam, dlam, margin))
        dM = dlam @ A
        for _ in range(BACKTRACKS):
            # Convex along the line: a slope that is not much above zero means no overshoot.
            there = float(dlam @ (A @ duality_map(M + step * dM, q) - b))
            there -= weight * float(np.sum(dlam[margin] / (lam + step * dlam)[margin]))
            if there <= 0.5 * abs(slope) + 1e-15 * float(np.abs(dlam) @ np.abs(b)):
                break
            step *= 0.6
        lam = lam + step * dlam
        s = s + min(1.0, 0.995 * longest(s, ds, margin)) * ds
        if q < target and step > 0.5:
            q = min(target, 1.0 + growth * (q - 1.0))
    return best
