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

import numpy as np

from attsvm.ground.arrays import Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.rules.graded.span import ROUNDING
from attsvm.rules.graded.wide import NONE, shifted


@njit()
def gather(
    parts: Floats, rank: int, at: Ints, into: Ints, share: Floats, power: Ints, out: Floats,
    powers: Ints, noise: Ints,
) -> None:  # fmt: skip
    """Writes C_ji = Σ parts_j,at_k x_k over the terms with into_k = i: out, powers, noise (q, ·).

    parts (·, p): coefficients of the left vectors in their basis; at, into, share, power (K,).
    """
    q = len(out)
    for i in range(q):
        for j in range(rank):
            out[i, j], powers[i, j], noise[i, j] = 0.0, NONE, NONE
    for k in range(len(at)):
        if share[k] != 0.0:
            for j in range(rank):
                if parts[j, at[k]] != 0.0:
                    powers[into[k], j] = max(powers[into[k], j], power[k])
    largest = np.zeros((q, rank))
    for k in range(len(at)):
        i = into[k]
        if share[k] != 0.0:
            for j in range(rank):
                f = parts[j, at[k]]
                if f != 0.0:
                    x = shifted(f * share[k], power[k] - powers[i, j])
                    out[i, j] += x
                    largest[i, j] = max(largest[i, j], abs(x))
    for i in range(q):
        for j in range(rank):
            _settle(out, powers, noise, i, j, largest[i, j])


@njit()
def spread(
    columns: Floats, powers: Ints, noise: Ints, parts: Floats, ranks: tuple[int, int], C: Floats,
    C_powers: Ints, C_noise: Ints,
) -> None:  # fmt: skip
    """Writes C_jc = Σ_i columns_ij parts_ci (r, s), from the columns (q, ·) of `gather`."""
    q = len(columns)
    for j in range(ranks[0]):
        for c in range(ranks[1]):
            top, worst = NONE, NONE
            for i in range(q):
                if parts[c, i] != 0.0:
                    worst = max(worst, noise[i, j] + math.frexp(parts[c, i])[1])
                    if columns[i, j] != 0.0:
                        top = max(top, powers[i, j])
            s = most = 0.0
            for i in range(q):
                if parts[c, i] != 0.0 and columns[i, j] != 0.0:
                    x = shifted(parts[c, i] * columns[i, j], powers[i, j] - top)
                    s += x
                    most = max(most, abs(x))
            C[j, c], C_powers[j, c] = s, top
            _settle(C, C_powers, C_noise, j, c, most)
            C_noise[j, c] = max(C_noise[j, c], worst)
            _silence(C, C_powers, C_noise, j, c)


@njit()
def _settle(x: Floats, powers: Ints, noise: Ints, i: int, j: int, largest: float) -> None:
    """Brings an entry to a share in ±[½, 1); its noise has the power of its largest part."""
    noise[i, j] = powers[i, j] + math.frexp(largest)[1] if largest > 0.0 else NONE
    share, extra = math.frexp(x[i, j])
    x[i, j] = share
    powers[i, j] += extra
    _silence(x, powers, noise, i, j)


@njit()
def _silence(x: Floats, powers: Ints, noise: Ints, i: int, j: int) -> None:
    """Makes an entry zero that is no more than the rounding of its parts."""
    if x[i, j] == 0.0 or abs(x[i, j]) <= shifted(ROUNDING, min(noise[i, j] - powers[i, j], 1000)):
        x[i, j], powers[i, j] = 0.0, NONE


@njit()
def eliminate(
    C: Floats, powers: Ints, noise: Ints, ranks: tuple[int, int], L: Floats, U: Floats,
    pivots: Floats, heights: Ints,
) -> int:  # fmt: skip
    """The rank of C (r, s), used up: C = L diag(pivots 2^heights) Uᵀ by complete pivoting.

    Writes L (r, ·), U (s, ·), pivots and heights (·,).
    """
    r, s = ranks
    L[:] = 0.0
    U[:] = 0.0
    for k in range(min(r, s)):
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
        pivots[k], heights[k] = pivot, height
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
                    unsure = max(noise[i, b] - powers[i, b], noise[a, j] - powers[a, j], doubt)
                    noise[i, j] = max(noise[i, j], e + unsure)
                    _take(C, powers, i, j, x, e)
                    _silence(C, powers, noise, i, j)
        for i in range(r):
            C[i, b] = 0.0
        for j in range(s):
            C[a, j] = 0.0
    return min(r, s)


@njit()
def _take(C: Floats, powers: Ints, i: int, j: int, x: float, e: int) -> None:
    """C_ij −= x 2^e."""
    if C[i, j] == 0.0:
        y, top = -x, e
    else:
        top = max(powers[i, j], e)
        y = shifted(C[i, j], powers[i, j] - top) - shifted(x, e - top)
    share, extra = math.frexp(y)
    C[i, j] = share
    powers[i, j] = top + extra if share != 0.0 else NONE
