"""Entrywise ℓp: interior points on the multipliers (1 < p ≤ 2) or on the weights (p > 2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy

from attsvm._utils.arrays import Bools, Floats
from attsvm.solvers.unit_rows import Solve, UnitRows, refined


class Continuation(NamedTuple):
    """Continuation in an exponent r ≥ 2: r begins at start, then r − 1 grows by a factor.

    flattest is the least slope of r > 2 in the primal linear system, in units of the largest: a
    small one follows the graph closely, a larger one keeps the system better conditioned.
    """

    start: float
    growth: float
    flattest: float


# Continuations in p, or in its dual when p ≤ 2; the second is tried when the first fails.
PATHS = (Continuation(3.2, 1.6, 1e-10), Continuation(2.0, 1.2, 1e-8))

STEEPEST = 100.0  # where a larger p fails, the optimum of this one comes within N^(1/100)
RETRY = 1e-7  # errors up to here are rounding, which a second run meets again


def inner(
    rows: UnitRows, *, p: float, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """Returns (W, λ) for min (Σ|W_ij|^p)^(1/p), D_kᵀ W Z_k ≥ b_k (= on free rows), 1 < p < ∞.

    p ≤ 2 works on the multipliers (the dual exponent is ≥ 2, so the dual is smooth), p > 2 on the
    weights. The pair is the best one found; its gap is meant to be at most tol, but only a
    certificate can tell.
    """
    A, b, free = rows.stacked, rows.b, rows.free
    method = dual_pair if p <= 2.0 else primal_pair
    best = LpPair(np.inf, W0.ravel(), lam0)
    for path in PATHS:
        with np.errstate(all="ignore"):  # a breakdown shows in the error of the pair
            pair = method(A, b, free, p=p, tol=0.5 * tol, path=path, w0=W0.ravel(), lam0=lam0)
            pair = mend(A, b, free, pair=pair, p=p, tol=tol)
        best = min(best, pair, key=lambda x: x.error)
        if best.error <= max(tol, RETRY):
            break
    if best.error > 1e-3 and p > STEEPEST:
        w, lam = inner(rows, p=STEEPEST, tol=tol, W0=W0, lam0=lam0)
        pair = weigh(A, b, free, w=w.ravel(), lam=lam, p=p)
        best = min(best, pair, key=lambda x: x.error)
    return best.w.reshape(W0.shape), best.lam


REPAIRS = 4


class LpPair(NamedTuple):
    """An untrusted primal-dual pair with its own estimate of how far from optimal it is."""

    error: float
    w: Floats
    lam: Floats


def conjugate(p: float) -> float:
    """Returns the dual exponent q = p/(p−1)."""
    if p == 1.0:
        return np.inf
    return 1.0 if np.isinf(p) else p / (p - 1.0)


def length(v: Floats, p: float) -> float:
    """Returns (Σ|v_i|^p)^(1/p), formed from ratios to the largest entry so nothing overflows."""
    size = np.abs(v)
    top = float(size.max(initial=0.0))
    if not 0.0 < top < np.inf or np.isinf(p):
        return top
    with np.errstate(under="ignore"):
        return top * float(np.sum((size / top) ** p)) ** (1.0 / p)


def shares(v: Floats, p: float) -> tuple[Floats, float]:
    """Returns (|v_i|/‖v‖_p, ‖v‖_p)."""
    norm = length(v, p)
    return np.abs(v) / max(norm, 1e-300), norm


def raised(u: Floats, exponent: float) -> Floats:
    """Returns u^exponent for u ≥ 0; entries too small for float64 become 0."""
    with np.errstate(under="ignore"):
        return np.asarray(u**exponent)


def duality_map(v: Floats, p: float) -> Floats:
    """Returns ∇ ½‖v‖_p² = ‖v‖_p sign(v) (|v|/‖v‖_p)^(p−1); its length in the dual norm is ‖v‖_p."""
    u, norm = shares(v, p)
    return norm * np.copysign(raised(u, p - 1.0), v)


def weigh(A: Floats, b: Floats, free: Bools, *, w: Floats, lam: Floats, p: float) -> LpPair:
    """Returns the pair with error = |upper/lower − 1| + cost of the rows that scaling cannot mend.

    upper = ‖w‖_p/min(margin/b), lower = bᵀλ/‖Aᵀλ‖_q. Ties and rows with b = 0 (with a tie b ≠ 0:
    all rows) keep their misfit under scaling; a misfit e moves the least norm by the share
    e Σ|λ|/bᵀλ to first order.
    """
    m = A @ w
    lam = np.where(free, lam, np.maximum(lam, 0.0))
    value = float(b @ lam)
    lower = value / max(length(lam @ A, conjugate(p)), 1e-300)
    if not (value > 0.0 and np.isfinite(lower) and np.isfinite(m).all()):
        return LpPair(np.inf, w, lam)
    ratio = worst_ratio(m, b, free)
    if not 0.0 < ratio < np.inf:
        return LpPair(np.inf, w, lam)
    misfit = np.where(free, np.abs(m / ratio - b), np.maximum(b - m / ratio, 0.0))
    cost = float(misfit.max(initial=0.0)) * float(np.abs(lam).sum()) / value
    return LpPair(abs(length(w, p) / (ratio * lower) - 1.0) + cost, w, lam)


def worst_ratio(m: Floats, b: Floats, free: Bools) -> float:
    """Returns min m_k/b_k over margins b_k > 0, or 1 when a tie b ≠ 0 forbids to rescale w."""
    if b[free].any():
        return 1.0
    positive = ~free & (b > 0.0)
    return float(np.min(m[positive] / b[positive], initial=np.inf))


def mend(A: Floats, b: Floats, free: Bools, *, pair: LpPair, p: float, tol: float) -> LpPair:
    """Returns the pair with w scaled to worst ratio 1, ties and rows with b = 0 restored.

    Restoring is the least change of w; with a tie b ≠ 0 the other margins are restored too. Floats
    that the change itself breaks join in the next round.
    """
    ratio = worst_ratio(A @ pair.w, b, free)
    if not 0.0 < ratio < np.inf:
        return pair
    scaled = LpPair(pair.error, pair.w / ratio, pair.lam)
    fixed = np.full_like(free, True) if b[free].any() else free | (b <= 0.0)
    mended = weigh(A, b, free, w=_restore(A, b, free, scaled.w, fixed), lam=pair.lam, p=p)
    best = mended if mended.error <= 2.0 * pair.error + 1e-14 else scaled
    if best.error > tol:
        # rounding on rows with a tiny b: set every row with a multiplier to its right-hand side
        tight = free | (pair.lam > 1e-9 * float(np.abs(pair.lam).max()))
        tight &= free | (A @ scaled.w - b < 1e-6)
        polished = weigh(A, b, free, w=_restore(A, b, tight, scaled.w, fixed), lam=pair.lam, p=p)
        best = min(best, polished, key=lambda x: x.error)
    return best


def _restore(A: Floats, b: Floats, rows: Bools, w: Floats, fixed: Bools) -> Floats:
    """Returns w after the least change that meets the given rows with equality.

    Fixed rows that fall short, now or by the change, join in the next round.
    """
    rows = rows.copy()
    for _ in range(REPAIRS):
        misfit = b - A @ w
        rows |= fixed & (misfit > 0.0)
        active = np.flatnonzero(rows)
        if not active.size or float(np.abs(misfit[active]).max()) < 1e-16:
            break
        part = A[active]
        system = factor(part, np.ones(A.shape[1]), sigma=np.zeros(active.size))
        if system is None:
            break
        w = w + system(misfit[active]) @ part
    return w


def longest(x: Floats, dx: Floats, on: Bools) -> float:
    """Returns the largest a ≤ 1e3 with x + a dx ≥ 0 on the masked entries."""
    return 1.0 / float(np.max(-dx[on] / x[on], initial=1e-3))


def affine(
    lam: Floats, s: Floats, dlam: Floats, ds: Floats, on: Bools
) -> tuple[float, Floats | float]:
    """Returns (share of μ to keep, second-order term dλ ds) from the direction aimed at μ = 0.

    The share is the cube of the decrease that the direction reaches, within [1e-3, 0.8]. After a
    short step the second-order term says little and is left out.

    Theory: the predictor and corrector of [mehrotra1992interior].
    """
    a = min(1.0, longest(lam, dlam, on), longest(s, ds, on))
    before = float(lam[on] @ s[on])
    after = float((lam + a * dlam)[on] @ (s + a * ds)[on])
    keep = min(0.8, max((after / before) ** 3, 1e-3)) if before > 0.0 else 0.0
    return keep, dlam * ds if a > 0.2 else 0.0


def centred(slack: Floats, lam: Floats, margin: Bools, *, share: float) -> tuple[Floats, Floats]:
    """Returns (λ, s) near the given multipliers and slacks with λ_k s_k = μ on margin rows.

    y = λ/ρ − slack splits into smoothed positive and negative parts whose product is μ/ρ, with ρ
    the typical ratio of a multiplier to a slack.

    Args:
        slack, lam: (k,) of a nearby optimal pair, Σ b λ = 1.
        share: μ.
    """
    rho = float(np.abs(lam).mean()) or 1.0 / max(len(lam), 1)
    y = np.where(margin, np.maximum(lam, 0.0) / rho - np.maximum(slack, 0.0), 0.0)
    # the smaller part comes from the product, free of cancellation
    big = 0.5 * (np.abs(y) + np.sqrt(y * y + 4.0 * share / rho))
    small = (share / rho) / big
    up, down = np.where(y > 0.0, big, small), np.where(y > 0.0, small, big)
    return np.where(margin, rho * up, lam), np.where(margin, down, 1.0)


def patience(error: float) -> int:
    """Returns how many steps may pass without progress: few once rounding may be what is left."""
    return 40 if error > 1e-6 else 10


DUAL_STEPS = 150
BACKTRACKS = 20


def dual_pair(
    A: Floats,
    b: Floats,
    free: Bools,
    *,
    p: float,
    tol: float,
    path: Continuation,
    w0: Floats,
    lam0: Floats,
) -> LpPair:
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
    best, since = LpPair(np.inf, w0, lam0), 0
    for _ in range(DUAL_STEPS):
        value, norm = float(b @ lam), length(lam @ A, q)
        if q < target and value > 0.0 and norm > 0.0:
            lam = lam * (value / norm**2)  # the best multiple of λ
        if q == target:
            pair = weigh(A, b, free, w=duality_map(lam @ A, q), lam=lam, p=p)
            since = 0 if pair.error < 0.9 * best.error else since + 1
            best = min(best, pair, key=lambda x: x.error)
            if best.error <= tol or since > patience(best.error):
                break
        newton = _dual_newton(A, b, margin, q=q, lam=lam, s=s)
        if newton is None:
            break
        weight = float(lam[margin] @ s[margin]) / count
        if q < target:
            dlam, ds, slope = newton(weight, 0.0)
        else:
            keep, bow = affine(lam, s, *newton(0.0, 0.0)[:2], margin)
            weight = keep * weight
            dlam, ds, slope = newton(weight, bow)
            if slope > 0.0:
                dlam, ds, slope = newton(weight, 0.0)
        if not (np.isfinite(dlam).all() and np.isfinite(ds).all()):
            break
        step = min(1.0, 0.995 * longest(lam, dlam, margin))
        limit = 0.5 * abs(slope) + 1e-15 * float(np.abs(dlam) @ np.abs(b))
        M, dM = lam @ A, dlam @ A
        for _ in range(BACKTRACKS):
            m = A @ duality_map(M + step * dM, q)
            if _dual_slope(dlam, lam + step * dlam, m - b, weight, margin) <= limit:
                break
            step *= 0.6
        lam = lam + step * dlam
        s = s + min(1.0, 0.995 * longest(s, ds, margin)) * ds
        if q < target and step > 0.5:
            q = min(target, 1.0 + path.growth * (q - 1.0))
    return best


def _dual_newton(
    A: Floats, b: Floats, margin: Bools, *, q: float, lam: Floats, s: Floats
) -> Callable[[float, Floats | float], tuple[Floats, Floats, float]] | None:
    """(weight, second-order term dλ ds) ↦ dλ, ds towards λ s = weight, and the slope along them.

    None at M = 0 or without a factor.
    """
    M = lam @ A
    u, norm = shares(M, q)
    if not norm > 0.0:
        return None
    D = (q - 1.0) * raised(u, q - 2.0)
    system = factor(A, D, sigma=np.where(margin, s / lam, 0.0))
    if system is None:
        return None
    solve, m = system, A @ duality_map(M, q)
    g = m / norm  # A ŵ
    hg = solve(g)
    # 1 − (q−2) gᵀH⁻¹g ≥ 1/(q−1) in exact arithmetic
    bend = (q - 2.0) / max(1.0 - (q - 2.0) * float(g @ hg), 0.5 / (q - 1.0))

    def newton(weight: float, bow: Floats | float) -> tuple[Floats, Floats, float]:
        aim = np.where(margin, (weight - bow) / lam, 0.0)
        y = solve(b - m + aim)
        dlam = y + bend * hg * float(g @ y)
        ds = np.where(margin, aim - s - s / lam * dlam, 0.0)
        return dlam, ds, _dual_slope(dlam, lam, m - b, weight, margin)

    return newton


def _dual_slope(dlam: Floats, lam: Floats, over: Floats, weight: float, margin: Bools) -> float:
    """Returns the derivative along dλ of ½‖Aᵀλ‖_q² − bᵀλ − weight Σ log λ; over = A w − b at λ."""
    return float(dlam @ over) - weight * float((dlam / lam)[margin].sum())


PRIMAL_STEPS = 250


class _PrimalPoint(NamedTuple):
    """An iterate and the linear system at it; margin is the mask of the rows with a slack."""

    A: Floats
    b: Floats
    margin: Bools
    p: float
    tau: float
    w: Floats
    M: Floats
    lam: Floats
    s: Floats
    rise: Floats  # ∇f(w) − M
    B: Floats  # reciprocal chord slopes
    short: Floats  # A w − s − b
    system: Solve


class _PrimalStep(NamedTuple):
    """A direction from a point, aimed at λ s = weight."""

    weight: float
    dw: Floats
    dM: Floats
    dlam: Floats
    ds: Floats


def primal_pair(
    A: Floats,
    b: Floats,
    free: Bools,
    *,
    p: float,
    tol: float,
    path: Continuation,
    w0: Floats,
    lam0: Floats,
) -> LpPair:
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
    best, since = LpPair(np.inf, w0, lam0), 0
    for _ in range(PRIMAL_STEPS):
        if p == target:
            pair = weigh(A, b, free, w=w, lam=lam, p=p)
            since = 0 if pair.error < 0.9 * best.error else since + 1
            best = min(best, pair, key=lambda x: x.error)
            if best.error <= tol or since > patience(best.error):
                break
        point = _primal_point(A, b, margin, p=p, flattest=path.flattest, w=w, lam=lam, s=s)
        if point is None:
            break
        mu = float(lam[margin] @ s[margin]) / count
        move = None
        if p == target and mu > 0.0:
            trial = _primal_newton(point, 0.0)
            keep, bow = affine(lam, s, trial.dlam, trial.ds, margin)
            # μ must not run ahead of the misfit of M = ∇f(w), nor fall while steps are short
            keep = max(keep, 0.3 if step < 0.3 else 0.0)
            weight = min(max(mu * keep, 0.1 * _misfit(point) / count), mu)
            move = _primal_newton(point, weight, bow=bow)
        if move is None or _primal_slope(point, move, 0.0) > 0.0:
            move = _primal_newton(point, mu if move is None else move.weight)
        if not all(np.isfinite(part).all() for part in move):
            break
        step = min(1.0, 0.995 * min(longest(lam, move.dlam, margin), longest(s, move.ds, margin)))
        limit = 0.5 * abs(_primal_slope(point, move, 0.0)) + 1e-14 * point.tau**2
        for _ in range(BACKTRACKS):
            if _primal_slope(point, move, step) <= limit:
                break
            step *= 0.6
        w, lam, s = w + step * move.dw, lam + step * move.dlam, s + step * move.ds
        if p < target and step > 0.5:
            p = min(target, 1.0 + path.growth * (p - 1.0))
    return best


def _primal_point(
    A: Floats,
    b: Floats,
    margin: Bools,
    *,
    p: float,
    flattest: float,
    w: Floats,
    lam: Floats,
    s: Floats,
) -> _PrimalPoint | None:
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
    return _PrimalPoint(A, b, margin, p, tau, w, M, lam, s, rise, B, short, system)


def _primal_newton(x: _PrimalPoint, weight: float, *, bow: Floats | float = 0.0) -> _PrimalStep:
    """Returns the direction towards λ s = weight; bow is the second-order term dλ ds."""
    aim = np.where(x.margin, (weight - bow) / x.lam - x.s, 0.0)
    dlam = x.system(aim - x.short + x.A @ (x.B * x.rise))
    dM = dlam @ x.A
    ds = np.where(x.margin, aim - x.s / x.lam * dlam, 0.0)
    return _PrimalStep(weight, x.B * (dM - x.rise), dM, dlam, ds)


def _primal_slope(x: _PrimalPoint, d: _PrimalStep, a: float) -> float:
    """Returns the derivative of the barrier gap at step a; A w − s − b shrinks as 1 − a."""
    lam, s = x.lam + a * d.dlam, x.s + a * d.ds
    smooth = gradient(x.w + a * d.dw, x.p, x.tau) @ d.dw
    smooth += gradient(x.M + a * d.dM, conjugate(x.p), x.tau) @ d.dM
    linear = (x.b + (1.0 - a) * x.short) @ d.dlam - x.short @ lam
    return float(smooth - linear - d.weight * (d.ds / s + d.dlam / lam)[x.margin].sum())


def _misfit(x: _PrimalPoint) -> float:
    """Returns f(w) + f*(M) − ⟨w, M⟩ ≥ 0, zero where M = ∇f(w)."""
    q = conjugate(x.p)
    dual = (length(x.M, q) / x.tau) ** q / q
    return x.tau**2 * (1.0 / x.p + dual) - float(x.w @ x.M)


def gradient(x: Floats, p: float, tau: float) -> Floats:
    """Returns the gradient of τ²/p Σ|x_i/τ|^p; its inverse is the same with q for p."""
    return tau * np.copysign(raised(np.abs(x) / tau, p - 1.0), x)


def chord(w: Floats, M: Floats, *, p: float, tau: float) -> tuple[Floats, Floats]:
    """Returns (∇f(w) − M, E): the misfit of M = ∇f(w) and the chord slopes, both (N,)."""
    image = gradient(M, conjugate(p), tau)
    rise, run = gradient(w, p, tau) - M, w - image
    top = np.maximum(np.abs(w), np.abs(image))
    slopes = (p - 1.0) * raised(top / tau, p - 2.0)
    # a difference quotient of nearly equal points is rounding; the tangent serves there
    far = np.abs(run) > 1e-5 * top
    slopes[far] = rise[far] / run[far]
    return rise, slopes


# Ridge on the unit-scaled diagonal, tried in this order until the Cholesky factor exists.
RIDGES = (1e-15, 1e-13, 1e-11, 1e-9, 1e-7)
REFINEMENTS = 4
# Columns per row below which the rows are eliminated first.
TALL = 0.6


def factor(A: Floats, D: Floats, *, sigma: Floats) -> Solve | None:
    """The map r ↦ x of (A diag(D) Aᵀ + diag(σ)) x = r, or None if no factor exists.

    The k×k matrix is factored, or with many more rows than columns a smaller one. Dependent rows
    make it singular, so it carries a ridge whose effect refinement takes out again. A (k, N);
    D (N,) weights ≥ 0; sigma (k,) diagonal ≥ 0, zero on ties.
    """
    k, N = A.shape
    inner = _gram(A * np.sqrt(D), sigma) if TALL * k <= N else _tall(A, D, sigma)
    if inner is None:
        return None
    return partial(
        refined,
        inner,
        lambda x: A @ (D * (x @ A)) + sigma * x,
        most=REFINEMENTS,
        enough=1e-14,
        order=np.inf,
    )


def _gram(P: Floats, sigma: Floats) -> Solve | None:
    """Returns the map r ↦ x of (P Pᵀ + diag(σ)) x = r, its matrix scaled to unit diagonal.

    The Cholesky factor is that with the least ridge that works.
    """
    # Pᵀ is Fortran-ordered without a copy; trans=1 then forms P Pᵀ, upper triangle only.
    H = scipy.linalg.blas.dsyrk(1.0, P.T, trans=1)
    diagonal = np.einsum("ii->i", H)
    diagonal += sigma
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-30 * max(float(diagonal.max()), 1e-300)))
    H *= scale
    H *= scale[:, None]
    if not np.isfinite(diagonal).all():
        return None
    for ridge in RIDGES:
        diagonal[...] = 1.0 + ridge
        C, info = scipy.linalg.lapack.dpotrf(H, clean=0, overwrite_a=0)
        if info == 0:
            return lambda r: scale * scipy.linalg.lapack.dpotrs(C, scale * r)[0]
    return None


def _tall(A: Floats, D: Floats, sigma: Floats) -> Solve | None:
    """Returns the solve that eliminates the loose rows in the space of the N columns.

    Rows L with a large σ go into K = I + R A_Lᵀ σ_L⁻¹ A_L R, R = diag(D)^½ (N×N); the stiff rows S
    (ties among them, about N at most near a solution) keep their own matrix
    A_S R K⁻¹ R A_Sᵀ + diag(σ_S). Neither divides by a small σ.
    """
    N = A.shape[1]
    root = np.sqrt(D)
    P = A * root
    stiff = sigma < 1e-3 * np.einsum("kj,kj->k", P, P)
    loose = ~stiff
    S, L, weight = P[stiff], P[loose], 1.0 / sigma[loose]
    K = np.eye(N, order="F")
    if loose.any():
        K = scipy.linalg.blas.dsyrk(1.0, (L * np.sqrt(weight)[:, None]).T, beta=1.0, c=K)
    C, info = scipy.linalg.lapack.dpotrf(K, clean=1)
    if info != 0 or not np.isfinite(np.diagonal(C)).all():
        return None
    if not stiff.any():
        return lambda r: weight * (r - L @ scipy.linalg.lapack.dpotrs(C, (weight * r) @ L)[0])
    Q = scipy.linalg.lapack.dtrtrs(C, S.T, trans=1)[0].T  # K = CᵀC, so S K⁻¹ Sᵀ = Q Qᵀ
    lone = _gram(np.ascontiguousarray(Q), sigma[stiff])
    if lone is None:
        return None
    settle = lone

    def solve(r: Floats) -> Floats:
        x = np.empty_like(r)
        h = (weight * r[loose]) @ L
        x[stiff] = settle(r[stiff] - S @ scipy.linalg.lapack.dpotrs(C, h)[0])
        x[loose] = weight * (r[loose] - L @ scipy.linalg.lapack.dpotrs(C, h + x[stiff] @ S)[0])
        return x

    return solve
