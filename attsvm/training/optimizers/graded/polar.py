"""U Vᵀ of a sum of graded terms, over every singular value that the sum really has.

    Σ_k x_k a_k b_kᵀ  =  X C Yᵀ  =  (X L) D (Y U)ᵀ  =  (X L) (D Rᵀ) Qᵀ,      Y U = Q R

with bases X and Y out of the vectors themselves (`span`), C = L D Uᵀ (`eliminate`) and D as far
apart as the terms are. One-sided Jacobi rotations make the columns of (X L) D Rᵀ orthogonal; each
column carries its own power of two, and the angle between a large and a small one is found from
their shares, so singular vectors come out to high relative accuracy however small their value is.
The error is that of X L and Y U: rounding times their condition.

Theory: the singular values of X D Yᵀ with well-conditioned X and Y [demmel1999svd].

The bases come from column-pivoted Gram–Schmidt: the next member is the vector with the largest
weight × distance from the span of those before. Members are kept as they were given, not as
combinations, so that a basis made again and again from its own members does not drift.

The coefficients: the sum is Σ_k x_k a_k b_kᵀ with wide numbers x_k. In bases X of the a and Y of
the b it is X C Yᵀ with a small matrix C of wide numbers, and elimination with complete pivoting
makes C = L D Uᵀ with entries of L and U at most 1. No number meets one of another size unless the
formula adds them, so every digit lost is lost to a cancellation that the terms themselves have.
`noise` keeps for each entry the power of the largest part that went into it: an entry that cancels
to the rounding of its parts is zero, because its sign is not known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks, memory
from attsvm.training.optimizers.graded.wide import NONE, Sum, level, shifted

# A vector nearer to a span than this share of its length lies in it: what is left is the rounding
# of the projection. Coefficients and sums below this share of their largest part are zero likewise.
ROUNDING = 2.0**-46


class Basis(NamedTuple):
    """Vectors (p, d), weight (p,): logarithms to base 2, −inf for what takes no part; and what
    `span` writes: members (m,), m = min(p, d): the numbers of the chosen vectors, and
    parts (m, p): vectors_k = Σ_j parts_jk vectors_members_j.

    The others are workspace: rest (p, d), size, left (p,), R (m, p), live (p,), by (p,).
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


class Noisy(NamedTuple):
    """A matrix of wide numbers, and the power of the largest part of each; most is workspace."""

    share: Floats
    power: Ints
    noise: Ints
    most: Floats

    @classmethod
    def of(cls, rows: int, columns: int) -> Noisy:
        """The memory for a matrix of this size, or a smaller one."""
        size = rows, columns
        return cls(
            np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
        )


class Diagonal(NamedTuple):
    """C = L diag(pivots 2^heights) Uᵀ: L (r, k), U (s, k), pivots and heights (k,)."""

    L: Floats
    U: Floats
    pivots: Floats
    heights: Ints

    @classmethod
    def of(cls, r: int, s: int) -> Diagonal:
        """The memory for C of this size, or a smaller one."""
        k = min(r, s)
        return cls(np.empty((r, k)), np.empty((s, k)), np.empty(k), np.empty(k, np.int64))


@njit(**INNER)
def gather(
    parts: Floats, rank: int, at: Ints, into: Ints, share: Floats, power: Ints, out: Noisy
) -> None:
    """Writes C_ji = Σ parts_j,at_k x_k over the terms with into_k = i: out (q, ·).

    parts (·, p): coefficients of the left vectors in their basis; at, into, share, power (K,).
    """
    for i in range(len(out.share)):
        for j in range(rank):
            out.share[i, j] = out.most[i, j] = 0.0
            out.power[i, j] = NONE
    for k in range(len(at)):
        if share[k] != 0.0:
            i = into[k]
            for j in range(rank):
                if parts[j, at[k]] != 0.0:
                    out.power[i, j] = max(out.power[i, j], power[k])
    for k in range(len(at)):
        i = into[k]
        if share[k] != 0.0:
            for j in range(rank):
                f = parts[j, at[k]]
                if f != 0.0:
                    x = shifted(f * share[k], power[k] - out.power[i, j])
                    out.share[i, j] += x
                    out.most[i, j] = max(out.most[i, j], abs(x))
    for i in range(len(out.share)):
        for j in range(rank):
            _settle(out, i, j, out.most[i, j])


