"""Wide numbers: share × 2^power with an integer power, so that no product or sum leaves the range.

Share and power are arrays of one shape, float64 and int64. A number keeps its sixteen digits at
any size, which a logarithm does not: one near −900 rounds by 1e-13. Zero is the share 0.
`entries` gives every entry of a sum of rank-one terms at its own scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints, plain
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks, memory

Wide = tuple[Floats, Ints]

# The power of a zero where powers are compared; sums of several of them still fit an integer.
NONE = -(2**40)
# Shares further apart than this many powers of two do not meet in a sum.
APART = 1100
# log 2, and in two parts: k times the first is exact for |k| < 2^20.
_LOG2 = math.log(2.0)
_HIGH, _LOW = 0.693147180369123816490, 1.90821492927058770002e-10


def of_logs(signed: Floats, logs: Floats) -> Wide:
    """signed · e^logs, zero where logs is −inf; signed and logs of one shape."""
    live = (signed != 0) & (logs > -np.inf)
    logs = np.where(live, logs, 0.0)
    turns = np.floor(logs / _LOG2)
    share, extra = np.frexp(signed * np.exp(logs - turns * _HIGH - turns * _LOW))
    power = turns.astype(np.int64) + extra
    return np.where(live, share, 0.0), np.where(live, power, 0)


@njit(**INNER, forceinline=True)
def of_log(signed: float, log: float) -> tuple[float, int]:
    """signed · e^log for one number that is not zero and a finite log."""
    turns = math.floor(log / _LOG2)
    share, extra = math.frexp(signed * math.exp(log - turns * _HIGH - turns * _LOW))
    return share, turns + extra


def logs_of(share: Floats, power: Ints) -> Floats:
    """log |share 2^power|, −inf at zero."""
    with np.errstate(divide="ignore"):
        return np.log(np.abs(share)) + power * math.log(2.0)


def normal(share: Floats, power: Ints) -> Wide:
    """The same numbers with shares in ±[½, 1)."""
    share, extra = np.frexp(share)
    return share, np.where(share == 0, 0, power + extra)


@njit(**INNER)
def level(given: Floats, vectors: Floats, by: Ints, at: Ints, power: Ints) -> None:
    """Writes the given vectors (p, d), brought to largest entries in [½, 1) by powers of two.

    That is exact. The powers are given to the numbers that multiply them: power (K,), number k has
    vector at_k; by (p,) is workspace.
    """
    p, d = vectors.shape
    for i in range(p):
        most = 0.0
        for r in range(d):
            most = max(most, abs(given[i, r]))
        by[i] = math.frexp(most)[1]
        for r in range(d):
            vectors[i, r] = math.ldexp(given[i, r], -by[i])
    for k in range(len(at)):
        power[k] += by[at[k]]


@njit(**INNER, forceinline=True)
def shifted(x: float, by: int) -> float:
    """x · 2^by, zero when it is too small; by ≤ 1000."""
    return math.ldexp(x, by) if by > -APART else 0.0


class Sum(NamedTuple):
    """G = Σ_k x_k left_at_k right_into_kᵀ for each of B instances.

    left (B, p, d) and right (B, q, c): vectors; at, into (K,): which of them a term has; share,
    power (B, K): the wide x_k.
    """

    left: Floats
    right: Floats
    at: Ints
    into: Ints
    share: Floats
    power: Ints

    def plain(self) -> Sum:
        """The same arrays, as kernels take them."""
        return Sum._make(map(plain, self))


class EntriesWorkspace(NamedTuple):
    """Memory of one thread: A (p, d), Z (q, c), heights (K,), by (max(p, q),): see `level`;
    sums, tops (q, d)."""

    A: Floats
    Z: Floats
    heights: Ints
    by: Ints
    sums: Floats
    tops: Ints


def _allocate(p: int, d: int, q: int, c: int, K: int) -> EntriesWorkspace:
    return EntriesWorkspace(
        np.empty((p, d)),
        np.empty((q, c)),
        np.empty(K, np.int64),
        np.empty(max(p, q), np.int64),
        np.empty((q, d)),
        np.empty((q, d), np.int64),
    )


@njit(**ENTRY)
def _entries(
    given: Sum, work: EntriesWorkspace, out: Floats, powers: Ints, begin: int, end: int
) -> None:
    """Writes out and powers as in `entries` for the instances from begin to end."""
    at, into = given.at, given.into
    A, Z, heights, sums, tops = work.A, work.Z, work.heights, work.sums, work.tops
    q, d = sums.shape
    for b in range(begin, end):
        share = given.share[b]
        for k in range(len(at)):
            heights[k] = given.power[b, k]
        level(given.left[b], A, work.by, at, heights)
        level(given.right[b], Z, work.by, into, heights)
        # The sums Σ_k x_k left_at_k over the terms of each right vector.
        for i in range(q):
            for r in range(d):
                sums[i, r] = 0.0
                tops[i, r] = NONE
        for k in range(len(at)):
            if share[k] != 0.0:
                i = into[k]
                for r in range(d):
                    if A[at[k], r] != 0.0:
                        tops[i, r] = max(tops[i, r], heights[k])
        for k in range(len(at)):
            i = into[k]
            if share[k] != 0.0:
                for r in range(d):
                    f = A[at[k], r]
                    if f != 0.0:
                        sums[i, r] += shifted(f * share[k], heights[k] - tops[i, r])
        for i in range(q):
            for r in range(d):
                x, extra = math.frexp(sums[i, r])
                sums[i, r] = x
                tops[i, r] += extra
        for r in range(d):
            for j in range(Z.shape[1]):
                top = NONE
                for i in range(q):
                    if sums[i, r] != 0.0 and Z[i, j] != 0.0:
                        top = max(top, tops[i, r])
                s = 0.0
                for i in range(q):
                    if sums[i, r] != 0.0 and Z[i, j] != 0.0:
                        s += shifted(sums[i, r] * Z[i, j], tops[i, r] - top)
                out[b, r, j] = 0.0
                powers[b, r, j] = 0
                if s != 0.0:
                    x, extra = math.frexp(s)
                    out[b, r, j] = x
                    powers[b, r, j] = top + extra


def entries(given: Sum) -> tuple[Floats, Ints]:
    """Every entry of the sum as a wide number (B, d, c), shares in ±[½, 1) or zero.

    An entry is as exact as its own terms allow, whatever the size of the others.
    """
    given = given.plain()
    B, p, d = given.left.shape
    q, c = given.right.shape[1:]
    out, powers = np.empty((B, d, c)), np.empty((B, d, c), np.int64)

    def some(begin: int, end: int) -> None:
        work = memory(_allocate, p, d, q, c, len(given.at))
        _entries(given, work, out, powers, begin, end)

    map_chunks(some, B)
    return out, powers
