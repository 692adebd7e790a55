"""A basis out of given vectors, the heaviest first, and all of them in terms of it.

Column-pivoted Gram–Schmidt: the next member is the vector with the largest weight × distance from
the span of those before. Members are kept as they were given, not as combinations, so that a basis
made again and again from its own members does not drift.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.compiled import INNER, njit

# A vector nearer to a span than this share of its length lies in it: what is left is the rounding
# of the projection. Coefficients and sums below this share of their largest part are zero likewise.
ROUNDING = 2.0**-46


class Basis(NamedTuple):
    """Vectors (p, d), weight (p,): logarithms to base 2, −inf for what takes no part; and what
    `span` writes: members (m,), m = min(p, d): the numbers of the chosen vectors, and
    parts (m, p): vectors_k = Σ_j parts_jk vectors_members_j.

    The others are room: rest (p, d), size, left (p,), R (m, p), live (p,), by (p,).
    """

    vectors: Floats
    weight: Floats
    members: Ints
    parts: Floats
    rest: Floats
    size: Floats
    left: Floats
    R: Floats
    live: Bools
    by: Ints

    @classmethod
    def of(cls, p: int, d: int) -> Basis:
        """The memory for p vectors of length d."""
        m = min(p, d)
        return cls(
            np.empty((p, d)),
            np.empty(p),
            np.empty(m, np.int64),
            np.empty((m, p)),
            np.empty((p, d)),
            np.empty(p),
            np.empty(p),
            np.empty((m, p)),
            np.empty(p, np.bool_),
            np.empty(p, np.int64),
        )


@njit(**INNER)
def span(basis: Basis) -> int:
    """The rank; writes the members and parts of the basis."""
    rest, weight, size, left = basis.rest, basis.weight, basis.size, basis.left
    R, live, parts, members = basis.R, basis.live, basis.parts, basis.members
    p, d = rest.shape
    most = len(members)
    for k in range(p):
        s = 0.0
        for r in range(d):
            x = basis.vectors[k, r]
            rest[k, r] = x
            s += x * x
        size[k] = left[k] = math.sqrt(s)
        live[k] = weight[k] > -np.inf and s > 0.0
        for j in range(most):
            R[j, k] = parts[j, k] = 0.0
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
            # Σ_j R_members_j parts_jk = R_k, from the last row up.
            for j in range(rank - 1, -1, -1):
                s, top = R[j, k], size[k]
                for l in range(j + 1, rank):
                    x = R[j, members[l]] * parts[l, k]
                    s -= x
                    top = max(top, abs(x))
                parts[j, k] = s / R[j, members[j]] if abs(s) > ROUNDING * top else 0.0
    for j in range(rank):
        for l in range(most):
            parts[l, members[j]] = 1.0 if l == j else 0.0
    return rank
