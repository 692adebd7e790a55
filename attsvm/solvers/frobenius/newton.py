"""Least Frobenius norm for medium and large problems.

    min ½‖W‖_F²   s.t.   Δ_kᵀ W z_k ≥ b_k (margins),   Δ_lᵀ W z_l = c_l (ties)

Coordinate descent runs first. Once Newton steps on the rows near tight are the cheaper way to the
tolerance, and their Gram fits into memory, they take over: solve on the working set, add the rows
that are still violated, repeat. Otherwise coordinate descent goes on. When no W exists, the
multipliers grow without end along a λ ≥ 0 with Σ λ_k Δ_k z_kᵀ = 0; a projection makes it exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log, sqrt

import numpy as np
import scipy

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.memory import HEADROOM, available
from attsvm._utils.progress import Progress, bar
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.frobenius.coordinate_descent import (
    REFRESH,
    Segments,
    Waiting,
    descend,
    segments_of,
)
from attsvm.solvers.frobenius.semismooth import factorize, newton, shortfall, unit_gram
from attsvm.solvers.solver import Answer

CHUNK = REFRESH  # epochs between two looks at the gap
COARSE, SHORT = 5e-4, 5  # from this tolerance on, looks come after fewer epochs
# Bytes that the working set's Gram and its factor may take.
MEMORY = 1e9
EPOCHS = 20_000  # at most
PATIENCE = 25  # chunks without a tenth of progress before coordinate descent gives up
ROUNDS = 30  # of Newton with a growing working set
SLOWER = 4.0  # time of an operation in coordinate descent over that of one in a factorization
EXPLODED = 1e6  # growth of the lower bound at which a proof of infeasibility is tried
SLOW = 4.0  # fall of the violations in a chunk below which over-relaxed steps are tried
OMEGA, TRIED = 1.7, 2  # how far those go, and chunks by which they are judged
PROVED = 1e-13  # ‖Σ λ Δ zᵀ‖/Σ λ‖Δ‖‖z‖ that counts as zero
PROOF_RIDGE = 1e-12  # of the projection, for unit rows


class _Pace:
    """How far the steps of coordinate descent go, chunk by chunk: to the row, or beyond it.

    Exact steps, with several sweeps over a query's rows, end soon where queries hardly meet;
    over-relaxed ones where the rows that hold W are nearly as many as its entries. Which is the
    case shows in the violations: when they fall more slowly than the other way had them fall, the
    other is tried again.
    """

    def __init__(self) -> None:
        self.omega = 1.0
        self._known = {1.0: inf, OMEGA: log(SLOW)}  # mean log of the fall in a chunk
        self._falls: list[float] = []

    def heed(self, rate: float) -> float:
        """The factor per chunk to count on, after one in which the violations fell by `rate`."""
        self._falls.append(log(min(max(rate, 1e-3), 1e9)))
        if len(self._falls) > TRIED:  # the first chunk of a way is no measure of it
            mean = sum(self._falls[-TRIED:]) / TRIED
            self._known[self.omega] = mean
            other = OMEGA if self.omega == 1.0 else 1.0
            if mean < self._known[other]:
                self.omega, self._falls = other, []
            return float(np.exp(max(mean, min(self._known[other], log(SLOW)))))
        return max(rate, SLOW)


@dataclass(frozen=True, eq=False)
class FrobeniusBest:
    """The best W and the best λ so far (sorted rows), and how far they are from optimal.

    Where all rows are hard margins with b > 0, W and λ are kept apart, each by its own bound:
    upper = ‖W‖/min(margin/b), lower = bᵀλ/‖Σ λ Δ zᵀ‖. Elsewhere they come as a pair.
    """

    W: Floats
    lam: Floats
    short: float = inf
    upper: float = inf
    lower: float = 0.0


def solve_large(rows: Segments, *, tol: float, memory: float = MEMORY) -> tuple[Floats, Floats]:
    """(W, λ): W (d, dq) and multipliers λ (m,), the best found, untrusted.

    Ends at a relative gap of `tol` (see `shortfall` for soft margins, ties and rows with b = 0), or
    when nothing improves any more. When no W exists: W = 0 and λ with Σ λ_k Δ_k z_kᵀ = 0 to
    rounding and bᵀλ > 0. memory: bytes that the working set's Gram and its factor may take. λ comes
    in the order in which `sort_rows` was given the rows.

    >>> import numpy as np
    >>> from attsvm.solvers.frobenius.coordinate_descent import sort_rows
    >>> keys, one = np.array([[3.0, 4.0], [0.0, 0.0]]), np.ones((1, 1))
    >>> row, none = np.array([0]), np.array([False])
    >>> rows = sort_rows(keys, one, row, row + 1, row, np.ones(1), free=none)
    >>> W, lam = solve_large(rows, tol=1e-9)
    >>> W.ravel(), lam  # 1/5 of the unit vector (0.6, 0.8)
    (array([0.12, 0.16]), array([0.04]))
    """
    lam = np.zeros(len(rows.b))
    flat = rows.length == 0
    proof = flat & (rows.b != 0) & np.isinf(rows.ceil)
    if proof.any():
        # A row without features but with a right-hand side proves alone that no W exists.
        k = int(np.argmax(proof))
        lam[k] = np.sign(rows.b[k])
        shape = rows.keys.shape[1], rows.queries.shape[1]
        found = FrobeniusBest(W=np.zeros(shape), lam=lam)
    else:
        lam[flat & (rows.b > 0)] = rows.ceil[flat & (rows.b > 0)]
        with bar(f"{len(lam):,} rows", late=True, total=None) as progress:
            found = _run(rows, lam, tol, int(sqrt(memory / 16.0)), progress)
    return found.W, rows.unsorted(found.lam)


def _run(
    rows: Segments, lam: Floats, tol: float, most: int, progress: Progress | None
) -> FrobeniusBest:
    """Coordinate descent, then Newton when its working set fits (`most` rows) and it pays."""
    W = rows.adjoint(lam)
    found = FrobeniusBest(W=W, lam=lam.copy())
    if not rows.b.any():
        return FrobeniusBest(W=np.zeros_like(W), lam=np.zeros_like(lam), short=0.0)
    if lam.any():
        found = _better(rows, found, W, lam, rows.values(W))
    draw, pace = np.random.default_rng(0), _Pace()
    worst, first, idle, settled, tried = inf, 0.0, 0, 0, 1
    epochs = CHUNK if tol < COARSE else SHORT
    waiting = Waiting(rows)
    for chunk in range(1, 1 + EPOCHS // epochs):
        if found.short <= tol or idle >= PATIENCE:
            break
        before, last, signs = worst, found.short, np.sign(lam)
        worst = descend(
            rows, lam, W, epochs=epochs, draw=draw, cut=worst, omega=pace.omega, waiting=waiting
        )
        W = rows.adjoint(lam)
        size = float(np.linalg.norm(W))
        found = _better(rows, found, W, lam, rows.values(W))
        first = first or (float(rows.b @ lam) / size if size > 0 else 0.0)
        idle = idle + 1 if found.short > 0.9 * last else 0
        if progress is not None:
            progress(0.0, f"gap {found.short:.1e}")
        if found.short > tol and _hopeless(rows, found) and chunk >= 2 * tried:
            tried = chunk
            proof = farkas(rows, lam, most)
            if proof is not None:
                return FrobeniusBest(W=np.zeros_like(W), lam=proof)
        # With a settled support one factorization ends it; else Newton has to find the support.
        settled = settled + 1 if np.array_equal(signs, np.sign(lam)) else 0
        factors = 1.5 if settled > 1 else 6.0
        rate = pace.heed((before / max(worst, 1e-300)) ** (CHUNK / epochs))
        gain = min(found.short, 10.0) / max(tol, 1e-16)
        pays = idle > 3 or _newton_pays(rows, lam, rate=rate, gain=gain, factors=factors)
        if found.short > tol and chunk > 1 and pays and np.count_nonzero(lam) <= most:
            return _newton_rounds(
                rows,
                lam,
                found,
                reach=2 * worst,
                tol=tol,
                most=most,
                limit=EXPLODED * first,
            )
    return found


def _newton_pays(rows: Segments, lam: Floats, *, rate: float, gain: float, factors: float) -> bool:
    """Whether Newton reaches the tolerance in fewer operations than coordinate descent.

    rate: factor by which the violations fell in the last chunk; gain: factor still to go;
    factors: how many factorizations Newton is expected to need.
    """
    if not rate > 1.0:
        return True
    d, dq, k = rows.keys.shape[1], rows.queries.shape[1], int(np.count_nonzero(lam))
    epoch = 4.0 * d * (len(lam) / REFRESH + 5.0 * k) + 4.0 * d * dq * len(rows.query)
    descent = SLOWER * epoch * CHUNK * log(max(gain, 1.0)) / log(rate)
    return descent > factors * k**3 / 3.0 + 4.0 * k**2 * (d + dq)


def _newton_rounds(
    rows: Segments,
    lam: Floats,
    found: FrobeniusBest,
    *,
    reach: float,
    tol: float,
    most: int,
    limit: float,
) -> FrobeniusBest:
    """The best found by Newton on a working set that takes in the violated rows of each round."""
    tie = rows.floor == -inf
    length = np.where(rows.length > 0, rows.length, inf)
    inside = np.zeros(len(lam), bool)
    W = rows.adjoint(lam)
    for _ in range(ROUNDS):
        away = np.where(rows.length > 0, (rows.values(W) - rows.b) / length, inf)
        must = ((lam != 0) | tie) & (rows.length > 0)
        # Rows of the last working set stay while they are near; others come in when violated.
        others = np.flatnonzero(~must & (away <= np.where(inside, max(reach, 0.0), reach)))
        spare = min(most - int(must.sum()), max(200, int(must.sum())))
        if spare < 0:
            break
        if len(others) > spare:
            others = others[np.argpartition(away[others], spare)[:spare]]
        must[others] = True
        index = np.flatnonzero(must)
        if not (must & ~inside).any():
            break  # nothing new: Newton went as far as it can
        inside = must
        scale = rows.length[index]
        x = newton(
            unit_gram(*rows.differences(index)),
            rows.b[index] / scale,
            lam[index] * scale,
            floor=rows.floor[index],
            ceil=rows.ceil[index] * scale,
            tol=0.1 * tol,
            limit=limit,
        )
        lam = np.where(rows.length > 0, 0.0, lam)
        lam[index] = x / scale
        W = rows.adjoint(lam)
        found = _better(rows, found, W, lam, rows.values(W))
        size = float(np.linalg.norm(W))
        reach = -1e-13 * size
        if found.short <= tol:
            return found
        if _hopeless(rows, found) and float(rows.b @ lam) > limit * size:
            proof = farkas(rows, lam, most)
            if proof is not None:
                return FrobeniusBest(W=np.zeros_like(W), lam=proof)
            limit, inside = inf, np.zeros(len(lam), bool)  # a huge norm: go on without a limit
    proof = farkas(rows, lam, most) if _hopeless(rows, found) else None
    if proof is not None:
        return FrobeniusBest(W=np.zeros_like(W), lam=proof)
    return _refine(rows, found, lam) if np.count_nonzero(lam) <= most else found


def _refine(rows: Segments, found: FrobeniusBest, lam: Floats) -> FrobeniusBest:
    """`found`, with W moved onto the rows that λ holds tight.

    W = Σ λ Δ zᵀ carries the rounding of a large λ; steps W ← W + Aᵀ(A Aᵀ)⁻¹(b − A W), whose
    residual is taken from W itself, are free of it.
    """
    index = np.flatnonzero((lam > rows.floor) & (lam < rows.ceil) & (rows.length > 0))
    factor = factorize(unit_gram(*rows.differences(index)), PROOF_RIDGE)
    W, move = rows.adjoint(lam), np.zeros(len(lam))
    values = rows.values(W)
    for _ in range(5 if factor is not None and len(index) else 0):
        lack = (rows.b - values)[index] / rows.length[index]
        move[index] = scipy.linalg.lapack.dpotrs(factor, lack, lower=0)[0] / rows.length[index]
        W = W + rows.adjoint(move)
        values = rows.values(W)
        found = _better(rows, found, W, None if _scalable(rows) else lam, values)
    return found


def _scalable(rows: Segments) -> bool:
    """Whether all rows are hard margins with b > 0: any W with positive margins can be scaled."""
    return bool(np.isinf(rows.ceil).all() and (rows.floor == 0).all() and rows.b.min() > 0)


def _hopeless(rows: Segments, found: FrobeniusBest) -> bool:
    """Whether nothing found so far speaks against infeasibility."""
    doubt = found.upper == inf if _scalable(rows) else found.short > 1e-3
    return doubt and bool(np.isinf(rows.ceil).any())


def _better(
    rows: Segments, found: FrobeniusBest, W: Floats, lam: Floats | None, values: Floats
) -> FrobeniusBest:
    """`found`, with W and λ (W = Σ λ Δ zᵀ, or λ unknown) where they improve it."""
    square = float(np.vdot(W, W))
    if _scalable(rows):
        least = float((values / rows.b).min())
        upper = sqrt(square) / least if least > 0 else inf
        lower = float(rows.b @ lam) / sqrt(square) if lam is not None and square > 0 else 0.0
        W_best, upper = (W, upper) if upper < found.upper else (found.W, found.upper)
        if lam is not None and lower > found.lower:
            found = FrobeniusBest(W=found.W, lam=lam.copy(), lower=lower)
        short = upper / found.lower - 1.0 if found.lower > 0 else inf
        return FrobeniusBest(
            W=W_best.copy(), lam=found.lam, short=short, upper=upper, lower=found.lower
        )
    if lam is None:
        return found
    short = shortfall(
        values, rows.b, lam, square=square, length=rows.length, floor=rows.floor, ceil=rows.ceil
    )
    return FrobeniusBest(W=W.copy(), lam=lam.copy(), short=short) if short < found.short else found


def farkas(rows: Segments, lam: Floats, most: int) -> Floats | None:
    """λ (sorted rows) with Σ λ_k Δ_k z_kᵀ = 0 to rounding, λ ≥ 0 on margins, bᵀλ > 0; or None.

    Repeats y ← max(y − A⁺ᵀ(Aᵀ y), 0) on the support, in unit rows y_k = λ_k‖Δ_k‖‖z_k‖: the
    least-norm change that annuls the sum; rows that turn negative leave. Few rows (at most `most`)
    go through the Gram A Aᵀ, many through conjugate gradients on AᵀA, well conditioned then.
    """
    tie = rows.floor == -inf
    length = np.where(rows.length > 0, rows.length, inf)
    y = np.where(np.isinf(rows.ceil), lam * rows.length, 0.0)  # soft margins prove nothing
    best, least, support = y, inf, np.empty(0, np.int64)
    factor: Floats | None = None
    for _ in range(30):
        if not y.any():
            break
        y = y / float(np.abs(y).max())
        W = rows.adjoint(y / length)
        ratio = float(np.linalg.norm(W)) / float(np.abs(y).sum())
        if ratio < least and rows.b @ (y / length) > 0:
            best, least = y, ratio
        elif least <= PROVED:
            break
        index = np.flatnonzero((y != 0) | (tie & (rows.length > 0)))
        if len(index) <= min(most, max(1.5 * W.size, 300)):
            if not np.array_equal(index, support):
                support, factor = index, factorize(unit_gram(*rows.differences(index)), PROOF_RIDGE)
            if factor is None:
                return None
            move = scipy.linalg.lapack.dpotrs(factor, (rows.values(W) / length)[index], lower=0)[0]
        else:
            move = _least_norm(rows, W, index, length)
        y = y.copy()
        y[index] -= move
        y = np.where(tie, y, np.maximum(y, 0.0))
    return best / length if least <= PROVED else None


def _least_norm(rows: Segments, W: Floats, index: Ints, length: Floats) -> Floats:
    """x (k,) of least norm with Σ x_k Δ_k z_kᵀ/length_k = W over the rows `index`."""
    weight = np.zeros(len(length))
    weight[index] = 1.0 / length[index] ** 2

    def normal(u: Floats) -> Floats:
        return rows.adjoint(weight * rows.values(u.reshape(W.shape))).ravel()

    square = scipy.sparse.linalg.LinearOperator((W.size, W.size), matvec=normal, dtype=np.float64)
    u = scipy.sparse.linalg.cg(square, W.ravel(), rtol=1e-6, maxiter=200)[0]
    return (rows.values(u.reshape(W.shape)) / length)[index]


# What the descent is asked for, as a share of the gap: its own bounds leave rounding out, and are
# rough for ties and soft margins. Much of the time of a wide tolerance would go into that share.
SHARE = 0.1
WIDE, WIDE_SHARE = 1e-6, 0.9


def by_newton_steps(
    problem: Problem,
    norm: Norm,
    *,
    tol: float,
    budget: float = np.inf,
) -> Answer:
    """The answer of coordinate descent and Newton steps on a working set; takes a budget.

    Whatever the norm is called: the answer is that of the Frobenius norm, sought in the span of the
    queries.
    """
    problem, basis = in_span(problem)
    wide = tol >= WIDE and problem.scalable and np.isinf(budget)
    W, lam = solve_large(
        segments_of(problem, budget),
        tol=(WIDE_SHARE if wide else SHARE) * tol,
        memory=min(MEMORY, HEADROOM * available()),
    )
    worth = float(problem.b @ lam[: problem.m] + problem.c @ lam[problem.m :])
    proof = not W.any() and np.isinf(budget) and worth > 0
    W = W if basis is None else W @ basis.T
    return Answer(None if proof else W, lam[: problem.m], lam[problem.m :], proof)


def in_span(problem: Problem) -> tuple[Problem, Floats | None]:
    """The problem with queries in their span's coordinates, and its basis (dq, r).

    None and the problem itself where the queries in use are as many as their entries. A solution W
    (d, r) of the smaller problem is W·basisᵀ in the larger one, of the same singular values.
    """
    used = np.unique(np.concatenate([problem.query, problem.tie_query]))
    if len(used) >= problem.shape[1]:
        return problem, None
    basis = np.linalg.qr(problem.queries[used].T)[0]
    queries = np.zeros((len(problem.queries), basis.shape[1]))
    queries[used] = problem.queries[used] @ basis
    return replace(problem, queries=queries), basis
