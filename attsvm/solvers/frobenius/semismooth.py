"""Augmented Lagrangian with semismooth Newton steps for a quadratic program given by its Gram.

    max over y of  cᵀy − ½ yᵀG y,   floor ≤ y ≤ ceil        (G = A Aᵀ of unit rows, may be singular)

Outer step, penalty σ:  find y = clip(λ + σ(c − G y), floor, ceil), then λ ← y.
Inner Newton step: rows strictly inside their bounds form J, rows at ceil form K;
(G_JJ + I/σ) y_J = c_J + λ_J/σ − G_JK ceil_K by Cholesky, and an exact line search on the convex
function of w = Aᵀy that the outer step minimises. While J and K stay, further outer steps reuse the
factor; they end in the exact solution on the support. A last step with almost no ridge polishes.
"""

from math import inf, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from attsvm._utils.arrays import Floats, Ints

PENALTY = 1e3  # first σ, for unit rows
LARGEST_PENALTY = 1e9  # beyond it the Cholesky factor drowns in rounding
RIDGE = 1e-13  # of the polish, for unit rows
BLOCK = 512  # rows of the Gram touched at once


def unit_gram(deltas: Floats, queries: Floats) -> Floats:
    """(ΔΔᵀ)∘(ZZᵀ) (k, k) of rows scaled to unit length; deltas (k, d), queries (k, dq)."""
    D = deltas / np.linalg.norm(deltas, axis=1, keepdims=True)
    Z = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    G = np.empty((len(D), len(D)))
    for i in range(0, len(D), BLOCK):
        np.matmul(D[i : i + BLOCK], D.T, out=G[i : i + BLOCK])
        G[i : i + BLOCK] *= Z[i : i + BLOCK] @ Z.T
    return G


def shortfall(
    values: Floats,
    b: Floats,
    lam: Floats,
    *,
    square: float,
    length: Floats,
    floor: Floats,
    ceil: Floats,
) -> float:
    """How far (W = Σ λ Δ zᵀ, λ) is from optimal; 0 is exact, inf is nothing known.

    Hard margins, b > 0: the certified gap  (‖W‖/min(values/b)) / (bᵀλ/‖W‖) − 1.
    Else distances are taken relative to r = max(‖W‖, |b_k|/length_k), no more than the least norm
    where all rows are hard. Finite ceil (soft margin): (primal − dual)/primal, and the distance to
    the ties over r. Ties or b = 0: the distance to a violated row over r, and |bᵀλ − ‖W‖²|/r².

    Args:
        values: Δ_kᵀ W z_k (m,). square: ‖W‖². length: ‖Δ_k‖‖z_k‖ (m,).
    """
    dual = float(b @ lam)
    tie = floor == -inf
    soft = bool(np.isfinite(ceil).any())
    if not soft and not tie.any() and (b > 0).all():
        least = float((values / b).min())
        return square / (least * dual) - 1.0 if least > 0 < dual else inf
    span = np.where(length > 0, length, inf)
    reach = max(sqrt(square), float((np.abs(b) / span).max()))
    lack = b - values
    away = np.where(tie, np.abs(lack), np.maximum(lack, 0.0)) / span
    if soft:
        primal = 0.5 * square + float(ceil[~tie] @ np.maximum(lack[~tie], 0.0))
        off = float(away[tie].max()) / reach if tie.any() and reach > 0 else 0.0
        # Ties missed by rounding can turn the difference negative: its size counts.
        return max(abs(primal + 0.5 * square - dual) / primal if primal > 0 else 0.0, off)
    return max(float(away.max()) / reach, abs(dual - square) / reach**2) if reach > 0 else 0.0


def newton(
    G: Floats,
    c: Floats,
    lam: Floats,
    *,
    floor: Floats,
    ceil: Floats,
    tol: float,
    limit: float = inf,
    outer: int = 20,
    inner: int = 60,
) -> Floats:
    """The multipliers λ (k,), from the start `lam`: best found, always inside their bounds.

    Stops at a shortfall ≤ tol, after `outer` steps, or once the lower bound cᵀλ/√(λᵀGλ) on the
    least norm passes `limit` (no solution, or one of huge norm).
    """
    ones = np.ones(len(c))

    def judge(y: Floats, v: Floats) -> float:
        square = max(float(y @ v), 0.0)
        return shortfall(v, c, y, square=square, length=ones, floor=floor, ceil=ceil)

    # Without a solution y grows along a proof of that, while `best` is of no use.
    plain = bool((floor == 0).all() and np.isinf(ceil).all() and (c > 0).all())
    hopeless = np.finfo(float).max if plain or np.isfinite(ceil).any() else 1e-3
    sigma = PENALTY
    y = np.clip(lam, floor, ceil)
    v = G @ y
    best, least = y, judge(y, v)
    polished = _polish(G, c, y, floor, ceil)  # enough where the start has the right support
    if polished is not None:
        y, v = polished, _apply(G, polished)
        if judge(y, v) < least:
            best, least = y, judge(y, v)
        if least <= tol:
            return best
    for _ in range(outer):
        start = y
        J: Ints = np.empty(0, np.int64)
        K = J
        factor: Floats | None = None
        settled = False
        for _ in range(inner):
            J_new, K_new = _split(start + sigma * (c - v), floor, ceil)
            if settled and np.array_equal(J, J_new) and np.array_equal(K, K_new):
                break
            J, K = J_new, K_new
            factor = _factor(G, J, 1.0 / sigma)
            if factor is None:
                break
            y_new = _solve(G, factor, c + start / sigma, J, K, ceil)
            v_new = _apply(G, y_new)
            t = _line_search(y, y_new - y, v, v_new - v, start, c, sigma, floor, ceil)
            settled = t == 1.0
            y, v = (y_new, v_new) if settled else (y + t * (y_new - y), v + t * (v_new - v))
        if factor is None:
            break
        y = np.clip(start + sigma * (c - v), floor, ceil)
        v = _apply(G, y)
        # Outer steps with the same J and K cost two triangular solves each.
        for _ in range(30):
            gap = judge(y, v)
            if gap < least:
                best, least = y, gap
            y_new = _solve(G, factor, c + y / sigma, J, K, ceil)
            if gap <= tol or not _inside(y_new[J], floor[J], ceil[J]):
                break
            v_new = _apply(G, y_new)
            J_new, K_new = _split(y + sigma * (c - v_new), floor, ceil)
            if not (np.array_equal(J, J_new) and np.array_equal(K, K_new)):
                break
            stuck = judge(y_new, v_new) > 0.9 * gap
            y, v = y_new, v_new
            if stuck:
                break
        del factor
        if least > tol:
            polished = _polish(G, c, y, floor, ceil)
            if polished is not None:
                gap = judge(polished, _apply(G, polished))
                if gap < least:
                    best, least = polished, gap
        size = sqrt(max(float(y @ v), 0.0))
        if float(c @ y) > limit * size and least > hopeless:
            return y
        if least <= tol:
            break
        sigma = min(10 * sigma, LARGEST_PENALTY)
    return best if least <= hopeless else y