@njit(**INNER)
def spread(columns: Noisy, parts: Floats, r: int, s: int, C: Noisy) -> None:
    """Writes C_jc = Σ_i columns_ij parts_ci (r, s), from the columns (q, ·) of `gather`."""
    q = len(columns.share)
    for j in range(r):
        for c in range(s):
            top = worst = NONE
            for i in range(q):
                if parts[c, i] != 0.0:
                    worst = max(worst, columns.noise[i, j] + math.frexp(parts[c, i])[1])
                    if columns.share[i, j] != 0.0:
                        top = max(top, columns.power[i, j])
            total = most = 0.0
            for i in range(q):
                if parts[c, i] != 0.0 and columns.share[i, j] != 0.0:
                    x = shifted(parts[c, i] * columns.share[i, j], columns.power[i, j] - top)
                    total += x
                    most = max(most, abs(x))
            C.share[j, c] = total
            C.power[j, c] = top
            _settle(C, j, c, most)
            C.noise[j, c] = max(C.noise[j, c], worst)
            _silence(C, j, c)


@njit(**INNER)
def _settle(x: Noisy, i: int, j: int, largest: float) -> None:
    """Brings an entry to a share in ±[½, 1); its noise has the power of its largest part."""
    x.noise[i, j] = x.power[i, j] + math.frexp(largest)[1] if largest > 0.0 else NONE
    share, extra = math.frexp(x.share[i, j])
    x.share[i, j] = share
    x.power[i, j] += extra
    _silence(x, i, j)


@njit(**INNER)
def _silence(x: Noisy, i: int, j: int) -> None:
    """Makes an entry zero that is no more than the rounding of its parts."""
    share, above = x.share[i, j], min(x.noise[i, j] - x.power[i, j], 1000)
    if share == 0.0 or abs(share) <= shifted(ROUNDING, above):
        x.share[i, j] = 0.0
        x.power[i, j] = NONE


@njit(**INNER)
def eliminate(given: Noisy, r: int, s: int, found: Diagonal) -> int:
    """The rank of the given C (r, s), used up; writes its diagonal form, by complete pivoting."""
    C, powers, noise = given.share, given.power, given.noise
    L, U = found.L, found.U
    most = min(r, s)
    for k in range(most):
        for i in range(r):
            L[i, k] = 0.0
        for j in range(s):
            U[j, k] = 0.0
    for k in range(most):
        a = b = -1
        for i in range(r):
            for j in range(s):
                if C[i, j] != 0.0 and (
                    a < 0
                    or powers[i, j] > powers[a, b]
                    or (powers[i, j] == powers[a, b] and abs(C[i, j]) > abs(C[a, b]))
                ):
                    a, b = i, j
        if a < 0:
            return k
        pivot, height, doubt = C[a, b], powers[a, b], noise[a, b] - powers[a, b]
        found.pivots[k], found.heights[k] = pivot, height
        L[a, k] = U[b, k] = 1.0
        for i in range(r):
            if i != a and C[i, b] != 0.0:
                L[i, k] = shifted(C[i, b] / pivot, powers[i, b] - height)
        for j in range(s):
            if j != b and C[a, j] != 0.0:
                U[j, k] = shifted(C[a, j] / pivot, powers[a, j] - height)
        for i in range(r):
            if i == a or C[i, b] == 0.0:
                continue
            for j in range(s):
                if j != b and C[a, j] != 0.0:
                    x = C[i, b] * C[a, j] / pivot
                    e = powers[i, b] + powers[a, j] - height
                    unsure = max(noise[i, b] - powers[i, b], noise[a, j] - powers[a, j])
                    noise[i, j] = max(noise[i, j], e + max(unsure, doubt))
                    _take(C, powers, i, j, x, e)
                    _silence(given, i, j)
        for i in range(r):
            C[i, b] = 0.0
        for j in range(s):
            C[a, j] = 0.0
    return most


