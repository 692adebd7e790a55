"""The coefficients of a sum of graded terms in two bases, and their elimination to a diagonal.

The sum is Σ_k x_k a_k b_kᵀ with wide numbers x_k. In bases X of the a and Y of the b it is X C Yᵀ
with a small matrix C of wide numbers, and elimination with complete pivoting makes C = L D Uᵀ with
entries of L and U at most 1. No number meets one of another size unless the formula adds them, so
every digit lost is lost to a cancellation that the terms themselves have. `noise` keeps for each
entry the power of the largest part that went into it: an entry that cancels to the rounding of its
parts is zero, because its sign is not known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import INNER, njit
from attsvm.training.optimizers.graded.span import ROUNDING
from attsvm.training.optimizers.graded.wide import NONE, shifted


class Noisy(NamedTuple):
    """A matrix of wide numbers, and the power of the largest part of each; most is room."""

    share: Floats
    power: Ints
    noise: Ints
    most: Floats

    @classmethod
    def of(cls, rows: int, columns: int) -> Noisy:
        """The memory for a matrix of this size, or a smaller one."""
        size = rows, columns
        return cls(
            np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
        )


class Diagonal(NamedTuple):
    """C = L diag(pivots 2^heights) Uᵀ: L (r, k), U (s, k), pivots and heights (k,)."""

    L: Floats
    U: Floats
    pivots: Floats
    heights: Ints

    @classmethod
    def of(cls, r: int, s: int) -> Diagonal:
        """The memory for C of this size, or a smaller one."""
        k = min(r, s)
        return cls(np.empty((r, k)), np.empty((s, k)), np.empty(k), np.empty(k, np.int64))


@njit(**INNER)
def gather(
    parts: Floats, rank: int, at: Ints, into: Ints, share: Floats, power: Ints, out: Noisy
) -> None:
    """Writes C_ji = Σ parts_j,at_k x_k over the terms with into_k = i: out (q, ·).

    parts (·, p): coefficients of the left vectors in their basis; at, into, share, power (K,).
    """
    for i in range(len(out.share)):
        for j in range(rank):
            out.share[i, j] = out.most[i, j] = 0.0
            out.power[i, j] = NONE
    for k in range(len(at)):
        if share[k] != 0.0:
            i = into[k]
            for j in range(rank):
                if parts[j, at[k]] != 0.0:
                    out.power[i, j] = max(out.power[i, j], power[k])
    for k in range(len(at)):
        i = into[k]
        if share[k] != 0.0:
            for j in range(rank):
                f = parts[j, at[k]]
                if f != 0.0:
                    x = shifted(f * share[k], power[k] - out.power[i, j])
                    out.share[i, j] += x
                    out.most[i, j] = max(out.most[i, j], abs(x))
    for i in range(len(out.share)):
        for j in range(rank):
            _settle(out, i, j, out.most[i, j])


@njit(**INNER)
def spread(columns: Noisy, parts: Floats, r: int, s: int, C: Noisy) -> None:
    """Writes C_jc = Σ_i columns_ij parts_ci (r, s), from the columns (q, ·) of `gather`."""
    q = len(columns.share)
    for j in range(r):
        for c in range(s):
            top = worst = NONE
            for i in range(q):
                if parts[c, i] != 0.0:
                    worst = max(worst, columns.noise[i, j] + math.frexp(parts[c, i])[1])
                    if columns.share[i, j] != 0.0:
                        top = max(top, columns.power[i, j])
            total = most = 0.0
            for i in range(q):
                if parts[c, i] != 0.0 and columns.share[i, j] != 0.0:
                    x = shifted(parts[c, i] * columns.share[i, j], columns.power[i, j] - top)
                    total += x
                    most = max(most, abs(x))
            C.share[j, c] = total
            C.power[j, c] = top
            _settle(C, j, c, most)
            C.noise[j, c] = max(C.noise[j, c], worst)
            _silence(C, j, c)


@njit(**INNER)
def _settle(x: Noisy, i: int, j: int, largest: float) -> None:
    """Brings an entry to a share in ±[½, 1); its noise has the power of its largest part."""
    x.noise[i, j] = x.power[i, j] + math.frexp(largest)[1] if largest > 0.0 else NONE
    share, extra = math.frexp(x.share[i, j])
    x.share[i, j] = share
    x.power[i, j] += extra
    _silence(x, i, j)


@njit(**INNER)
def _silence(x: Noisy, i: int, j: int) -> None:
    """Makes an entry zero that is no more than the rounding of its parts."""
    share, above = x.share[i, j], min(x.noise[i, j] - x.power[i, j], 1000)
    if share == 0.0 or abs(share) <= shifted(ROUNDING, above):
        x.share[i, j] = 0.0
        x.power[i, j] = NONE


@njit(**INNER)
def eliminate(given: Noisy, r: int, s: int, found: Diagonal) -> int:
    """The rank of the given C (r, s), used up; writes its diagonal form, by complete pivoting."""
    C, powers, noise = given.share, given.power, given.noise
    L, U = found.L, found.U
    most = min(r, s)
    for k in range(most):
        for i in range(r):
            L[i, k] = 0.0
        for j in range(s):
            U[j, k] = 0.0
    for k in range(most):
        a = b = -1
        for i in range(r):
            for j in range(s):
                if C[i, j] != 0.0 and (
                    a < 0
                    or powers[i, j] > powers[a, b]
                    or (powers[i, j] == powers[a, b] and abs(C[i, j]) > abs(C[a, b]))
                ):
                    a, b = i, j
        if a < 0:
            return k
        pivot, height, doubt = C[a, b], powers[a, b], noise[a, b] - powers[a, b]
        found.pivots[k], found.heights[k] = pivot, height
        L[a, k] = U[b, k] = 1.0
        for i in range(r):
            if i != a and C[i, b] != 0.0:
                L[i, k] = shifted(C[i, b] / pivot, powers[i, b] - height)
        for j in range(s):
            if j != b and C[a, j] != 0.0:
                U[j, k] = shifted(C[a, j] / pivot, powers[a, j] - height)
        for i in range(r):
            if i == a or C[i, b] == 0.0:
                continue
            for j in range(s):
                if j != b and C[a, j] != 0.0:
                    x = C[i, b] * C[a, j] / pivot
                    e = powers[i, b] + powers[a, j] - height
                    unsure = max(noise[i, b] - powers[i, b], noise[a, j] - powers[a, j])
                    noise[i, j] = max(noise[i, j], e + max(unsure, doubt))
                    _take(C, powers, i, j, x, e)
                    _silence(given, i, j)
        for i in range(r):
            C[i, b] = 0.0
        for j in range(s):
            C[a, j] = 0.0
    return most


@njit(**INNER)
def _take(C: Floats, powers: Ints, i: int, j: int, x: float, e: int) -> None:
    """C_ij −= x 2^e."""
    y, top = -x, e
    if C[i, j] != 0.0:
        top = max(powers[i, j], e)
        y = shifted(C[i, j], powers[i, j] - top) - shifted(x, e - top)
    share, extra = math.frexp(y)
    C[i, j] = share
    powers[i, j] = top + extra if share != 0.0 else NONE
