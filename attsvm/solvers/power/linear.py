"""Attention SVM in the l1 and max norms, as linear programs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy

from attsvm.solvers.cone.central_path import UnitRows
from attsvm.solvers.power.duality import Array, Mask, Pair, mend, weigh, worst_ratio
from attsvm.solvers.power.entrywise import rows
from attsvm.solvers.working_set.method import Method
from attsvm.solvers.working_set.soft_rows import BestSoft, Soft

METHODS = (
    "highs-ds",
    "highs-ipm",
)  # the second is tried when the first falls short
OPTIONS: dict[str, Any] = {
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
    "presolve": True,
}
FACE = 1e-8  # share of the largest entry below which an entry counts as zero
POLISHES = 3
LARGEST = 1e6
CUTS = 60  # linear programs of a soft margin, at most
STRIDE = 0.1  # y changes by no more than this factor at once: the first cut says little far away


def inner_l1(
    D: Array, Z: Array, b: Array, free: Mask, *, tol: float, W0: Array, lam0: Array
) -> tuple[Array, Array]:
    """Returns (W, λ) for min Σ|W_ij|, D_kᵀ W Z_k ≥ b_k (= on free rows).

    Solved as min Σ(w⁺ + w⁻), or, with more rows than entries, as its dual
    max bᵀλ, −1 ≤ Aᵀλ ≤ 1. The arguments are those of entrywise.inner.
    """
    return _inner(D, Z, b, free, p=1.0, tol=tol, W0=W0, lam0=lam0)


def inner_max(
    D: Array, Z: Array, b: Array, free: Mask, *, tol: float, W0: Array, lam0: Array
) -> tuple[Array, Array]:
    """Returns (W, λ) for min max|W_ij|, D_kᵀ W Z_k ≥ b_k (= on free rows).

    Solved as max γ, A w ≥ γ b, −1 ≤ w ≤ 1 with W = w/γ (bounds cost a simplex method nothing), or,
    with more rows than entries, as its dual min ‖Aᵀλ‖_1, bᵀλ = 1. The arguments are those of
    entrywise.inner.
    """
    return _inner(D, Z, b, free, p=np.inf, tol=tol, W0=W0, lam0=lam0)


def _inner(
    D: Array, Z: Array, b: Array, free: Mask, *, p: float, tol: float, W0: Array, lam0: Array
) -> tuple[Array, Array]:
    """Returns the best pair over the methods, each polished on its face and with ties mended."""
    A = rows(D, Z)
    programs = {(1.0, False): _l1, (1.0, True): _l1_dual, (np.inf, False): _max}
    program = programs.get((p, len(A) > A.shape[1]), _max_dual)
    best = weigh(A, b, free, w=W0.ravel(), lam=lam0, p=p)
    for method in METHODS:
        found = program(A, b, free, method)
        if found is not None:
            pair = weigh(A, b, free, w=found[0], lam=found[1], p=p)
            for _ in range(POLISHES):
                if pair.error <= 1e-3 * tol:
                    break
                w, lam = (_l1_face if p == 1.0 else _max_face)(A, b, free, pair)
                options = [weigh(A, b, free, w=w, lam=l, p=p) for l in (lam, pair.lam)]
                options.append(weigh(A, b, free, w=pair.w, lam=lam, p=p))
                pair = min(pair, *options, key=lambda x: x.error)
            pair = mend(A, b, free, pair=pair, p=p, tol=tol)
            best = min(best, pair, key=lambda x: x.error)
        if best.error <= tol:
            break
    return best.w.reshape(W0.shape), best.lam


def inner_soft(soft: Soft, *, one: bool, tol: float, W0: Array, lam0: Array) -> tuple[Array, Array]:
    """Returns (W, λ) of a soft margin in the l1 norm (`one`) or the max norm, by programs in y.

    ½‖w‖² = max y‖w‖ − ½y², so the value is max g(y) − ½y² with g(y) = min y‖w‖ + Σ cap ξ, a linear
    program. Its w gives the cut g(y') ≤ y'‖w‖ + Σ cap ξ, of slope ‖w‖: one cut on either side of
    the best y is kept, and the next y is the best for the two. At a kink the two w are mixed so
    that ‖w‖ = y. soft, W0, lam0: as for `power.soft.inner`.
    """
    A = rows(soft.rows.D, soft.rows.Z)
    best = BestSoft(soft, W0, lam0).judged(W=W0, lam=lam0)
    # λ in a unit that keeps its bounds within what a linear program takes for finite
    cap, unit = soft.cap, max(1.0, float(soft.cap[soft.held].max(initial=0.0)) / LARGEST)
    for method in METHODS:
        y, cuts = float(soft.norm.value(W0)), dict[bool, tuple[float, float, Array]]()
        for _ in range(CUTS):
            found = (_soft_l1 if one else _soft_max)(A, soft.rows, cap / unit, y / unit, method)
            if found is None:
                break
            W, lam = found[0].reshape(W0.shape), unit * found[1]
            slope = float(soft.norm.value(W))
            cuts[slope >= y] = slope, soft.upper(W, lam0) - 0.5 * slope * slope, W
            best = best.judged(W=W, lam=lam)
            last, y, W = y, *_mixed(cuts)
            y = min(max(y, STRIDE * last), last / STRIDE)
            best = best.judged(W=W, lam=lam)
            if best.gap <= 1e-3 * tol or abs(y - last) <= 1e-15 * y or not y > 0.0:
                break
        if best.gap <= tol:
            break
    return best.W, best.lam


def _mixed(cuts: dict[bool, tuple[float, float, Array]]) -> tuple[float, Array]:
    """Returns the y that is best for the cuts (True: from the left of it), and the W there."""
    if len(cuts) < 2:
        slope, _, W = next(iter(cuts.values()))
        return slope, W
    (steep, low, left), (flat, high, right) = cuts[True], cuts[False]
    kink = (high - low) / (steep - flat) if steep > flat else steep
    if steep <= kink:
        return steep, left
    if flat >= kink:
        return flat, right
    share = (kink - flat) / (steep - flat)
    return kink, share * left + (1.0 - share) * right


def _solve(
    c: Array, K: Array, r: Array, *, equal: Mask, bounds: Array, method: str
) -> tuple[Array, Array] | None:
    """Returns (x, y) of min cᵀx, K x ≥ r (= on equal rows), bounds; y = d(optimum)/dr, or None."""
    loose = ~equal
    arguments: dict[str, Any] = {
        "A_ub": -K[loose] if loose.any() else None,
        "b_ub": -r[loose] if loose.any() else None,
        "A_eq": K[equal] if equal.any() else None,
        "b_eq": r[equal] if equal.any() else None,
        "bounds": bounds,
        "method": method,
        "options": OPTIONS | {"maxiter": 200 * (len(r) + len(c)) + 1000},
    }
    result = scipy.optimize.linprog(c, **arguments)
    if result.x is None or result.status != 0:
        return None
    y = np.empty(len(r))
    y[loose] = -result.ineqlin.marginals
    y[equal] = result.eqlin.marginals
    return np.asarray(result.x), y


def _box(low: float, high: float, size: int) -> Array:
    """Returns (size, 2) bounds."""
    return np.tile([low, high], (size, 1))


def _multiplier_bounds(free: Mask, cap: Array | float = np.inf) -> Array:
    """Returns (k, 2) bounds of λ: none on ties, between 0 and cap elsewhere."""
    return np.column_stack([np.where(free, -np.inf, 0.0), np.where(free, np.inf, cap)])


def _l1(A: Array, b: Array, free: Mask, method: str) -> tuple[Array, Array] | None:
    N = A.shape[1]
    K = np.hstack([A, -A])
    found = _solve(np.ones(2 * N), K, b, equal=free, bounds=_box(0.0, np.inf, 2 * N), method=method)
    return None if found is None else (found[0][:N] - found[0][N:], found[1])


def _l1_dual(A: Array, b: Array, free: Mask, method: str) -> tuple[Array, Array] | None:
    k, N = A.shape
    bounds = np.vstack([_multiplier_bounds(free), _box(-1.0, 1.0, N)])
    found = _solve(
        np.concatenate([-b, np.zeros(N)]),
        np.hstack([A.T, -np.eye(N)]),
        np.zeros(N),
        equal=np.ones(N, dtype=bool),
        bounds=bounds,
        method=method,
    )
    return None if found is None else (-found[1], found[0][:k])


def _max(A: Array, b: Array, free: Mask, method: str) -> tuple[Array, Array] | None:
    k, N = A.shape
    bounds = np.vstack([_box(-1.0, 1.0, N), _box(0.0, np.inf, 1)])
    c = np.zeros(N + 1)
    c[N] = -1.0
    found = _solve(
        c, np.column_stack([A, -b]), np.zeros(k), equal=free, bounds=bounds, method=method
    )
    if found is None or not found[0][N] > 0.0:
        return None
    return found[0][:N] / found[0][N], found[1]


def _max_dual(A: Array, b: Array, free: Mask, method: str) -> tuple[Array, Array] | None:
    k, N = A.shape
    K = np.zeros((N + 1, k + 2 * N))
    K[:N, :k], K[N, :k] = A.T, b
    K[:N, k : k + N], K[:N, k + N :] = -np.eye(N), np.eye(N)
    r = np.zeros(N + 1)
    r[N] = 1.0
    found = _solve(
        np.concatenate([np.zeros(k), np.ones(2 * N)]),
        K,
        r,
        equal=np.ones(N + 1, dtype=bool),
        bounds=np.vstack([_multiplier_bounds(free), _box(0.0, np.inf, 2 * N)]),
        method=method,
    )
    if found is None or not found[1][N] > 0.0:
        return None
    return -found[1][:N] / found[1][N], found[0][:k]


def _tight(A: Array, b: Array, free: Mask, pair: Pair) -> tuple[Mask, Mask]:
    """Returns (rows met with equality, rows with a multiplier), both (k,), ties in each."""
    m = A @ pair.w
    ratio = worst_ratio(m, b, free)
    near = m - ratio * b <= FACE * max(float(np.abs(m).max()), 1e-300)
    return near | free, (np.abs(pair.lam) > FACE * float(np.abs(pair.lam).max())) | free


def _least_change(K: Array, r: Array, x: Array) -> Array:
    """Returns x plus the least change that fits K x = r best."""
    return x + np.linalg.lstsq(K, r - K @ x, rcond=1e-12)[0]


def _l1_face(A: Array, b: Array, free: Mask, pair: Pair) -> tuple[Array, Array]:
    """Returns (w, λ) re-solved on its face: A w = b on tight rows, Aᵀλ = sign(w) where w ≠ 0."""
    tight, priced = _tight(A, b, free, pair)
    S = np.abs(pair.w) > FACE * float(np.abs(pair.w).max())
    w, lam = np.zeros_like(pair.w), np.zeros_like(pair.lam)
    w[S] = _least_change(A[np.ix_(tight, S)], b[tight], pair.w[S])
    lam[priced] = _least_change(A[np.ix_(priced, S)].T, np.sign(pair.w[S]), pair.lam[priced])
    return w, lam


def _max_face(A: Array, b: Array, free: Mask, pair: Pair) -> tuple[Array, Array]:
    """Returns (w, λ) re-solved on its face: w = ±t where |w| is largest, A w = b on tight rows;
    Aᵀλ = 0 where |w| is not largest, bᵀλ = 1.
    """
    tight, priced = _tight(A, b, free, pair)
    top = float(np.abs(pair.w).max())
    F = np.abs(pair.w) < (1.0 - FACE) * top
    sign = np.where(F, 0.0, np.sign(pair.w))
    K = np.column_stack([A[np.ix_(tight, F)], A[tight] @ sign])
    x = _least_change(K, b[tight], np.append(pair.w[F], top))
    w = x[-1] * sign
    w[F] = x[:-1]
    lam = np.zeros_like(pair.lam)
    L = np.vstack([A[np.ix_(priced, F)].T, b[priced]])
    scale = max(float(b @ pair.lam), 1e-300)
    lam[priced] = _least_change(L, np.append(np.zeros(int(F.sum())), 1.0), pair.lam[priced] / scale)
    return w, lam


def _soft_l1(
    A: Array, given: UnitRows, cap: Array, y: float, method: str
) -> tuple[Array, Array] | None:
    """Returns (w, λ) of min y Σ|w| + Σ cap ξ; with more rows than entries by its dual."""
    (k, N), b, free = A.shape, given.b, given.free
    if k > N:
        bounds = np.vstack([_multiplier_bounds(free, cap), _box(-y, y, N)])
        K = np.hstack([A.T, -np.eye(N)])
        c, r = np.concatenate([-b, np.zeros(N)]), np.zeros(N)
        found = _solve(c, K, r, equal=r == 0.0, bounds=bounds, method=method)
        return None if found is None else (-found[1], found[0][:k])
    K = np.hstack([A, -A, np.eye(k)[:, ~free]])
    c = np.concatenate([np.full(2 * N, y), cap[~free]])
    found = _solve(c, K, b, equal=free, bounds=_box(0.0, np.inf, len(c)), method=method)
    return None if found is None else (found[0][:N] - found[0][N : 2 * N], found[1])


def _soft_max(
    A: Array, given: UnitRows, cap: Array, y: float, method: str
) -> tuple[Array, Array] | None:
    """Returns (w, λ) of min y max|w| + Σ cap ξ by its dual: max bᵀλ, ‖Aᵀλ‖_1 ≤ y."""
    k, N = A.shape
    K = np.zeros((N + 1, k + 2 * N))
    K[:N, :k] = A.T
    K[:N, k : k + N], K[:N, k + N :], K[N, k:] = -np.eye(N), np.eye(N), -1.0
    bounds = np.vstack([_multiplier_bounds(given.free, cap), _box(0.0, np.inf, 2 * N)])
    c, r = np.concatenate([-given.b, np.zeros(2 * N)]), np.zeros(N + 1)
    r[N] = -y
    found = _solve(c, K, r, equal=np.arange(N + 1) < N, bounds=bounds, method=method)
    return None if found is None else (-found[1][:N], found[0][:k])


# Bytes that a linear program holds for each number of its dense matrix, as measured: its own
# copies, the sparse ones, the simplex's factors.
BYTES = 180.0


def _need_l1(k: int, N: int) -> float:
    return BYTES * min(k * 2 * N, N * (k + N))


def _need_max(k: int, N: int) -> float:
    return BYTES * (k * N if k <= N else N * (k + 2 * N))


L1 = Method(inner_l1, partial(inner_soft, one=True), _need_l1)
MAX = Method(inner_max, partial(inner_soft, one=False), _need_max)
