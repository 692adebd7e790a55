"""Attention SVM in the l1 and max norms, as linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from attsvm._utils.arrays import Bools, Floats
from attsvm.norms import Norm
from attsvm.norms.entrywise import L1Norm
from attsvm.solvers.unit_rows import BestPair, Method, UnitRows, settle

METHODS = ("highs-ds", "highs-ipm")  # the second is tried when the first falls short
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


def inner(
    rows: UnitRows, *, norm: Norm, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """The best (W, λ) found for the l1 or the max norm.

    l1 is solved as min Σ(w⁺ + w⁻), or, with more rows than entries, as its dual max bᵀλ,
    −1 ≤ Aᵀλ ≤ 1. max is solved as max γ, A w ≥ γ b, −1 ≤ w ≤ 1 with W = w/γ (bounds cost a simplex
    method nothing), or as its dual min ‖Aᵀλ‖_1, bᵀλ = 1. Each answer is polished on its face.
    """
    if rows.cap is not None:
        return _soft(rows, rows.cap, norm=norm, tol=tol, W0=W0, lam0=lam0)
    A, b, free, one = rows.stacked, rows.b, rows.free, isinstance(norm, L1Norm)
    tall = len(A) > A.shape[1]
    program = (_l1_dual if tall else _l1) if one else (_max_dual if tall else _max)
    face = _l1_face if one else _max_face
    best = BestPair(rows, norm, W0, lam0).judged(W=W0, lam=lam0)
    for method in METHODS:
        found = program(A, b, free, method)
        if found is not None:
            W, lam = found[0].reshape(W0.shape), found[1]
            pair = BestPair(rows, norm, W, lam).judged(W=W, lam=lam)
            pair = pair.judged(W=settle(rows, pair.W))
            for _ in range(POLISHES):
                if pair.gap <= 1e-3 * tol:
                    break
                w, lam = face(A, b, free, pair.W.ravel(), pair.lam)
                W = w.reshape(W0.shape)
                pair = pair.judged(W=W, lam=lam).judged(W=settle(rows, W))
            best = best.judged(W=pair.W, lam=pair.lam)
        if best.gap <= tol:
            break
    return best.W, best.lam


def _soft(
    rows: UnitRows, cap: Floats, *, norm: Norm, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """Returns (W, λ) of a soft margin in the l1 or the max norm, by programs in y.

    ½‖w‖² = max y‖w‖ − ½y², so the value is max g(y) − ½y² with g(y) = min y‖w‖ + Σ cap ξ, a linear
    program. Its w gives the cut g(y') ≤ y'‖w‖ + Σ cap ξ, of slope ‖w‖: one cut on either side of
    the best y is kept, and the next y is the best for the two. At a kink the two w are mixed so
    that ‖w‖ = y.
    """
    A, program = rows.stacked, _soft_max
    if isinstance(norm, L1Norm):
        program = _l1_dual if len(A) > A.shape[1] else _l1
    best = rows.start(norm, W0, lam0)
    # λ in a unit that keeps its bounds within what a linear program takes for finite
    unit = max(1.0, float(cap[~rows.free].max(initial=0.0)) / LARGEST)
    for method in METHODS:
        y, cuts = float(norm.value(W0)), dict[bool, tuple[float, float, Floats]]()
        for _ in range(CUTS):
            found = program(A, rows.b, rows.free, method, cap / unit, y / unit)
            if found is None:
                break
            W, lam = found[0].reshape(W0.shape), unit * found[1]
            slope = float(norm.value(W))
            cuts[slope >= y] = slope, best.upper_bound(W)[0] - 0.5 * slope * slope, W
            best = rows.judged(best, W, lam)
            last, y, W = y, *_mixed(cuts)
            y = min(max(y, STRIDE * last), last / STRIDE)
            best = rows.judged(best, W, lam)
            if best.gap <= 1e-3 * tol or abs(y - last) <= 1e-15 * y or not y > 0.0:
                break
        if best.gap <= tol:
            break
    return best.W, best.lam


def _mixed(cuts: dict[bool, tuple[float, float, Floats]]) -> tuple[float, Floats]:
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
    c: Floats, K: Floats, r: Floats, *, equal: Bools, bounds: Floats, method: str
) -> tuple[Floats, Floats] | None:
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


def _box(low: float, high: float, size: int) -> Floats:
    """Returns (size, 2) bounds."""
    return np.tile([low, high], (size, 1))


def _multiplier_bounds(free: Bools, cap: Floats | float = np.inf) -> Floats:
    """Returns (k, 2) bounds of λ: none on ties, between 0 and cap elsewhere."""
    return np.column_stack([np.where(free, -np.inf, 0.0), np.where(free, np.inf, cap)])


def _l1(
    A: Floats, b: Floats, free: Bools, method: str, cap: Floats | None = None, y: float = 1.0
) -> tuple[Floats, Floats] | None:
    """Returns (w, λ) of min y Σ|w| + Σ cap ξ; without cap the margins are hard."""
    k, N = A.shape
    K, cost = [A, -A], [np.full(2 * N, y)]
    if cap is not None:
        K, cost = [*K, np.eye(k)[:, ~free]], [*cost, cap[~free]]
    c = np.concatenate(cost)
    bounds = _box(0.0, np.inf, len(c))
    found = _solve(c, np.hstack(K), b, equal=free, bounds=bounds, method=method)
    return None if found is None else (found[0][:N] - found[0][N : 2 * N], found[1])


def _l1_dual(
    A: Floats,
    b: Floats,
    free: Bools,
    method: str,
    cap: Floats | float = np.inf,
    y: float = 1.0,
) -> tuple[Floats, Floats] | None:
    """The same by max bᵀλ, −y ≤ Aᵀλ ≤ y, λ ≤ cap."""
    k, N = A.shape
    bounds = np.vstack([_multiplier_bounds(free, cap), _box(-y, y, N)])
    K, c, r = np.hstack([A.T, -np.eye(N)]), np.concatenate([-b, np.zeros(N)]), np.zeros(N)
    found = _solve(c, K, r, equal=r == 0.0, bounds=bounds, method=method)
    return None if found is None else (-found[1], found[0][:k])


def _max(A: Floats, b: Floats, free: Bools, method: str) -> tuple[Floats, Floats] | None:
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


def _max_dual(A: Floats, b: Floats, free: Bools, method: str) -> tuple[Floats, Floats] | None:
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


def _tight(A: Floats, b: Floats, free: Bools, w: Floats, lam: Floats) -> tuple[Bools, Bools]:
    """Returns (rows met with equality, rows with a multiplier), both (k,), ties in each."""
    m = A @ w
    near = m - b <= FACE * max(float(np.abs(m).max()), 1e-300)
    return near | free, (np.abs(lam) > FACE * float(np.abs(lam).max())) | free


def _least_change(K: Floats, r: Floats, x: Floats) -> Floats:
    """Returns x plus the least change that fits K x = r best."""
    return x + np.linalg.lstsq(K, r - K @ x, rcond=1e-12)[0]


def _l1_face(A: Floats, b: Floats, free: Bools, w0: Floats, lam0: Floats) -> tuple[Floats, Floats]:
    """Returns (w, λ) re-solved on its face: A w = b on tight rows, Aᵀλ = sign(w) where w ≠ 0."""
    tight, priced = _tight(A, b, free, w0, lam0)
    S = np.abs(w0) > FACE * float(np.abs(w0).max())
    w, lam = np.zeros_like(w0), np.zeros_like(lam0)
    w[S] = _least_change(A[np.ix_(tight, S)], b[tight], w0[S])
    lam[priced] = _least_change(A[np.ix_(priced, S)].T, np.sign(w0[S]), lam0[priced])
    return w, lam


def _max_face(A: Floats, b: Floats, free: Bools, w0: Floats, lam0: Floats) -> tuple[Floats, Floats]:
    """Returns (w, λ) re-solved on its face: w = ±t where |w| is largest, A w = b on tight rows;
    Aᵀλ = 0 where |w| is not largest, bᵀλ = 1.
    """
    tight, priced = _tight(A, b, free, w0, lam0)
    top = float(np.abs(w0).max())
    F = np.abs(w0) < (1.0 - FACE) * top
    sign = np.where(F, 0.0, np.sign(w0))
    K = np.column_stack([A[np.ix_(tight, F)], A[tight] @ sign])
    x = _least_change(K, b[tight], np.append(w0[F], top))
    w = x[-1] * sign
    w[F] = x[:-1]
    lam = np.zeros_like(lam0)
    L = np.vstack([A[np.ix_(priced, F)].T, b[priced]])
    scale = max(float(b @ lam0), 1e-300)
    lam[priced] = _least_change(L, np.append(np.zeros(int(F.sum())), 1.0), lam0[priced] / scale)
    return w, lam


def _soft_max(
    A: Floats, b: Floats, free: Bools, method: str, cap: Floats, y: float
) -> tuple[Floats, Floats] | None:
    """Returns (w, λ) of min y max|w| + Σ cap ξ by its dual: max bᵀλ, ‖Aᵀλ‖_1 ≤ y."""
    k, N = A.shape
    K = np.zeros((N + 1, k + 2 * N))
    K[:N, :k] = A.T
    K[:N, k : k + N], K[:N, k + N :], K[N, k:] = -np.eye(N), np.eye(N), -1.0
    bounds = np.vstack([_multiplier_bounds(free, cap), _box(0.0, np.inf, 2 * N)])
    c, r = np.concatenate([-b, np.zeros(2 * N)]), np.zeros(N + 1)
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


L1, MAX = Method(inner, _need_l1), Method(inner, _need_max)