@njit(**INNER)
def _take(C: Floats, powers: Ints, i: int, j: int, x: float, e: int) -> None:
    """C_ij −= x 2^e."""
    y, top = -x, e
    if C[i, j] != 0.0:
        top = max(powers[i, j], e)
        y = shifted(C[i, j], powers[i, j] - top) - shifted(x, e - top)
    share, extra = math.frexp(y)
    C[i, j] = share
    powers[i, j] = top + extra if share != 0.0 else NONE


# PolarColumns nearer to a right angle than this are orthogonal, and the most sweeps until they are.
SQUARE, SWEEPS = 2.0**-52, 60


class PolarColumns(NamedTuple):
    """Memory for U Vᵀ: X, columns (k, d), Y (k, c), R and V (k, k)."""

    X: Floats
    Y: Floats
    R: Floats
    columns: Floats
    V: Floats


class PolarWorkspace(NamedTuple):
    """Memory of one thread: bases of both sides, heights (K,), the coefficients on the way."""

    left: Basis
    right: Basis
    heights: Ints
    rows: Noisy
    core: Noisy
    diagonal: Diagonal
    columns: PolarColumns

    @classmethod
    def of(cls, given: Sum) -> PolarWorkspace:
        """The memory of this thread for this sum."""
        return memory(_allocate, *given.left.shape[1:], *given.right.shape[1:], len(given.at))


def _allocate(p: int, d: int, q: int, c: int, K: int) -> PolarWorkspace:
    r, s = min(p, d), min(q, c)
    k = min(r, s)
    columns = PolarColumns(*(np.empty(size) for size in ((k, d), (k, c), (k, k), (k, d), (k, k))))
    return PolarWorkspace(
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
def _polar(work: PolarColumns, diagonal: Diagonal, k: int, out: Floats) -> None:
    """Adds U Vᵀ of Σ_i pivots_i 2^heights_i X_i Y_iᵀ, i < k, to out (d, c); uses up Y."""
    X, Y, R, columns, V = work.X, work.Y, work.R, work.columns, work.V
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
def _resolve(given: Sum, work: PolarWorkspace, found: Resolved, begin: int, end: int) -> None:
    """Writes what is found for the instances from begin to end; out holds zeros before."""
    at, into = given.at, given.into
    left, right, heights, core = work.left, work.right, work.heights, work.core
    for b in range(begin, end):
        share = given.share[b]
        for k in range(len(at)):
            heights[k] = given.power[b, k]
        level(given.left[b], left.vectors, left.by, at, heights)
        level(given.right[b], right.vectors, right.by, into, heights)
        _weigh(at, share, heights, left.weight)
        _weigh(into, share, heights, right.weight)
        r, s = span(left), span(right)
        gather(left.parts, r, at, into, share, heights, work.rows)
        spread(work.rows, right.parts, r, s, core)
        _keep(left, r, found.X[b])
        _keep(right, s, found.Y[b])
        for i in range(found.share.shape[1]):
            for j in range(found.share.shape[2]):
                live = i < r and j < s and core.share[i, j] != 0.0
                found.share[b, i, j] = core.share[i, j] if live else 0.0
                found.power[b, i, j] = core.power[i, j] if live else 0
        rank = eliminate(core, r, s, work.diagonal)
        _combine(left, r, work.diagonal.L, rank, work.columns.X)
        _combine(right, s, work.diagonal.U, rank, work.columns.Y)
        _polar(work.columns, work.diagonal, rank, found.out[b])


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
        _resolve(given, PolarWorkspace.of(given), found, begin, end)

    map_chunks(some, B)
    return found
