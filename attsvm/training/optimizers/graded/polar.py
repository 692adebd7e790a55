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
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks, memory
from attsvm.training.optimizers.graded.elimination import Diagonal, Noisy, eliminate, gather, spread
from attsvm.training.optimizers.graded.entries import Sum
from attsvm.training.optimizers.graded.span import Basis, span
from attsvm.training.optimizers.graded.wide import level, shifted

# Columns nearer to a right angle than this are orthogonal, and the most sweeps until they are.
SQUARE, SWEEPS = 2.0**-52, 60


class Columns(NamedTuple):
    """Memory for U Vᵀ: X, columns (k, d), Y (k, c), R and V (k, k)."""

    X: Floats
    Y: Floats
    R: Floats
    columns: Floats
    V: Floats


class Workspace(NamedTuple):
    """Memory of one thread: bases of both sides, heights (K,), the coefficients on the way."""

    left: Basis
    right: Basis
    heights: Ints
    rows: Noisy
    core: Noisy
    diagonal: Diagonal
    columns: Columns

    @classmethod
    def of(cls, given: Sum) -> Workspace:
        """The memory of this thread for this sum."""
        return memory(_room, *given.left.shape[1:], *given.right.shape[1:], len(given.at))


def _room(p: int, d: int, q: int, c: int, K: int) -> Workspace:
    r, s = min(p, d), min(q, c)
    k = min(r, s)
    columns = Columns(*(np.empty(size) for size in ((k, d), (k, c), (k, k), (k, d), (k, k))))
    return Workspace(
        Basis.of(p, d),
        Basis.of(q, c),
        np.empty(K, np.int64),
        Noisy.of(q, r),
        Noisy.of(r, s),
        Diagonal.of(r, s),
        columns,
    )


class Resolved(NamedTuple):
    """U Vᵀ (B, d, c) of a sum, and the sum in two bases out of its vectors, G = Xᵀ C Y.

    The bases X (B, d, d) and Y (B, c, c) have one member per row and zeros after the last; the
    coefficients C are share and power (B, d, c).
    """

    out: Floats
    X: Floats
    Y: Floats
    share: Floats
    power: Ints


@njit(**INNER)
def _weigh(at: Ints, share: Floats, power: Ints, out: Floats) -> None:
    """Writes log2 of the largest |x_k| with at_k = i, −inf without one: out (p,)."""
    for i in range(len(out)):
        out[i] = -np.inf
    for k in range(len(at)):
        if share[k] != 0.0:
            out[at[k]] = max(out[at[k]], power[k] + math.log2(abs(share[k])))


@njit(**INNER)
def _combine(basis: Basis, rank: int, L: Floats, k: int, out: Floats) -> None:
    """Writes Σ_j L_ji vectors_members_j for i < k: out (·, d)."""
    for i in range(k):
        for r in range(out.shape[1]):
            out[i, r] = 0.0
        for j in range(rank):
            if L[j, i] != 0.0:
                m = basis.members[j]
                for r in range(out.shape[1]):
                    out[i, r] += L[j, i] * basis.vectors[m, r]


@njit(**INNER, inline="always")
def _orthonormal(Y: Floats, k: int, R: Floats) -> None:
    """Y (k, d) = R Q: makes the rows of Y orthonormal, twice over; writes R (k, k), lower."""
    d = Y.shape[1]
    for i in range(k):
        for j in range(k):
            R[i, j] = 0.0
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


@njit(**INNER, inline="always")
def _rotate(columns: Floats, heights: Ints, k: int, V: Floats) -> None:
    """Makes the columns 2^heights_j columns_j (k, d) orthogonal by rotations, summed up in V.

    heights fall, but for a few powers of two.
    """
    d = columns.shape[1]
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


@njit(**INNER)
def _polar(room: Columns, diagonal: Diagonal, k: int, out: Floats) -> None:
    """Adds U Vᵀ of Σ_i pivots_i 2^heights_i X_i Y_iᵀ, i < k, to out (d, c); uses up Y."""
    X, Y, R, columns, V = room.X, room.Y, room.R, room.columns, room.V
    pivots, heights = diagonal.pivots, diagonal.heights
    d, c = out.shape
    _orthonormal(Y, k, R)
    for j in range(k):
        for r in range(d):
            columns[j, r] = 0.0
        for i in range(k):
            V[j, i] = 1.0 if i == j else 0.0
        for i in range(j, k):
            f = shifted(R[i, j] * pivots[i], heights[i] - heights[j])
            if f != 0.0:
                for r in range(d):
                    columns[j, r] += f * X[i, r]
    _rotate(columns, heights, k, V)
    for j in range(k):
        s = 0.0
        for r in range(d):
            s += columns[j, r] * columns[j, r]
        s = math.sqrt(s)
        for l in range(c):
            v = 0.0
            for i in range(k):
                v += V[j, i] * Y[i, l]
            v /= s
            for r in range(d):
                out[r, l] += columns[j, r] * v


@njit(**INNER)
def _keep(basis: Basis, rank: int, out: Floats) -> None:
    """Writes the members of a basis to the rows of out, zeros after the last."""
    for j in range(len(out)):
        for r in range(out.shape[1]):
            out[j, r] = basis.vectors[basis.members[j], r] if j < rank else 0.0


@njit(**ENTRY)
def _resolve(given: Sum, room: Workspace, found: Resolved, begin: int, end: int) -> None:
    """Writes what is found for the instances from begin to end; out holds zeros before."""
    at, into = given.at, given.into
    left, right, heights, core = room.left, room.right, room.heights, room.core
    for b in range(begin, end):
        share = given.share[b]
        for k in range(len(at)):
            heights[k] = given.power[b, k]
        level(given.left[b], left.vectors, left.by, at, heights)
        level(given.right[b], right.vectors, right.by, into, heights)
        _weigh(at, share, heights, left.weight)
        _weigh(into, share, heights, right.weight)
        r, s = span(left), span(right)
        gather(left.parts, r, at, into, share, heights, room.rows)
        spread(room.rows, right.parts, r, s, core)
        _keep(left, r, found.X[b])
        _keep(right, s, found.Y[b])
        for i in range(found.share.shape[1]):
            for j in range(found.share.shape[2]):
                live = i < r and j < s and core.share[i, j] != 0.0
                found.share[b, i, j] = core.share[i, j] if live else 0.0
                found.power[b, i, j] = core.power[i, j] if live else 0
        rank = eliminate(core, r, s, room.diagonal)
        _combine(left, r, room.diagonal.L, rank, room.columns.X)
        _combine(right, s, room.diagonal.U, rank, room.columns.Y)
        _polar(room.columns, room.diagonal, rank, found.out[b])


def resolve(given: Sum) -> Resolved:
    """U Vᵀ (B, d, c) of the sum, and the sum in two bases out of its vectors."""
    given = given.plain()
    B, _, d = given.left.shape
    c = given.right.shape[2]
    found = Resolved(
        np.zeros((B, d, c)),
        np.empty((B, d, d)),
        np.empty((B, c, c)),
        np.empty((B, d, c)),
        np.empty((B, d, c), np.int64),
    )

    def some(begin: int, end: int) -> None:
        _resolve(given, Workspace.of(given), found, begin, end)

    map_chunks(some, B)
    return found
