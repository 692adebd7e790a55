"""Dual active set: the exact solver of small Frobenius problems.

    min ½‖W‖²   s.t.  ⟨A_k, W⟩ ≥ b_k,  ⟨A_l, W⟩ = b_l   (rows of unit norm, Gram G = ⟨A_j, A_k⟩)

W = Σ_P λ_k A_k is kept optimal for the rows of the active set P, λ ≥ 0 on its margins. Each step
takes the most violated row j and moves along it and away from P: λ_j rises by τ, λ_P falls by τ r
with r = G_PP⁻¹ G_Pj, until j is met (τ = violation / q, q the squared distance of row j to the
span of P) or a multiplier hits zero and its row is dropped. When j lies in the span of P (q = 0)
and no multiplier falls, (λ_j, λ_P) = (1, −r) combines the rows to zero with a positive right-hand
side: no W exists, and this vector is the proof. It needs no scaling and no first guess.

G_PP⁻¹ is updated by rank-one changes and corrected at the end by refinement against G.

Theory: [goldfarb1983dual].
"""

from __future__ import annotations

import numpy as np

from attsvm.certificate.bounds import combine
from attsvm.ground.arrays import Bools, Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.solvers.frobenius.inverse import (
    append,
    apply,
    freshen,
    gram,
    lower,
    refine,
    remove,
    settle,
)

# Row j counts as lying in the span of P when its squared distance to it is below this.
DEPENDENT = 1e-12
# Below this the distance is computed with more care.
NEAR = 1e-5
# A violation below this share of ‖W‖ is left: it is of the size of rounding.
SMALL = 2e-15

DONE, NO_SOLUTION, STOPPED = 0, 1, 2


@njit()
def dual_active_set(
    G: Floats, b: Floats, free: Bools, lam: Floats, rank: int, most: int, K: Floats
) -> tuple[int, int]:
    """Status and number of steps; `lam` (m,) is filled with the multipliers (or the proof).

    G (m, m) the Gram of unit rows, b (m,), free (m,) True on ties, `rank` a bound on the rank of
    the rows, `most` the step limit; K (m, m) is room for the inverse of the active Gram.
    Status DONE, NO_SOLUTION (lam is the proof) or STOPPED.
    """
    m = G.shape[0]
    P = np.empty(m, np.int64)
    shut = np.zeros(m, np.bool_)  # rows in P, and rows found dependent and met: not tried again
    room = np.empty((5, m))
    r, u, spare, value = room[0], room[1], room[2], room[3]
    w = room[4]  # violation b − Gλ
    for i in range(m):
        w[i] = b[i]
        lam[i] = 0.0
    k = 0
    steps = 0
    rounds = 0
    check = 50 + m // 2
    clean = False
    top = 0.0
    ties = 0
    for i in range(m):
        top = max(top, abs(b[i]))
        ties += free[i]
    while True:
        size = 0.0
        for a in range(k):
            size += lam[P[a]] * b[P[a]]
        floor = SMALL * max(np.sqrt(max(size, 0.0)), top)
        # The most violated row, ties before margins.
        j = -1
        best = floor
        if ties > 0:
            for i in range(m):
                if free[i] and not shut[i]:
                    j = i
                    break
        if j < 0:
            for i in range(m):
                if w[i] > best and not shut[i]:
                    best = w[i]
                    j = i
        if j < 0 or steps >= check:
            # Settled, or time to look: set λ_P afresh from G and go on if a row is still violated.
            if j < 0 and clean:
                return DONE, steps
            if j >= 0 or not freshen(G, b, free, P, k, K, lam, w, value, spare):
                k = settle(G, b, free, P, k, K, shut, lam, w, value, spare)
            clean = True
            check = steps + 50
            if j < 0:
                rounds += 1
                if rounds > 10:
                    return DONE, steps
            continue
        clean = False
        sign = 1.0 if w[j] >= 0.0 else -1.0
        while True:
            steps += 1
            if steps > most:
                return STOPPED, steps
            # r = G_PP⁻¹ G_Pj, and u = G_j − Σ r_a G_a: how the margins move.
            row = G[j]
            for a in range(k):
                r[a] = 0.0
                spare[a] = row[P[a]]
            apply(K, k, spare, r)
            for i in range(m):
                u[i] = row[i]
            lower(u, G, P, k, r)
            q = u[j]
            if q < NEAR and k > 0:
                # Close to the span: r and q from refinement, not from the updated inverse alone.
                refine(G, row, P, k, K, r, spare, 2)
                for i in range(m):
                    u[i] = row[i]
                lower(u, G, P, k, r)
                q = u[j]
            dependent = q <= DEPENDENT or k >= rank
            tau = np.inf if dependent else sign * w[j] / q
            drop = -1
            for a in range(k):
                # λ reaches zero before τ: λ ≥ 0, so only a positive r passes.
                if lam[P[a]] < tau * sign * r[a] and not free[P[a]]:
                    tau = lam[P[a]] / (sign * r[a])
                    drop = a
            if dependent and abs(w[j]) <= 1e-13 * max(np.sqrt(max(size, 0.0)), top):
                shut[j] = True  # met through the others, up to rounding
                break
            if dependent and drop < 0:
                for i in range(m):
                    lam[i] = 0.0
                lam[j] = sign
                for a in range(k):
                    f = -sign * r[a]
                    lam[P[a]] = f if free[P[a]] else max(f, 0.0)
                return NO_SOLUTION, steps
            for a in range(k):
                lam[P[a]] -= tau * sign * r[a]
            lam[j] += tau * sign
            for i in range(m):
                w[i] -= tau * sign * u[i]
            if drop < 0:
                append(K, k, r, q)
                P[k] = j
                shut[j] = True
                k += 1
                break
            gone = P[drop]
            lam[gone] = 0.0
            shut[gone] = False
            remove(K, k, drop, spare)
            k -= 1
            P[drop] = P[k]


