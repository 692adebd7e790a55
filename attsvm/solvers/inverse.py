"""The Gram of unit rows, and the inverse of its active part as rows enter and leave.

K holds G_PP⁻¹ for the first k entries of P. It is changed by rank-one updates, and set afresh from
G when their rounding has added up.
"""

from __future__ import annotations

import numpy as np

from attsvm.compiled import njit
from attsvm.tokens import Bools, Floats, Ints

# Pivots are kept above this when a dependent set is inverted all the same.
TINY = 1e-24


@njit()
def append(K: Floats, k: int, r: Floats, q: float) -> None:
    """G_PP⁻¹ grown by one row: [[K + r rᵀ/q, −r/q], [−rᵀ/q, 1/q]]."""
    for a in range(k):
        f = r[a] / q
        for c in range(k):
            K[a, c] += f * r[c]
        K[a, k] = -f
        K[k, a] = -f
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
        for a in range(k):
            f = spare[a]
            for c in range(k):
                value[c] += f * K[a, c]


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
    """Whether two refinements with the K at hand gave λ_P = G_PP⁻¹ b_P to rounding, λ ≥ 0.

    Then λ and the violations w = b − Gλ are set; otherwise they stay as they were.
    """
    for a in range(k):
        value[a] = lam[P[a]]
    refine(G, b, P, k, K, value, spare, 2)
    # `spare` holds the residual before the last refinement.
    left = 0.0
    top = 0.0
    for a in range(k):
        left = max(left, abs(spare[a]))
        top = max(top, abs(b[P[a]]))
        if value[a] < 0.0 and not free[P[a]]:
            return False
    if left > 1e-13 * top:
        return False
    for i in range(len(w)):
        w[i] = b[i]
    for a in range(k):
        f = value[a]
        lam[P[a]] = f
        row = G[P[a]]
        for i in range(len(w)):
            w[i] -= f * row[i]
    return True


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
        w[i] = b[i]
    for a in range(k):
        f = value[a]
        lam[P[a]] = f
        row = G[P[a]]
        for i in range(m):
            w[i] -= f * row[i]
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
