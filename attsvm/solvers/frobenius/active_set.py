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

Rows that are nearly dependent are hard on a Gram, which squares their angles: the answer of few
rows is polished on the rows themselves, and a proof that looks too weak is tried again by least
squares.

Theory: [goldfarb1983dual].
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
import scipy

from attsvm._utils.arrays import Bool, Bools, Floats, Int, Ints
from attsvm._utils.compiled import DOT_ENTRY, INNER, njit
from attsvm.certificate.bounds import combine
from attsvm.norms import Norm
from attsvm.problem.problem import Problem, StackArrays, StackRows
from attsvm.solvers.frobenius.newton import by_newton_steps
from attsvm.solvers.solver import Answer, RowArrays

# Row j counts as lying in the span of P when its squared distance to it is below this.
DEPENDENT = 1e-12
# Below this the distance is computed with more care.
NEAR = 1e-5
# A violation below this share of ‖W‖ is left: it is of the size of rounding.
LEFT = 2e-15

# Pivots are kept above this when a dependent set is inverted all the same.
TINY = 1e-24
# The shortfall, as a share of ‖Δ‖‖z‖‖W‖, that a polish on the support may still improve.
_POLISH = 1e-12
# The share of a margin that may be missed before the polish.
_MISSED = 1e-9

DONE, NO_SOLUTION, STOPPED = 0, 1, 2
_GOING = -1


# Rows that many problems share: the Gram of their unit rows (R, R), one over their norms (R,), and
# the rows of each problem (B, m). Without any problem in it, each has rows of its own.
Shared = tuple[Floats, Floats, Ints]
# Status (B,), λ (B, m), W (B, d, dq), and (B, 3) of each: the largest right-hand side of a unit
# row, which scales λ; the worst shortfall; and the largest ‖Δ_k‖‖z_k‖/b_k.
StackFound = tuple[Ints, Floats, Floats, Floats]
# Memory: (2m + 6, m) of floats, (m + 2g, d), (g, g), (2, m) of indices, (m,) of truth values.
ActiveSetWorkspace = tuple[Floats, Floats, Floats, Ints, Bools]


def workspace(m: int, d: int, g: int) -> ActiveSetWorkspace:
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
    stack: StackArrays,
    free: Bools,
    shared: Shared,
    rank: int,
    work: ActiveSetWorkspace,
    found: StackFound,
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
    floats, wide, zz, ints, shut = work  # shut: rows of P, and rows met that depend on them
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
                best = LEFT * size
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


# Problems with rows of their own share none.
_NONE = (np.empty((0, 0)), np.empty(0), np.empty((0, 0), np.int64))


def gram(D: Floats, z: Floats, query: Ints, norms: Floats) -> Floats:
    """The Gram (m, m) of unit rows: D (m, d), z (g, dq), query (m,), norms (m,) ‖Δ_k‖‖z_k‖ > 0.

    The transposes are copied first: the product of a matrix with a view of itself is taken by
    another routine, whose digits differ from those of a plain product.
    """
    U = D * (1.0 / norms)[:, None]
    G: Floats = np.dot(U, U.T.copy())
    zz = np.dot(z, z.T.copy())
    for q in range(len(z)):
        G[query == q] *= zz[q, query]
    return G


def solve_stacked(rows: StackRows, free: Bools) -> StackFound:
    """What is found of a stack, norms > 0; free (m,) True on ties.

    Where no W exists λ is the proof, and W is what it combines to.
    """
    (B, m, d), (_, g, e) = rows.D.shape, rows.z.shape
    found = np.empty(B, np.int64), np.empty((B, m)), np.empty((B, d, e)), np.empty((B, 3))
    solve_stack(rows.arrays(), free, _NONE, d * e, workspace(m, d, g), found)
    return found


class SmallFound(NamedTuple):
    """What is found of one problem: status, multipliers (m,), W (d, dq), and whether W meets the
    rows so well that a polish has nothing to do."""

    status: int
    lam: Floats
    W: Floats
    met: bool


def solve_small(rows: StackRows, free: Bools) -> SmallFound:
    """What is found of a stack of one problem.

    A margin b is a small share of ‖Δ‖‖z‖‖W‖ where ‖W‖ is large, and missed by more of itself: a W
    meets the rows when it misses little of both.
    """
    status, lam, W, sizes = solve_stacked(rows, free)
    _, worst, most = sizes[0].tolist()
    met = status[0] != NO_SOLUTION and (
        worst <= 0.0 or (worst <= _POLISH * sqrt(np.vdot(W, W)) and worst * most <= _MISSED)
    )
    return SmallFound(int(status[0]), lam[0], W[0], bool(met))


