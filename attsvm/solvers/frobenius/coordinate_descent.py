"""Dual coordinate descent for the least Frobenius norm, on rows that are never stacked.

    max over λ of  Σ b_k λ_k − ½‖Σ λ_k Δ_k z_kᵀ‖²,   0 ≤ λ_k ≤ C (margins),  λ_l free (ties)

One step makes row k exact, or goes ω times as far,

    λ_k ← clip(λ_k − ω (Δ_kᵀ W z_k − b_k)/(‖Δ_k‖²‖z_k‖²)),

with W = Σ λ Δ zᵀ kept up to date. Rows are sorted by query into segments; inside a segment only the
vector W z moves. Segments are taken in blocks: W z of a block is one matrix product, and so is the
change of W by it; what the earlier segments of a block moved reaches the later ones through the
inner products of their queries. Violations are Euclidean distances in W: a row that lacks
b_k − Δ_kᵀ W z_k lies (b_k − Δ_kᵀ W z_k)/(‖Δ_k‖‖z_k‖) away, whatever the scale of the data.

Theory: [hsieh2008dual], whose waiting rows are kept too; over-relaxed steps inside bounds converge
for ω < 2 [cryer1971solution].
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.compiled import njit
from attsvm.problem.problem import Problem, pairwise

SEGMENT = 256  # rows; longer runs of one query are cut so that their order can be drawn
REFRESH = 20  # epochs between two visits of every row; rows far from tight wait in between
PASSES = 3  # sweeps over a segment's rows while its W z is known, at ω = 1; else one
BLOCK = 32  # segments whose W z is formed at once

# What kernels take of Segments: keys, queries, hi, lo, start, query; b, floor, ceil, length.
Pools = tuple[NDArray[Any], Floats, Ints, Ints, Ints, Ints]
Sides = tuple[Floats, Floats, Floats, Floats]


@dataclass(frozen=True, eq=False)
class Segments:
    """Rows sorted by query: Δ_k = keys[hi_k] − keys[lo_k] (lo_k = −1: keys[hi_k]).

    keys (N, d) and queries (g, dq) are pools; hi, lo, b, floor, ceil, length are (m,), sorted;
    segment s holds the rows start[s] … start[s+1]−1, all with the query query[s].
    floor ≤ λ ≤ ceil: (0, C) on margins, (−∞, ∞) on ties. length_k = ‖Δ_k‖‖z_k‖.
    order (m,) is the caller's index of each sorted row.
    """

    keys: NDArray[Any]
    queries: Floats
    hi: Ints
    lo: Ints
    b: Floats
    floor: Floats
    ceil: Floats
    length: Floats
    start: Ints
    query: Ints
    order: Ints

    def differences(self, index: Ints) -> tuple[Floats, Floats]:
        """Δ (k, d) and z (k, dq) of the sorted rows `index`."""
        place = np.searchsorted(self.start, index, side="right") - 1
        return (
            pairwise(self.keys, self.hi[index], self.lo[index]),
            self.queries[self.query[place]],
        )

    @cached_property
    def pools(self) -> Pools:
        """The rows as kernels take them."""
        return self.keys, self.queries, self.hi, self.lo, self.start, self.query

    @cached_property
    def free(self) -> Bools:
        """True on ties (m,)."""
        return self.floor < 0.0

    def values(self, W: Floats) -> Floats:
        """Δ_kᵀ W z_k (m,) of the sorted rows, for W (d, dq)."""
        out = np.empty(len(self.b))
        _margins(self.pools, np.ascontiguousarray(W, np.float64), out)
        return out

    def adjoint(self, lam: Floats) -> Floats:
        """Σ λ_k Δ_k z_kᵀ (d, dq) over the sorted rows."""
        W = np.zeros((self.keys.shape[1], self.queries.shape[1]))
        _adjoint(self.pools, lam, W)
        return W

    def unsorted(self, lam: Floats) -> Floats:
        """λ (m,) in the caller's order."""
        out = np.empty(len(lam))
        out[self.order] = lam
        return out


