"""U Vᵀ of a sum of graded terms, over every singular value that the sum really has.

    Σ_k x_k a_k b_kᵀ  =  X C Yᵀ  =  (X L) D (Y U)ᵀ  =  (X L) (D Rᵀ) Qᵀ,      Y U = Q R

with bases X and Y out of the vectors themselves (`span`), C = L D Uᵀ (`elimination`) and D as far
apart as the terms are. One-sided Jacobi rotations make the columns of (X L) D Rᵀ orthogonal; each
column carries its own power of two, and the angle between a large and a small one is found from
their shares, so singular vectors come out to high relative accuracy however small their value is.
The error is that of X L and Y U: rounding times their condition.

Theory: the singular values of X D Yᵀ with well-conditioned X and Y [demmel1999svd].
"""

from __future__ import annotations

import math

import numba
import numpy as np

from attsvm.ground.arrays import Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.rules.graded.elimination import eliminate, gather, spread
from attsvm.rules.graded.span import span
from attsvm.rules.graded.wide import NONE, level, shifted

# Columns nearer to a right angle than this are orthogonal, and the most sweeps until they are.
SQUARE, SWEEPS = 2.0**-52, 60


@njit()
def _weights(at: Ints, share: Floats, power: Ints, out: Floats) -> None:
    """Writes log2 of the largest |x_k| with at_k = i, −inf without one: out (p,)."""
    out[:] = -np.inf
    for k in range(len(at)):
        if share[k] != 0.0:
            out[at[k]] = max(out[at[k]], power[k] + math.log2(abs(share[k])))


@njit()
def _combined(vectors: Floats, members: Ints, rank: int, L: Floats, count: int) -> Floats:
    """Σ_j L_jk vectors_members_j for k < count: (count, d)."""
    d = vectors.shape[1]
    out = np.zeros((count, d))
    for k in range(count):
        for j in range(rank):
            if L[j, k] != 0.0:
                for r in range(d):
                    out[k, r] += L[j, k] * vectors[members[j], r]
    return out


@njit()
def _orthonormal(Y: Floats, R: Floats) -> None:
    """Y (k, d) = R Q: makes the rows of Y orthonormal, twice over; writes R (k, k), lower."""
    k, d = Y.shape
    R[:] = 0.0
    for i in range(k):
        for _ in range(2):
            for j in range(i):
                s = 0.0
                for r in range(d):
                    s += Y[j, r] * Y[i, r]
                R[i, j] += s
                for r in range(d):
                    Y[i, r] -= s * Y[j, r]
        s = 0.0
        for r in range(d):
            s += Y[i, r] * Y[i, r]
        s = math.sqrt(s)
        R[i, i] = s
        for r in range(d):
            Y[i, r] /= s


@njit()
def _rotate(columns: Floats, heights: Ints, V: Floats) -> None:
    """Makes the columns 2^heights_j columns_j (k, d) orthogonal by rotations, summed up in V.

    heights fall, but for a few powers of two.
    """
    k, d = columns.shape
    for _ in range(SWEEPS):
        turned = False
        for i in range(k - 1):
            for j in range(i + 1, k):
                a = b = g = 0.0
                for r in range(d):
                    a += columns[i, r] * columns[i, r]
                    b += columns[j, r] * columns[j, r]
                    g += columns[i, r] * columns[j, r]
                if abs(g) <= SQUARE * math.sqrt(a * b):
                    continue
                turned = True
                ratio = shifted(1.0, heights[j] - heights[i])
                apart = a - ratio * ratio * b
                root = math.sqrt(apart * apart + 4.0 * ratio * ratio * g * g)
                # The tangent is steep · ratio: it underflows where what it multiplies is as large.
                steep = 2.0 * g / (apart + root if apart >= 0.0 else apart - root)
                t = steep * ratio
                cosine = 1.0 / math.sqrt(1.0 + t * t)
                for r in range(d):
                    x, y = columns[i, r], columns[j, r]
                    columns[i, r] = cosine * (x + t * ratio * y)
                    columns[j, r] = cosine * (y - steep * x)
                for r in range(k):
                    x, y = V[i, r], V[j, r]
                    V[i, r] = cosine * (x + t * y)
                    V[j, r] = cosine * (y - t * x)
        if not turned:
            break