# The active set works on a Gram of all its rows: quadratic memory, cubic time.
SMALL = 300
# Numbers in a dense matrix of the rows, at most.
_DENSE = 2_000_000
# The residual of a proof, for each row, that rounding explains.
_ROUNDING = 2e-16
# Rounds of a polish, each with fewer rows of the support.
_TURNS = 5
# Numbers in the dense feature matrix of a support, at most.
_MOST = 2.5e7


def answer_small(rows: RowArrays) -> Answer:
    """The answer of the active set on these rows, polished on the support when that helps."""
    found = solve_small(StackRows.alone(rows.D, rows.z, rows.query, rows.norms, rows.b), rows.free)
    lam, W = found.lam, found.W
    if found.status == NO_SOLUTION:
        proof = sharpen(rows, lam)
        other = least_distance(rows, proof)
        return proof if other is None else other
    if not found.met:
        lam, W = _polish(rows, lam, W)
    margins, ties = rows.spread(lam)
    return Answer(W, margins, ties)


def least_distance(rows: RowArrays, proof: Answer) -> Answer | None:
    """The answer that non-negative least squares on the rows themselves finds, against a proof.

    Rows that are nearly opposite look dependent in their Gram, which squares their angles. When
    the residual of the proof is more than rounding, its lower bound L sets the scale at which

        min ‖Fᵀλ‖² + (Σ bλ/L − 1)²,  λ ≥ 0

    tells a solution of norm about L (W = L Fᵀλ/(1 − Σ bλ/L)) from none. None: the proof stands, or
    the problem is too large for a dense matrix.

    Theory: least-distance programming [lawson1974nnls].
    """
    D = rows.D.shape[1] * rows.z.shape[1]
    unit = np.concatenate([proof.multipliers, proof.tie_multipliers])[rows.place] * rows.norms
    if len(unit) * D > _DENSE:
        return None
    F = rows.features()
    left, size = float(np.linalg.norm(F.T @ unit)), float(np.abs(unit).sum())
    right = rows.b / rows.norms
    worth = float(right @ unit)
    if left <= _ROUNDING * len(unit) * size or not worth > 0:
        return None
    scale = left / worth
    # Ties have multipliers of both signs: they enter twice.
    signs = np.concatenate([np.ones(len(unit)), -np.ones(int(rows.free.sum()))])
    place = np.concatenate([np.arange(len(unit)), rows.free.nonzero()[0]])
    A = np.vstack([F.T, scale * right])[:, place] * signs
    try:
        lam, _ = scipy.optimize.nnls(
            A, np.concatenate([np.zeros(D), [1.0]]), maxiter=30 * A.shape[1]
        )
    except RuntimeError:  # out of iterations
        return None
    both = np.zeros(len(unit))
    np.add.at(both, place, signs * lam)
    rest = 1.0 - scale * float(right @ both)
    if not rest > 0 or not both.any():
        return None
    both /= rest * scale
    W = (F.T @ both).reshape(rows.D.shape[1], -1)
    lam, W = _polish(rows, both / rows.norms, W)
    margins, ties = rows.spread(lam)
    return Answer(W, margins, ties)


def _polish(rows: RowArrays, lam: Floats, W: Floats) -> tuple[Floats, Floats]:
    """The least-norm solution of the support's equalities, from the rows instead of their Gram.

    The Gram squares the condition number; a QR of the rows themselves does not. A row of the
    support whose multiplier turns out negative does not belong to it: it is taken out, and the
    result is kept only if it is the better one.
    """
    support = (lam != 0).nonzero()[0]
    for turn in range(_TURNS):
        part = rows.part(support)
        F = part.features()
        # More rows than unknowns depend on each other: there is no one solution to polish.
        if not 0 < len(support) <= F.shape[1] or F.size > _MOST:
            return lam, W
        goal = part.b / part.norms
        # W = Fᵀ y with F W = goal: y from two triangular solves, refined once in W.
        Q, R = np.linalg.qr(F.T)
        if float(np.abs(np.diag(R)).min(initial=1.0)) < 1e-11:
            return lam, W
        w = Q @ np.linalg.solve(R.T, goal)
        w = w + Q @ np.linalg.solve(R.T, goal - F @ w)
        y = np.linalg.solve(R, Q.T @ w)
        wrong = ~part.free & (y < 0)
        if wrong.any():
            support = support[~wrong]
            continue
        if turn and not _norm_above(rows, w) < _norm_above(rows, W.ravel()):
            return lam, W
        better = np.zeros(len(lam))
        better[support] = y / part.norms
        return better, w.reshape(W.shape)
    return lam, W


