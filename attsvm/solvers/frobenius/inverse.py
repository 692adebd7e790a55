"""The inverse of the active part of a Gram as rows enter and leave.

K holds G_PP⁻¹ for the first k entries of P. It is changed by rank-one updates, and set afresh from
G when their rounding has added up.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats, Int, Ints
from attsvm._utils.compiled import INNER, njit

# Pivots are kept above this when a dependent set is inverted all the same.
TINY = 1e-24


@njit(**INNER)
def lower(u: Floats, n: Int, M: Floats, P: Ints, k: Int, f: Floats) -> None:
    """u −= Σ_{a<k} f_a M[P_a] on the first n entries, four rows in one pass: rows are short, and
    entering a loop costs as much as running it."""
    a = np.int64(0)
    while a + 4 <= k:
        p, q, s, t = M[P[a]], M[P[a + 1]], M[P[a + 2]], M[P[a + 3]]
        w, x, y, z = f[a], f[a + 1], f[a + 2], f[a + 3]
        for i in range(n):
            u[i] -= (w * p[i] + x * q[i]) + (y * s[i] + z * t[i])
        a += 4
    for c in range(a, k):
        p, w = M[P[c]], f[c]
        for i in range(n):
            u[i] -= w * p[i]


@njit(**INNER)
def resize(K: Floats, k: Int, r: Floats, q: float, a: Int) -> None:
    """K changed to the inverse with one row more, or with one row less.

    With a < 0 a row enters as the last: [[K + r rᵀ/q, −r/q], [−rᵀ/q, 1/q]], r = G_PP⁻¹ G_Pj. Else
    row a leaves, K − r rᵀ/q with r = K_a and q = K_aa, and the last row takes its place.
    Four rows in one pass.
    """
    if a >= 0:
        q = -q
    c = np.int64(0)
    while c + 4 <= k:
        p, o, s, t = K[c], K[c + 1], K[c + 2], K[c + 3]
        w, x, y, z = r[c] / q, r[c + 1] / q, r[c + 2] / q, r[c + 3] / q
        for i in range(k):
            p[i] += w * r[i]
            o[i] += x * r[i]
            s[i] += y * r[i]
            t[i] += z * r[i]
        c += 4
    for e in range(c, k):
        f, p = r[e] / q, K[e]
        for i in range(k):
            p[i] += f * r[i]
    if a < 0:
        for i in range(k):
            K[i, k] = -r[i] / q
            K[k, i] = K[i, k]
        K[k, k] = 1.0 / q
    elif a < k - 1:
        for i in range(k):
            K[a, i] = K[k - 1, i]
        for i in range(k):
            K[i, a] = K[i, k - 1]
        K[a, a] = K[k - 1, k - 1]


@njit(**INNER)
def refine(
    G: Floats, b: Floats, P: Ints, k: Int, K: Floats, every: Ints, value: Floats, spare: Floats
) -> None:
    """`value` (k,) moved towards G_PP⁻¹ b_P by one refinement with the approximate inverse K.

    `spare` (k,) is left with what the old value was off by, G_PP value − b_P; `every` counts
    0, 1, 2, …
    """
    for a in range(k):
        row = G[P[a]]
        s = b[P[a]]
        for c in range(k):
            s -= row[P[c]] * value[c]
        spare[a] = -s
    lower(value, k, K, every, k, spare)


@njit(**INNER)
def rebuild(G: Floats, P: Ints, k: Int, K: Floats) -> None:
    """G_PP⁻¹ from nothing, by Gauss–Jordan with the symmetric pivots of a positive matrix."""
    for a in range(k):
        for c in range(k):
            K[a, c] = G[P[a], P[c]]
    for p in range(k):
        pivot = K[p, p] if K[p, p] > TINY else TINY
        K[p, p] = 1.0
        for c in range(k):
            K[p, c] /= pivot
        for a in range(k):
            if a != p:
                f = K[a, p]
                K[a, p] = 0.0
                for c in range(k):
                    K[a, c] -= f * K[p, c]