@njit()
def solve_small(
    D: Floats, z: Floats, query: Ints, norms: Floats, b: Floats, free: Bools
) -> tuple[int, Floats, Floats, float]:
    """Status, multipliers (m,), W (d, dq) and the worst shortfall of rows Δ_k z_kᵀ.

    D (m, d), z (g, dq), query (m,), norms (m,) ‖Δ_k‖‖z_k‖ > 0, b (m,), free (m,). The shortfall
    is max (b_k − margin_k)/‖Δ_k‖‖z_k‖ (both signs on ties) as a share of ‖W‖.
    """
    m, d = D.shape
    lam, W = np.zeros(m), np.zeros((d, z.shape[1]))
    room = np.empty((m, d)), np.empty((m, m)), np.empty((m, m))
    status = solve_in(D, z, query, norms, b, free, room[0], room[1], room[2], lam, W)
    if status == NO_SOLUTION:
        return status, lam, W, np.inf
    V = np.dot(z, W.T)
    worst = 0.0
    for k in range(m):
        margin = 0.0
        for i in range(d):
            margin += D[k, i] * V[query[k], i]
        short = (b[k] - margin) / norms[k]
        worst = max(worst, abs(short) if free[k] else short)
    size = np.sqrt((W * W).sum())
    if size == 0.0:
        return status, lam, W, 0.0 if worst == 0.0 else np.inf
    return status, lam, W, worst / size


@njit()
def solve_in(
    D: Floats, z: Floats, query: Ints, norms: Floats, b: Floats, free: Bools, U: Floats, G: Floats,
    K: Floats, lam: Floats, W: Floats,
) -> int:  # fmt: skip
    """Status; lam (m,) is filled with the multipliers and W (d, dq) with Σ λ_k Δ_k z_kᵀ.

    U (m, d), G and K (m, m) are room, handed in so that a stack does not ask for memory once a
    problem.
    """
    m = D.shape[0]
    scale = 1.0 / norms
    gram(D, z, query, scale, U, G)
    unit = b * scale
    top = 0.0
    for k in range(m):
        top = max(top, abs(unit[k]))
        lam[k] = 0.0
    if top > 0.0:
        for k in range(m):
            unit[k] /= top
        status, _ = dual_active_set(G, unit, free, lam, W.size, 50 * m + 100, K)
    else:
        status = DONE
    for k in range(m):
        lam[k] *= scale[k] if status == NO_SOLUTION else top * scale[k]
    combine(D, z, query, lam, W)
    return status


def twin(G: Floats, b: Floats, free: Bools) -> tuple[int, Floats]:
    """Status and multipliers by the same steps in plain NumPy, G_PP solved afresh each time."""
    m = len(b)
    lam = np.zeros(m)
    P: list[int] = []
    left: set[int] = set()
    for _ in range(50 * m + 100):
        w = b - G @ lam
        size = max(np.sqrt(max(float(lam @ b), 0.0)), float(np.abs(b).max(initial=0.0)))
        waiting = [i for i in range(m) if i not in P and i not in left]
        ties = [i for i in waiting if free[i]]
        j = ties[0] if ties else max(waiting, key=lambda i: w[i], default=-1)
        if j < 0 or (not ties and w[j] <= 1e-13 * size):
            lam[P] = np.linalg.solve(G[np.ix_(P, P)], b[P])
            return DONE, lam
        sign = 1.0 if w[j] >= 0 else -1.0
        while True:
            r = np.linalg.solve(G[np.ix_(P, P)], G[P, j]) if P else np.empty(0)
            q = G[j, j] - G[j, P] @ r
            falling = [(lam[i] / (sign * x), i) for i, x in zip(P, r, strict=True)
                       if not free[i] and sign * x > 0]  # fmt: skip
            tau, drop = min(falling, default=(np.inf, -1))
            if q <= DEPENDENT and abs(w[j]) <= 1e-13 * size:
                left.add(j)
                break
            if q <= DEPENDENT and drop < 0:
                proof = np.zeros(m)
                proof[j] = sign
                proof[P] = -sign * r
                return NO_SOLUTION, proof
            full = np.inf if q <= DEPENDENT else sign * w[j] / q
            step = min(tau, full)
            lam[P] -= step * sign * r
            lam[j] += step * sign
            w = b - G @ lam
            if full <= tau:
                P.append(j)
                break
            lam[drop] = 0.0
            P.remove(drop)
    return STOPPED, lam