def sort_rows(
    keys: NDArray[Any],
    queries: Floats,
    hi: Ints,
    lo: Ints,
    query: Ints,
    b: Floats,
    *,
    free: NDArray[np.bool_],
    budget: float = inf,
) -> Segments:
    """The rows as Segments; keys are not copied.

    hi, lo, query, b, free are (m,) in any order; free marks ties.
    """
    pool = np.asarray(keys)
    if pool.dtype not in (np.float32, np.float64):
        pool = pool.astype(np.float64)
    pool = pool.view()
    pool.flags.writeable = False  # one compiled variant for memory maps and plain arrays
    order = np.argsort(query, kind="stable")
    runs = query[order]
    first = np.flatnonzero(np.r_[True, runs[1:] != runs[:-1]]) if len(runs) else np.empty(0, int)
    last = np.r_[first[1:], len(runs)].astype(np.int64)
    pieces = [np.arange(i, j, SEGMENT) for i, j in zip(first, last, strict=True) if j - i > SEGMENT]
    start = np.unique(np.concatenate([first, last, *pieces])).astype(np.int64)
    if len(runs) == 0:
        start = np.zeros(1, np.int64)
    rows = Segments(
        keys=pool,
        queries=np.array(queries, np.float64, order="C"),
        hi=hi[order].astype(np.int64),
        lo=lo[order].astype(np.int64),
        b=b[order].astype(np.float64),
        floor=np.where(free[order], -inf, 0.0),
        ceil=np.where(free[order], inf, float(budget)),
        length=np.empty(len(runs)),
        start=start,
        query=runs[start[:-1]].astype(np.int64),
        order=order,
    )
    _lengths(rows.pools, rows.length)
    return rows


def segments_of(problem: Problem, budget: float = inf) -> Segments:
    """The margins and then the ties of a problem."""
    return sort_rows(
        problem.keys,
        problem.queries,
        np.concatenate([problem.hi, problem.tie_hi]),
        np.concatenate([problem.lo, problem.tie_lo]),
        np.concatenate([problem.query, problem.tie_query]),
        np.concatenate([problem.b, problem.c]),
        free=np.arange(problem.m + problem.ties) >= problem.m,
        budget=budget,
    )


class Waiting:
    """Which rows wait until every row is visited again, kept from one descent to the next.

    active (m,): the rows, those that wait last in each segment; count: how many do not wait, of
    each segment; epochs so far.
    """

    def __init__(self, rows: Segments, *, refresh: int = REFRESH) -> None:
        self.every, self.refresh, self.epochs = np.diff(rows.start), refresh, 0
        self.active, self.count = np.arange(len(rows.b)), self.every.copy()

    def visit(self) -> None:
        """Begins an epoch: every `refresh`-th visits all rows."""
        if self.epochs % self.refresh == 0:
            self.count[:] = self.every
        self.epochs += 1


def descend(
    rows: Segments,
    lam: Floats,
    W: Floats,
    *,
    epochs: int,
    draw: np.random.Generator,
    cut: float = inf,
    omega: float = 1.0,
    waiting: Waiting | None = None,
) -> float:
    """The worst violation met in the last epoch, a distance in W; lam and W move in place.

    The first epoch and every REFRESH-th visit all rows. A margin at λ = 0 that is further from
    tight than the worst violation of the epoch before waits until the next full visit.

    Args:
        lam: (m,) sorted multipliers inside their bounds. W: (d, dq) = Σ λ Δ zᵀ.
        draw: gives the order of the segments in each epoch.
        cut: the worst violation before the first epoch, when it is known.
        omega: how far a step goes, 1 to make its row exact, below 2.
        waiting: the rows that wait from a descent before; none do without it.
    """
    waiting = Waiting(rows) if waiting is None else waiting
    sides, passes = (rows.b, rows.floor, rows.ceil, rows.length), PASSES if omega == 1.0 else 1
    for _ in range(epochs):
        waiting.visit()
        order = draw.permutation(len(waiting.every))
        wait = waiting.active, waiting.count
        cut = _epoch(rows.pools, sides, order, *wait, cut, passes, omega, lam, W)
    return cut


@njit()
def _difference(keys: NDArray[Any], h: int, l: int, out: Floats) -> None:
    """Writes Δ = keys[h] − keys[l] into out (d,), each entry cast to float64 first."""
    if l < 0:
        for r in range(out.size):
            out[r] = np.float64(keys[h, r])
    else:
        for r in range(out.size):
            out[r] = np.float64(keys[h, r]) - np.float64(keys[l, r])


