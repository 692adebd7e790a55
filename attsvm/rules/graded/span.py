"""A basis out of given vectors, the heaviest first, and all of them in terms of it.

Column-pivoted Gram–Schmidt: the next member is the vector with the largest weight × distance from
the span of those before. Members are kept as they were given, not as combinations, so that a basis
made again and again from its own members does not drift.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm.ground.arrays import Floats, Ints
from attsvm.ground.compiled import njit

# A vector nearer to a span than this share of its length lies in it: what is left is the rounding
# of the projection. Coefficients and sums below this share of their largest part are zero likewise.
ROUNDING = 2.0**-46


@njit()
def span(vectors: Floats, weight: Floats, members: Ints, parts: Floats) -> int:
    """The rank r; vectors (p, d), weight (p,): logarithms to base 2, −inf for what takes no part.

    Writes members (min(p, d),): the numbers of the r chosen vectors, and parts (min(p, d), p):
    vectors_k = Σ_j parts_jk vectors_members_j.
    """
    p, d = vectors.shape
    most = min(p, d)
    rest, size, left = vectors.copy(), np.empty(p), np.empty(p)
    R = np.zeros((most, p))
    parts[:] = 0.0
    live = np.empty(p, np.bool_)
    for k in range(p):
        s = 0.0
        for r in range(d):
            s += rest[k, r] * rest[k, r]
        size[k] = left[k] = math.sqrt(s)
        live[k] = weight[k] > -np.inf and s > 0.0
    rank = 0
    while rank < most:
        best, far = -1, -np.inf
        for k in range(p):
            if live[k]:
                here = weight[k] + math.log2(left[k])
                if here > far:
                    best, far = k, here
        if best < 0:
            break
        members[rank] = best
        live[best] = False
        R[rank, best] = left[best]
        for r in range(d):
            rest[best, r] /= left[best]
        for k in range(p):
            if live[k]:
                s = 0.0
                for r in range(d):
                    s += rest[best, r] * rest[k, r]
                R[rank, k] = s
                square = 0.0
                for r in range(d):
                    rest[k, r] -= s * rest[best, r]
                    square += rest[k, r] * rest[k, r]
                left[k] = math.sqrt(square)
                live[k] = left[k] > ROUNDING * size[k]
        rank += 1
    for k in range(p):
        if weight[k] > -np.inf:
            _solve(R, members, rank, size[k], parts, k)
    for j in range(rank):
        parts[:, members[j]] = 0.0
        parts[j, members[j]] = 1.0
    return rank


@njit()
def _solve(R: Floats, members: Ints, rank: int, size: float, parts: Floats, k: int) -> None:
    """Writes parts_k with Σ_j R_members_j parts_jk = R_k, from the last row up."""
    for j in range(rank - 1, -1, -1):
        s, most = R[j, k], size
        for l in range(j + 1, rank):
            x = R[j, members[l]] * parts[l, k]
            s -= x
            most = max(most, abs(x))
        parts[j, k] = s / R[j, members[j]] if abs(s) > ROUNDING * most else 0.0
