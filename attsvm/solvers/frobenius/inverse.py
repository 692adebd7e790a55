"""The Gram of unit rows, and the inverse of its active part as rows enter and leave.

K holds G_PP⁻¹ for the first k entries of P. It is changed by rank-one updates, and set afresh from
G when their rounding has added up.
"""

from __future__ import annotations

import numpy as np

from attsvm.ground.arrays import Bools, Floats, Ints
from attsvm.ground.compiled import njit

# Pivots are kept above this when a dependent set is inverted all the same.
TINY = 1e-24


@njit()
def lower(u: Floats, M: Floats, P: Ints, k: int, f: Floats) -> None:
    """u −= Σ_{a<k} f_a M[P_a], four rows in one pass: rows are short, and entering a loop costs
    as much as running it."""
    n = len(u)
    a = 0
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


@njit()
def apply(K: Floats, k: int, f: Floats, r: Floats) -> None:
    """r += K f on the first k entries, K symmetric; four rows in one pass."""
    a = 0
    while a + 4 <= k:
        p, q, s, t = K[a], K[a + 1], K[a + 2], K[a + 3]
        w, x, y, z = f[a], f[a + 1], f[a + 2], f[a + 3]
        for i in range(k):
            r[i] += (w * p[i] + x * q[i]) + (y * s[i] + z * t[i])
        a += 4
    for c in range(a, k):
        p, w = K[c], f[c]
        for i in range(k):
            r[i] += w * p[i]


@njit()
def append(K: Floats, k: int, r: Floats, q: float) -> None:
    """G_PP⁻¹ grown by one row: [[K + r rᵀ/q, −r/q], [−rᵀ/q, 1/q]]; four rows in one pass."""
    a = 0
    while a + 4 <= k:
        p, o, s, t = K[a], K[a + 1], K[a + 2], K[a + 3]
        w, x, y, z = r[a] / q, r[a + 1] / q, r[a + 2] / q, r[a + 3] / q
        for c in range(k):
            p[c] += w * r[c]
            o[c] += x * r[c]
            s[c] += y * r[c]
            t[c] += z * r[c]
        a += 4
    for e in range(a, k):
        f, p = r[e] / q, K[e]
        for c in range(k):
            p[c] += f * r[c]
    for c in range(k):
        K[c, k] = -r[c] / q
        K[k, c] = K[c, k]
    K[k, k] = 1.0 / q


@njit()
def remove(K: Floats, k: int, a: int, spare: Floats) -> None:
    """G_PP⁻¹ without row a (the last row takes its place): K − K_a K_aᵀ / K_aa."""
    pivot = K[a, a]
    for c in range(k):
        spare[c] = K[a, c]
    for i in range(k):
        f = spare[i] / pivot
        for c in range(k):
            K[i, c] -= f * spare[c]
    last = k - 1
    if a != last:
        for c in range(k):
            K[a, c] = K[last, c]
        for c in range(k):
            K[c, a] = K[c, last]
        K[a, a] = K[last, last]


@njit()
def refine(
    G: Floats, b: Floats, P: Ints, k: int, K: Floats, value: Floats, spare: Floats, times: int
) -> None:
    """`value` (k,) moved towards G_PP⁻¹ b_P by refinements with the approximate inverse K."""
    for _ in range(times):
        for a in range(k):
            row = G[P[a]]
            s = b[P[a]]
            for c in range(k):
                s -= row[P[c]] * value[c]
            spare[a] = s
        apply(K, k, spare, value)


@njit()
def rebuild(G: Floats, P: Ints, k: int, K: Floats) -> None:
    """G_PP⁻¹ from nothing, by Gauss–Jordan with the symmetric pivots of a positive matrix."""
    for a in range(k):
        for c in range(k):
            K[a, c] = G[P[a], P[c]]
    for p in range(k):
        pivot = max(K[p, p], TINY)
        K[p, p] = 1.0
        for c in range(k):
            K[p, c] /= pivot
        for a in range(k):
            if a != p:
                f = K[a, p]
                K[a, p] = 0.0
                for c in range(k):
                    K[a, c] -= f * K[p, c]


@njit()
def freshen(
    G: Floats, b: Floats, free: Bools, P: Ints, k: int, K: Floats, lam: Floats, w: Floats,
    value: Floats, spare: Floats,
) -> bool:  # fmt: skip
    """Whether one or two refinements with the K at hand gave λ_P = G_PP⁻¹ b_P to rounding, λ ≥ 0.

    Then λ and the violations w = b − Gλ are set; otherwise they stay as they were.
    """
    for a in range(k):
        value[a] = lam[P[a]]
    top = 0.0
    for a in range(k):
        top = max(top, abs(b[P[a]]))
    left = np.inf
    rounds = 0
    while left > 1e-13 * top:
        if rounds == 2:
            return False
        refine(G, b, P, k, K, value, spare, 1)
        rounds += 1
        # `spare` holds the residual before the refinement.
        left = 0.0
        for a in range(k):
            left = max(left, abs(spare[a]))
    for a in range(k):
        if value[a] < 0.0 and not free[P[a]]:
            return False
    place(G, b, P, k, lam, w, value)
    return True


@njit()
def place(G: Floats, b: Floats, P: Ints, k: int, lam: Floats, w: Floats, value: Floats) -> None:
    """λ_P set to `value`, and w to the violations b − G_P λ_P."""
    for i in range(len(w)):
        w[i] = b[i]
    for a in range(k):
        lam[P[a]] = value[a]
    lower(w, G, P, k, value)


@njit()
def settle(
    G: Floats, b: Floats, free: Bools, P: Ints, k: int, K: Floats, inside: Bools, lam: Floats,
    w: Floats, value: Floats, spare: Floats,
) -> int:  # fmt: skip
    """The size of P after λ_P = G_PP⁻¹ b_P is set afresh, rows with negative λ dropped; w too."""
    m = G.shape[0]
    while True:
        rebuild(G, P, k, K)
        for a in range(k):
            value[a] = 0.0
        refine(G, b, P, k, K, value, spare, 3)
        worst = 0.0
        drop = -1
        for a in range(k):
            if not free[P[a]] and value[a] < worst:
                worst = value[a]
                drop = a
        if drop < 0:
            break
        inside[P[drop]] = False
        k -= 1
        P[drop] = P[k]
    for i in range(m):
        lam[i] = 0.0
    place(G, b, P, k, lam, w, value)
    return k


@njit()
def gram(D: Floats, z: Floats, query: Ints, scale: Floats, U: Floats, G: Floats) -> None:
    """G (m, m) filled with the Gram of the unit rows: (Δ_j·Δ_k)(z_j·z_k) scale_j scale_k.

    U (m, d) is room for the scaled differences.
    """
    m, d = D.shape
    for k in range(m):
        for t in range(d):
            U[k, t] = D[k, t] * scale[k]
    np.dot(U, U.T, G)
    zz = np.dot(z, z.T)
    line = np.empty(m)
    last = -1
    for j in range(m):
        if query[j] != last:
            last = query[j]
            for k in range(m):
                line[k] = zz[last, query[k]]
        row = G[j]
        for k in range(m):
            row[k] *= line[k]