def _split(r: Floats, floor: Floats, ceil: Floats) -> tuple[Ints, Ints]:
    """Indices strictly inside the bounds, and at the upper bound."""
    return np.flatnonzero((r > floor) & (r < ceil)), np.flatnonzero(r >= ceil)


def _inside(y: Floats, floor: Floats, ceil: Floats) -> bool:
    return bool(np.all(y >= floor) and np.all(y <= ceil))


def factorize(S: Floats, ridge: float) -> Floats | None:
    """Cholesky factor (upper) of S + ridge I, in place of S; None where it breaks down."""
    S.flat[:: len(S) + 1] += ridge
    if len(S) == 0:
        return S
    # S is symmetric: its transpose is the same matrix in column order, factored in place.
    factor, info = scipy.linalg.lapack.dpotrf(S.T, lower=0, overwrite_a=1, clean=0)
    return factor if info == 0 else None


def _factor(G: Floats, J: Ints, ridge: float) -> Floats | None:
    """Cholesky factor of G_JJ + ridge I."""
    S = np.empty((len(J), len(J)))
    for i in range(0, len(J), BLOCK):
        S[i : i + BLOCK] = np.take(np.take(G, J[i : i + BLOCK], axis=0), J, axis=1)
    return factorize(S, ridge)


def _solve(G: Floats, factor: Floats, rhs: Floats, J: Ints, K: Ints, ceil: Floats) -> Floats:
    """y (k,) with y_K = ceil_K, zero outside J and K, and y_J from the factored system."""
    y = np.zeros(len(rhs))
    y[K] = ceil[K]
    right = rhs[J]
    if len(K):
        right = right - np.take(_apply(G, y), J)
    if len(J):
        y[J] = scipy.linalg.lapack.dpotrs(factor, right, lower=0)[0]
    return y


def _apply(G: Floats, y: Floats) -> Floats:
    """G y, over the nonzero entries of y alone when they are few."""
    used = np.flatnonzero(y)
    if 2 * len(used) > len(y):
        return G @ y
    return y[used] @ np.take(G, used, axis=0)


def _line_search(
    y: Floats,
    dy: Floats,
    v: Floats,
    dv: Floats,
    lam: Floats,
    c: Floats,
    sigma: float,
    floor: Floats,
    ceil: Floats,
) -> float:
    """The step t ∈ (0, 1] at which the slope of the convex inner function vanishes, or 1."""
    rise, bend = float(y @ dv), max(float(dy @ dv), 0.0)
    base, turn = lam + sigma * (c - v), sigma * dv

    def slope(t: float) -> float:
        return rise + t * bend - float(np.clip(base - t * turn, floor, ceil) @ dv)

    # No descent left at 0 is rounding: the full step is then as good as the point itself.
    if slope(1.0) <= 1e-10 * (bend + abs(rise)) or slope(0.0) >= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return 0.5 * (low + high)


def _polish(G: Floats, c: Floats, y: Floats, floor: Floats, ceil: Floats) -> Floats | None:
    """The exact solution on the rows of y strictly inside their bounds; None if it leaves them."""
    J = np.flatnonzero((y > floor) & (y < ceil))
    K = np.flatnonzero(y >= ceil)
    factor = _factor(G, J, RIDGE)
    if factor is None or len(J) == 0:
        return None
    out = _solve(G, factor, c, J, K, ceil)
    for _ in range(3):
        out[J] += scipy.linalg.lapack.dpotrs(factor, (c - _apply(G, out))[J], lower=0)[0]
    slack = 1e-9 * float(np.abs(out).max())
    if not _inside(out, floor - slack, ceil + slack):
        return None
    clipped: NDArray[np.float64] = np.clip(out, floor, ceil)
    return clipped
