"""Every entry of a sum of graded terms at its own scale."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import ENTRY, njit, plain
from attsvm._utils.parallel import map_chunks, memory
from attsvm.training.optimizers.graded.wide import NONE, level, shifted


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
        return Sum(
            plain(self.left),
            plain(self.right),
            plain(self.at),
            plain(self.into),
            plain(self.share),
            plain(self.power),
        )


class Workspace(NamedTuple):
    """Memory of one thread: A (p, d), Z (q, c), heights (K,), by (max(p, q),): see `level`;
    sums, tops (q, d)."""

    A: Floats
    Z: Floats
    heights: Ints
    by: Ints
    sums: Floats
    tops: Ints


def _room(p: int, d: int, q: int, c: int, K: int) -> Workspace:
    return Workspace(
        np.empty((p, d)),
        np.empty((q, c)),
        np.empty(K, np.int64),
        np.empty(max(p, q), np.int64),
        np.empty((q, d)),
        np.empty((q, d), np.int64),
    )


@njit(**ENTRY)
def _entries(given: Sum, room: Workspace, out: Floats, powers: Ints, begin: int, end: int) -> None:
    """Writes out and powers as in `entries` for the instances from begin to end."""
    at, into = given.at, given.into
    A, Z, heights, sums, tops = room.A, room.Z, room.heights, room.sums, room.tops
    q, d = sums.shape
    for b in range(begin, end):
        share = given.share[b]
        for k in range(len(at)):
            heights[k] = given.power[b, k]
        level(given.left[b], A, room.by, at, heights)
        level(given.right[b], Z, room.by, into, heights)
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
        room = memory(_room, p, d, q, c, len(given.at))
        _entries(given, room, out, powers, begin, end)

    map_chunks(some, B)
    return out, powers
