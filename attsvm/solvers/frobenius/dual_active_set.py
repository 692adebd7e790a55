"""Dual active set: the exact solver of small Frobenius problems.

    min ½‖W‖²   s.t.  ⟨A_k, W⟩ ≥ b_k,  ⟨A_l, W⟩ = b_l   (rows of unit norm, Gram G = ⟨A_j, A_k⟩)

W = Σ_P λ_k A_k is kept optimal for the rows of the active set P, λ ≥ 0 on its margins. Each step
takes the most violated row j and moves along it and away from P: λ_j rises by τ, λ_P falls by τ r
with r = G_PP⁻¹ G_Pj, until j is met (τ = violation / q, q the squared distance of row j to the
span of P) or a multiplier hits zero and its row is dropped. When j lies in the span of P (q = 0)
and no multiplier falls, (λ_j, λ_P) = (1, −r) combines the rows to zero with a positive right-hand
side: no W exists, and this vector is the proof. It needs no scaling and no first guess.

G_PP⁻¹ is updated by rank-one changes and corrected at the end by refinement against G.

One kernel solves a whole stack, and every caller hands it one: a single problem is a stack of one,
and the selections of an enumeration are a stack on shared rows. The caller makes its memory: a
kernel that asks for its own takes longer to compile.

Theory: [goldfarb1983dual].
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Bool, Bools, Floats, Int, Ints
from attsvm._utils.compiled import DOT_ENTRY, njit
from attsvm.certificate.bounds import combine
from attsvm.problem.problem import StackArrays
from attsvm.solvers.frobenius.inverse import lower, rebuild, refine, resize

# Row j counts as lying in the span of P when its squared distance to it is below this.
DEPENDENT = 1e-12
# Below this the distance is computed with more care.
NEAR = 1e-5
# A violation below this share of ‖W‖ is left: it is of the size of rounding.
SMALL = 2e-15

DONE, NO_SOLUTION, STOPPED = 0, 1, 2
_GOING = -1


# Rows that many problems share: the Gram of their unit rows (R, R), one over their norms (R,), and
# the rows of each problem (B, m). Without any problem in it, each has rows of its own.
Shared = tuple[Floats, Floats, Ints]
# Status (B,), λ (B, m), W (B, d, dq), and (B, 3) of each: the largest right-hand side of a unit
# row, which scales λ; the worst shortfall; and the largest ‖Δ_k‖‖z_k‖/b_k.
Found = tuple[Ints, Floats, Floats, Floats]
# Memory: (2m + 6, m) of floats, (m + 2g, d), (g, g), (2, m) of indices, (m,) of truth values.
Workspace = tuple[Floats, Floats, Floats, Ints, Bools]


def room_of(m: int, d: int, g: int) -> Workspace:
    """Memory for problems of m rows of width d, on g queries."""
    return (
        np.empty((2 * m + 6, m)),
        np.empty((m + 2 * g, d)),
        np.empty((g, g)),
        np.empty((2, m), np.int64),
        np.empty(m, np.bool_),
    )


@njit(**DOT_ENTRY, seconds=6)
def solve_stack(
    stack: StackArrays, free: Bools, shared: Shared, rank: int, room: Workspace, found: Found
) -> None:
    """Solves B problems of m rows each; `found` is filled with statuses and multipliers or proofs.

    free (m,) True on ties; `rank` a bound on the rank of the rows. Problems on shared rows leave
    the stack empty but for b, and get λ of unit rows with a largest right-hand side of 1. Others
    get λ as their rows were given, W = Σ λ_k Δ_k z_kᵀ, and the worst shortfall
    max (b_k − margin_k)/‖Δ_k‖‖z_k‖ (both signs on ties).

    All in one function: a part of its own would be compiled by itself and again within the whole.
    """
    stack_D, stack_z, stack_query, stack_norms, stack_b = stack
    shared_G, shared_scale, index = shared
    floats, wide, zz, ints, shut = room  # shut: rows of P, and rows met that depend on them
    statuses, multipliers, matrices, sizes = found
    B, m = stack_b.shape
    g = zz.shape[0]
    G, K, lines = floats[:m], floats[m : 2 * m], floats[2 * m :]
    r, u, spare, value, w, unit = lines[0], lines[1], lines[2], lines[3], lines[4], lines[5]
    U, V, sums = wide[:m], wide[m : m + g], wide[m + g :]
    P, every = ints[0], ints[1]
    alone = len(index) == 0
    ties = np.int64(0)
    for i in range(m):
        every[i] = i
        if free[i]:
            ties += 1
    for p in range(B):
        b, lam = stack_b[p], multipliers[p]
        # The Gram G of the unit rows, and the inverse of their norms in w.
        if alone:
            D, z, query, norms = stack_D[p], stack_z[p], stack_query[p], stack_norms[p]
            for t in range(m):
                w[t] = 1.0 / norms[t]
                for i in range(D.shape[1]):
                    U[t, i] = D[t, i] * w[t]
            np.dot(U, U.T, G)
            np.dot(z, z.T, zz)
            last = np.int64(-1)
            for t in range(m):
                if query[t] != last:
                    last = query[t]
                    for i in range(m):
                        value[i] = zz[last, query[i]]
                for i in range(m):
                    G[t, i] *= value[i]
        else:
            rows = index[p]
            for t in range(m):
                row = shared_G[rows[t]]
                for i in range(m):
                    G[t, i] = row[rows[i]]
                w[t] = shared_scale[rows[t]]
        top = 0.0
        for i in range(m):
            unit[i] = b[i] * w[i]
            top = max(top, abs(unit[i]))
        for i in range(m):
            if top > 0.0:
                unit[i] /= top
            w[i] = unit[i]  # violation b − Gλ
            lam[i] = 0.0
            shut[i] = False
        k = np.int64(0)
        steps = np.int64(0)
        rounds = np.int64(0)
        check = 50 + m // 2
        clean = False
        status = np.int64(_GOING if top > 0.0 else DONE)
        while status == _GOING:
            square = 0.0
            for a in range(k):
                square += lam[P[a]] * unit[P[a]]
            size = np.sqrt(square) if square > 1.0 else 1.0
            # The most violated row, ties before margins.
            j: Int = np.int64(-1)
            if ties > 0:
                for i in range(m):
                    if free[i] and not shut[i]:
                        j = i
                        break
            if j < 0:
                best = SMALL * size
                for i in range(m):
                    if w[i] > best and not shut[i]:
                        best = w[i]
                        j = i
            if j < 0 and clean:
                status = np.int64(DONE)
            elif j < 0 or steps >= check:
                # Settled, or time to look: λ_P = G_PP⁻¹ b_P and w are set afresh from G, to go on
                # if a row is still violated. One or two refinements with the K at hand do, unless
                # it is too far off or a multiplier turns negative: then, and every so often, K is
                # rebuilt, and rows with negative λ are dropped.
                rebuilt: Bool = j >= 0
                while True:
                    largest = 0.0
                    for a in range(k):
                        value[a] = 0.0 if rebuilt else lam[P[a]]
                        largest = max(largest, abs(unit[P[a]]))
                    if rebuilt:
                        rebuild(G, P, k, K)
                    good: Bool = False
                    for turn in range(3):
                        refine(G, unit, P, k, K, every, value, spare)
                        # `spare` holds the residual before the refinement.
                        left = 0.0
                        for a in range(k):
                            left = max(left, abs(spare[a]))
                        good = rebuilt or not left > 1e-13 * largest
                        if not rebuilt and (good or turn == 1):
                            break
                    worst = 0.0
                    drop = np.int64(-1)
                    for a in range(k):
                        if value[a] < worst and not free[P[a]]:
                            worst = value[a]
                            drop = np.int64(a)
                    if good and drop < 0:
                        break
                    if rebuilt:
                        shut[P[drop]] = False
                        k -= 1
                        P[drop] = P[k]
                    rebuilt = True
                for i in range(m):
                    w[i] = unit[i]
                    if rebuilt:
                        lam[i] = 0.0
                for a in range(k):
                    lam[P[a]] = value[a]
                lower(w, m, G, P, k, value)
                clean = True
                check = steps + 50
                if j < 0:
                    rounds += 1
                    if rounds > 10:
                        status = np.int64(DONE)
            else:
                clean = False
                row = G[j]
                sign = 1.0 if w[j] >= 0.0 else -1.0
                while True:
                    steps += 1
                    if steps > 50 * m + 100:
                        status = np.int64(STOPPED)
                        break
                    # r = G_PP⁻¹ G_Pj and u = G_j − Σ r_a G_a: how λ_P and the margins move.
                    for a in range(k):
                        r[a] = 0.0
                        spare[a] = -row[P[a]]
                    lower(r, k, K, every, k, spare)
                    for turn in range(2):
                        for i in range(m):
                            u[i] = row[i]
                        lower(u, m, G, P, k, r)
                        if turn == 1 or k == 0 or not u[j] < NEAR:
                            break
                        # Close to the span: r from refinement, not from the updated K alone.
                        for _ in range(2):
                            refine(G, row, P, k, K, every, r, spare)
                    q = u[j]
                    dependent = q <= DEPENDENT or k >= rank
                    tau = np.inf if dependent else sign * w[j] / q
                    drop = np.int64(-1)
                    for a in range(k):
                        # λ reaches zero before τ: λ ≥ 0, so only a positive r passes.
                        if lam[P[a]] < tau * sign * r[a] and not free[P[a]]:
                            tau = lam[P[a]] / (sign * r[a])
                            drop = np.int64(a)
                    if dependent and abs(w[j]) <= 1e-13 * size:
                        shut[j] = True  # met through the others, up to rounding
                        break
                    if dependent and drop < 0:
                        for i in range(m):
                            lam[i] = 0.0
                        lam[j] = sign
                        for a in range(k):
                            f = -sign * r[a]
                            lam[P[a]] = f if free[P[a]] or f > 0.0 else 0.0
                        status = np.int64(NO_SOLUTION)
                        break
                    for a in range(k):
                        lam[P[a]] -= tau * sign * r[a]
                    lam[j] += tau * sign
                    for i in range(m):
                        w[i] -= tau * sign * u[i]
                    if drop >= 0:
                        for a in range(k):
                            spare[a] = K[drop, a]
                        q = spare[drop]
                    resize(K, k, r if drop < 0 else spare, q, drop)
                    if drop < 0:
                        P[k] = j
                        shut[j] = True
                        k += 1
                        break
                    gone = P[drop]
                    lam[gone] = 0.0
                    shut[gone] = False
                    k -= 1
                    P[drop] = P[k]
        statuses[p] = status
        sizes[p, 0] = top
        if alone:
            for i in range(m):
                lam[i] *= (1.0 if status == NO_SOLUTION else top) * (1.0 / norms[i])
            combine(D, z, query, lam, sums, matrices[p])
            np.dot(z, matrices[p].T, V)
            worst = 0.0
            most = 0.0
            for i in range(m):
                if b[i] > 0.0:
                    most = max(most, norms[i] / b[i])
                margin = 0.0
                for c in range(D.shape[1]):
                    margin += D[i, c] * V[query[i], c]
                short = (b[i] - margin) / norms[i]
                worst = max(worst, abs(short) if free[i] else short)
            sizes[p, 1] = worst
            sizes[p, 2] = most
