"""Entrywise ℓp for 1 < p ≤ 2: interior point on the multipliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attsvm.solvers.power.duality import (
    Array,
    Mask,
    Pair,
    conjugate,
    duality_map,
    length,
    raised,
    shares,
    weigh,
)
from attsvm.solvers.power.normal_matrix import Rows, factor
from attsvm.solvers.power.steps import Continuation, affine, centred, longest, patience

STEPS = 150
BACKTRACKS = 20


class _Point(NamedTuple):
    """An iterate and the linear system at it; margin is the mask of the rows with λ ≥ 0."""

    A: Rows
    b: Array
    margin: Mask
    q: float
    lam: Array
    s: Array
    M: Array
    m: Array  # A w
    g: Array  # A ŵ
    hg: Array  # system(g)
    bend: float
    system: Callable[[Array], Array]


class _Move(NamedTuple):
    """A direction from a point, aimed at λ s = weight, and the slope of the barrier function."""

    weight: float
    dlam: Array
    ds: Array
    slope: float


def dual_pair(
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

    The dual min_λ ½‖Aᵀλ‖_q² − bᵀλ (λ ≥ 0 off the free rows) is twice differentiable as q ≥ 2, and
    w = ∇½‖·‖_q² at M = Aᵀλ. With the barrier −μ Σ log λ each Newton system has the matrix

        A [(q−1) diag(u^(q−2)) − (q−2) ŵŵᵀ] Aᵀ + diag(s/λ),   u = |M|/‖M‖_q,  ŵ = w/‖w‖_p.

    The barrier function is convex, so a step is judged by its slope at the new point. A large q is
    reached by continuation at a fixed barrier weight.

    Args:
        A: (k, N) rows, b: (k,), free: (k,) True on ties.
        path: how the dual exponent q is approached.
        w0, lam0: (N,), (k,) the Frobenius pair.
    """
    target = conjugate(p)
    q = min(target, path.start)
    margin = ~free
    count = max(int(margin.sum()), 1)
    lam, s = centred(A @ w0 - b, lam0, margin, share=0.1 / count)
    best, since = Pair(np.inf, w0, lam0), 0
    for _ in range(STEPS):
        value, norm = float(b @ lam), length(lam @ A, q)
        if q < target and value > 0.0 and norm > 0.0:
            lam = lam * (value / norm**2)  # the best multiple of λ
        if q == target:
            pair = weigh(A, b, free, w=duality_map(lam @ A, q), lam=lam, p=p)
            since = 0 if pair.error < 0.9 * best.error else since + 1
            best = min(best, pair, key=lambda x: x.error)
            if best.error <= tol or since > patience(best.error):
                break
        point = _point(A, b, margin, q=q, lam=lam, s=s)
        if point is None:
            break
        mu = float(lam[margin] @ s[margin]) / count
        if q < target:
            move = _newton(point, mu)
        else:
            trial = _newton(point, 0.0)
            keep, bow = affine(lam, s, trial.dlam, trial.ds, margin)
            move = _newton(point, keep * mu, bow=bow)
            if move.slope > 0.0:
                move = _newton(point, keep * mu)
        if not (np.isfinite(move.dlam).all() and np.isfinite(move.ds).all()):
            break
        step = min(1.0, 0.995 * longest(lam, move.dlam, margin))
        limit = 0.5 * abs(move.slope) + 1e-15 * float(np.abs(move.dlam) @ np.abs(b))
        dM = move.dlam @ A
        for _ in range(BACKTRACKS):
            m = A @ duality_map(point.M + step * dM, q)
            if _slope(point, move.dlam, lam + step * move.dlam, m, move.weight) <= limit:
                break
            step *= 0.6
        lam = lam + step * move.dlam
        s = s + min(1.0, 0.995 * longest(s, move.ds, margin)) * move.ds
        if q < target and step > 0.5:
            q = min(target, 1.0 + path.growth * (q - 1.0))
    return best


def _point(A: Rows, b: Array, margin: Mask, *, q: float, lam: Array, s: Array) -> _Point | None:
    """Returns the iterate with its factored system, or None at M = 0 or without a factor."""
    M = lam @ A
    u, norm = shares(M, q)
    if not norm > 0.0:
        return None
    D = (q - 1.0) * raised(u, q - 2.0)
    system = factor(A, D, sigma=np.where(margin, s / lam, 0.0))
    if system is None:
        return None
    m = A @ duality_map(M, q)
    g = m / norm
    hg = system(g)
    # 1 − (q−2) gᵀH⁻¹g ≥ 1/(q−1) in exact arithmetic
    bend = (q - 2.0) / max(1.0 - (q - 2.0) * float(g @ hg), 0.5 / (q - 1.0))
    return _Point(A, b, margin, q, lam, s, M, m, g, hg, bend, system)


def _newton(x: _Point, weight: float, *, bow: Array | float = 0.0) -> _Move:
    """Returns the direction towards λ s = weight; bow is the second-order term dλ ds."""
    aim = np.where(x.margin, (weight - bow) / x.lam, 0.0)
    y = x.system(x.b - x.m + aim)
    dlam = y + x.bend * x.hg * float(x.g @ y)
    ds = np.where(x.margin, aim - x.s - x.s / x.lam * dlam, 0.0)
    return _Move(weight, dlam, ds, _slope(x, dlam, x.lam, x.m, weight))


def _slope(x: _Point, dlam: Array, lam: Array, m: Array, weight: float) -> float:
    """Returns the derivative along dλ of ½‖Aᵀλ‖_q² − bᵀλ − weight Σ log λ; m = A w at λ."""
    return float(dlam @ (m - x.b)) - weight * float((dlam / lam)[x.margin].sum())