@njit()
def _polar(X: Floats, pivots: Floats, heights: Ints, Y: Floats, out: Floats) -> None:
    """Writes U Vᵀ of Σ_k pivots_k 2^heights_k X_k Y_kᵀ to out (d, c); X (k, d), Y (k, c)."""
    k, d = X.shape
    R = np.empty((k, k))
    _orthonormal(Y, R)
    columns = np.zeros((k, d))
    for j in range(k):
        for i in range(j, k):
            f = shifted(R[i, j] * pivots[i], heights[i] - heights[j])
            if f != 0.0:
                for r in range(d):
                    columns[j, r] += f * X[i, r]
    V = np.zeros((k, k))
    for j in range(k):
        V[j, j] = 1.0
    _rotate(columns, heights, V)
    for j in range(k):
        s = 0.0
        for r in range(d):
            s += columns[j, r] * columns[j, r]
        s = math.sqrt(s)
        for c in range(Y.shape[1]):
            v = 0.0
            for i in range(k):
                v += V[j, i] * Y[i, c]
            v /= s
            for r in range(d):
                out[r, c] += columns[j, r] * v


@njit(parallel=True)
def resolve(
    left: Floats, right: Floats, at: Ints, into: Ints, share: Floats, power: Ints
) -> tuple[Floats, Floats, Floats, Floats, Ints]:
    """U Vᵀ (B, d, c) of G = Σ_k x_k left_at_k right_into_kᵀ, and G in two bases out of its vectors.

    left (B, p, d) and right (B, q, c): vectors; at, into (K,): which of them a term has; share,
    power (B, K): the wide x_k. The bases are (B, d, d) and (B, c, c), one member a row and zeros
    after the last, the coefficients C share and power (B, d, c): G = Xᵀ C Y.
    """
    B, p, d = left.shape
    q, c = right.shape[1:]
    out = np.zeros((B, d, c))
    X, Y = np.zeros((B, d, d)), np.zeros((B, c, c))
    C, C_powers = np.zeros((B, d, c)), np.zeros((B, d, c), np.int64)
    for b in numba.prange(B):
        A, Z, heights = left[b].copy(), right[b].copy(), power[b].copy()
        level(A, at, heights)
        level(Z, into, heights)
        weight, other = np.empty(p), np.empty(q)
        _weights(at, share[b], heights, weight)
        _weights(into, share[b], heights, other)
        members, partners = np.empty(min(p, d), np.int64), np.empty(min(q, c), np.int64)
        parts, pieces = np.empty((min(p, d), p)), np.empty((min(q, c), q))
        r = span(A, weight, members, parts)
        s = span(Z, other, partners, pieces)
        columns = np.empty((q, max(r, 1)))
        powers, noise = np.empty((q, max(r, 1)), np.int64), np.empty((q, max(r, 1)), np.int64)
        gather(parts, r, at, into, share[b], heights, columns, powers, noise)
        core, core_powers = np.zeros((r, s)), np.full((r, s), NONE)
        core_noise = np.full((r, s), NONE)
        spread(columns, powers, noise, pieces, (r, s), core, core_powers, core_noise)
        for j in range(r):
            X[b, j] = A[members[j]]
        for j in range(s):
            Y[b, j] = Z[partners[j]]
        for i in range(r):
            for j in range(s):
                C[b, i, j] = core[i, j]
                C_powers[b, i, j] = core_powers[i, j] if core[i, j] != 0.0 else 0
        L, U = np.empty((r, min(r, s))), np.empty((s, min(r, s)))
        pivots, steps = np.empty(min(r, s)), np.empty(min(r, s), np.int64)
        k = eliminate(core, core_powers, core_noise, (r, s), L, U, pivots, steps)
        if k > 0:
            _polar(
                _combined(A, members, r, L, k), pivots[:k], steps[:k],
                _combined(Z, partners, s, U, k), out[b],
            )  # fmt: skip
    return out, X, Y, C, C_powers