@njit()
def _lengths(pools: Pools, out: Floats) -> None:
    """Writes ‖Δ_k‖‖z_k‖ into out (m,)."""
    keys, queries, hi, lo, start, query = pools
    delta = np.empty(keys.shape[1])
    for s in range(query.size):
        z = queries[query[s]]
        zz = np.dot(z, z)
        for k in range(start[s], start[s + 1]):
            _difference(keys, hi[k], lo[k], delta)
            out[k] = np.sqrt(zz) * np.sqrt(np.dot(delta, delta))


@njit()
def _margins(pools: Pools, W: Floats, out: Floats) -> None:
    """Writes Δ_kᵀ W z_k into out (m,)."""
    keys, queries, hi, lo, start, query = pools
    delta, v = np.empty(keys.shape[1]), np.empty(keys.shape[1])
    for s in range(query.size):
        np.dot(W, queries[query[s]], v)
        for k in range(start[s], start[s + 1]):
            _difference(keys, hi[k], lo[k], delta)
            out[k] = np.dot(delta, v)


@njit()
def _adjoint(pools: Pools, lam: Floats, W: Floats) -> None:
    """Adds Σ λ_k Δ_k z_kᵀ to W (d, dq)."""
    keys, queries, hi, lo, start, query = pools
    delta, total = np.empty(W.shape[0]), np.empty(W.shape[0])
    for s in range(query.size):
        if not np.any(lam[start[s] : start[s + 1]]):
            continue
        total[:] = 0.0
        for k in range(start[s], start[s + 1]):
            if lam[k] != 0.0:
                _difference(keys, hi[k], lo[k], delta)
                for r in range(delta.size):
                    total[r] += lam[k] * delta[r]
        z = queries[query[s]]
        for r in range(W.shape[0]):
            t = total[r]
            for e in range(W.shape[1]):
                W[r, e] += t * z[e]


@njit()
def _epoch(
    pools: Pools,
    sides: Sides,
    order: Ints,
    active: Ints,
    count: Ints,
    cut: float,
    passes: int,
    omega: float,
    lam: Floats,
    W: Floats,
) -> float:
    """The worst violation met; one epoch over the first count[s] rows of each segment's `active`.

    lam and W are moved; `active` is permuted inside segments so that waiting rows come last.
    """
    keys, queries, hi, lo, start, query = pools
    b, floor, ceil, length = sides
    d, dq = W.shape
    delta, total = np.empty(d), np.empty(d)
    Z, U = np.empty((BLOCK, dq)), np.empty((BLOCK, d))
    worst = 0.0
    live = order[count[order] > 0]
    for first in range(0, live.size, BLOCK):
        size = min(BLOCK, live.size - first)
        for a in range(size):
            Z[a] = queries[query[live[first + a]]]
        V = np.dot(Z[:size], W.T)
        K = np.dot(Z[:size], Z[:size].T)
        moved_any = False
        for a in range(size):
            s = live[first + a]
            zz, v = K[a, a], V[a]
            total[:] = 0.0
            changed = False
            for sweep in range(passes):
                moved = False
                i = start[s]
                while i < start[s] + count[s]:
                    k = active[i]
                    i += 1
                    if length[k] == 0.0:
                        continue
                    _difference(keys, hi[k], lo[k], delta)
                    away = (np.dot(delta, v) - b[k]) / length[k]  # signed distance to tight
                    if lam[k] == floor[k] and away > cut and sweep == 0:
                        i -= 1
                        count[s] -= 1
                        active[i] = active[start[s] + count[s]]
                        active[start[s] + count[s]] = k
                        continue
                    step = min(max(lam[k] - omega * away / length[k], floor[k]), ceil[k]) - lam[k]
                    if step != 0.0:
                        if sweep == 0:
                            # Leaving the row by its bound is no violation: the smaller counts.
                            worst = max(worst, min(abs(away), abs(step) * length[k]))
                        lam[k] += step
                        moved = True
                        for r in range(d):
                            t = step * delta[r]
                            total[r] += t
                            v[r] += zz * t
                changed = changed or moved
                if not moved:
                    break
            U[a] = total
            if changed:
                moved_any = True
                for c in range(a + 1, size):
                    for r in range(d):
                        V[c, r] += K[a, c] * total[r]
        if moved_any:
            W += np.dot(U[:size].T, Z[:size])
    return worst