def _norm_above(rows: RowArrays, w: Floats) -> float:
    """‖w‖ over its worst margin: what scaling it up would give; inf where that is not enough."""
    if rows.free.any() or not (rows.b > 0).all():
        return np.inf
    worst = float((rows.features() @ w * rows.norms / rows.b).min())
    return float(np.linalg.norm(w)) / worst if worst > 0 else np.inf


def sharpen(rows: RowArrays, lam: Floats) -> Answer:
    """The proof with its residual reduced; `lam` (k,) are multipliers of these rows.

    Multipliers λ ≥ 0 with Σ λ_k A_k ≈ 0 and Σ bλ > 0 are projected on the null space of their own
    rows: λ − F⁺ᵀ(Fᵀλ) with F the unit rows as vectors, a few times over. Rows whose multiplier
    turns negative are dropped.
    """
    unit = lam * rows.norms  # multipliers of unit rows
    top = float(np.abs(unit).max(initial=0.0))
    if top > 0:
        unit = unit / top
        support = (unit != 0).nonzero()[0]
        if len(support) * rows.D.shape[1] * rows.z.shape[1] <= _MOST:
            unit = _project(rows, unit, support)
    lam = unit / rows.norms
    margins, ties = rows.spread(lam)
    return Answer(None, margins, ties, True)


def _project(rows: RowArrays, unit: Floats, support: Ints) -> Floats:
    """Multipliers of unit rows, moved on to the null space of their support."""
    best, least = unit, np.inf
    for _ in range(8):
        part = rows.part(support)
        F = part.features()
        value = unit[support]
        for _ in range(3):
            value = value - np.linalg.lstsq(F.T, F.T @ value, rcond=1e-12)[0]
        wrong = ~part.free & (value < 0)
        value = np.where(wrong, 0.0, value)
        size = float(np.abs(value).sum())
        if not size > 0 or not float(part.b / part.norms @ value) > 0:
            break
        residual = float(np.linalg.norm(F.T @ value)) / size
        unit = np.zeros(len(unit))
        unit[support] = value / size
        if residual < least:
            best, least = unit, residual
        if not wrong.any():
            break
        support = (unit != 0).nonzero()[0]
    return best


def by_active_set(
    problem: Problem, norm: Norm, *, tol: float = 0.0, budget: float = np.inf
) -> Answer:
    """The answer of the dual active set on all rows."""
    if not problem.ties and problem.smallest > 0:
        # The common case needs no copy of the rows.
        found = solve_small(problem.stacked, np.zeros(problem.m, dtype=bool))
        if found.met:
            return Answer(found.W, found.lam, np.empty(0))
    return answer_small(RowArrays.of(problem))


def by_cutting_planes(
    problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf
) -> Answer:
    """The answer of the active set on a working set that grows by the most violated rows.

    For few unknowns and many rows: with D = d·dq unknowns no more than D rows are ever active.
    """
    D = problem.shape[0] * problem.shape[1]
    batch = max(2 * D, 60)
    live = problem.row_norms > 0
    unit = np.where(live, problem.row_norms, 1.0)
    # The first guess: the mean of the rows.
    W = problem.adjoint(np.where(live, 1.0 / unit, 0.0))
    working = np.empty(0, np.int64)
    lam = np.zeros(problem.m)
    answer = Answer(W, lam, np.zeros(problem.ties))
    for _ in range(500):
        violation = np.where(live, (problem.b - problem.margins(W)) / unit, -np.inf)
        size = float(np.linalg.norm(W))
        if len(working) and float(violation.max()) <= max(1e-14, 0.05 * tol) * size:
            break
        count = min(batch, problem.m)
        new = np.argpartition(-violation, count - 1)[:count]
        grown = np.union1d(working[lam[working] > 0], new)
        if len(working) and len(np.setdiff1d(grown, working)) == 0:
            break  # nothing new is violated beyond what rounding explains
        working = grown
        rows = RowArrays.of(problem, working)
        answer = answer_small(rows)
        if answer.proof or answer.W is None:
            break
        lam, W = answer.multipliers, answer.W
    return answer


# Unknowns up to which the cutting plane is the better one for many rows.
FEW = 200


def solve_frobenius(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of the method that fits the size."""
    if budget < np.inf:
        return by_newton_steps(problem, norm, tol=tol, budget=budget)
    if problem.m + problem.ties <= SMALL:
        return by_active_set(problem, norm)
    if problem.shape[0] * problem.shape[1] <= FEW and problem.ties <= SMALL:
        return by_cutting_planes(problem, norm, tol=tol)
    return by_newton_steps(problem, norm, tol=tol)
