"""The two bounds of a certificate, rounded the safe way, for one problem or a stack of them.

Every argument of `below`, `above` and `worst_margin` may carry a leading stack axis B. The rounding
errors are those of the standard model: a sum of k products errs by at most k + 1 units of the sum
of absolute values.

W and multipliers may come at any scale: 1e-200 squares to nothing and 1e200 to infinity. Scaling by
a power of two is exact, so bounds are taken in the middle of the float range.

Tokens that nearly coincide force a large W, and the rounding error of every margin grows with it.
Where NumPy's long double has 64 bits, sums in it err two thousand times less: the functions
`long_…` evaluate the bounds in it. W and λ stay float64.

Theory: [higham2002accuracy].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints, plain
from attsvm._utils.compiled import DOT_ENTRY, INNER, njit
from attsvm.norms import Norm
from attsvm.norms.norm import UNIT
from attsvm.problem.problem import Problem, StackArrays, StackRows

# Sums of squares between these have lost nothing to underflow and not overflowed.
_LEAST, _MOST = 1e-200, 1e200
# Multipliers below this share of the largest, on unit rows, are dropped: any λ ≥ 0 is allowed,
# and what is left can be scaled without underflow.
_DROPPED = 2.0**-450


def exponent(x: Floats) -> int:
    """The e with max|x| in [2^(e−1), 2^e); 0 for zeros and for nothing."""
    return math.frexp(float(np.abs(x).max(initial=0.0)))[1]


def length(x: Floats) -> float:
    """The root of the sum of squares of all entries, at any scale.

    >>> length(np.array([3e-200, 4e-200]))
    5e-200
    """
    square = float(np.vdot(x, x))
    if _LEAST < square < _MOST:
        return math.sqrt(square)
    e = exponent(x)
    scaled = np.ldexp(x, -e)
    # The root is taken of a number near 1; a result below the normal floats is rounded up.
    return ceiling(math.sqrt(float(np.vdot(scaled, scaled))), e)


def ceiling(x: float, e: int) -> float:
    """A float not below x · 2^e (x ≥ 0): exact unless it leaves the normal floats."""
    try:
        out = math.ldexp(x, e)
    except OverflowError:
        return math.inf
    return math.nextafter(out, math.inf) if x and math.ldexp(out, -e) != x else out


def value_above(norm: Norm, W: Floats) -> float:
    """A float not below ‖W‖, at any scale."""
    grown = (1 + norm.rounding(W.shape)) * (1 + 2.0**-51)
    square = float(np.vdot(W, W))
    if _LEAST < square < _MOST:
        plain = math.sqrt(square) if norm.euclidean else float(norm.value(W))
        return plain * grown
    e = exponent(W)
    return ceiling(float(norm.value(np.ldexp(W, -e))) * grown, e)


def centred(lam: Floats, size: Floats, mu: Floats, tie_size: Floats) -> tuple[Floats, Floats]:
    """Multipliers λ (m,) and μ (l,), scaled so that the largest λ_k‖row_k‖ is near 1.

    size (m,) and tie_size (l,) are the norms of the rows. What is far below the largest becomes 0.
    """
    logs = np.concatenate([_logs(lam, size), _logs(mu, tie_size)])
    top = logs.max(initial=-np.inf)
    if top == -np.inf:
        return lam, mu
    kept = logs >= top + np.log2(_DROPPED)
    both = np.where(kept, np.concatenate([lam, mu]), 0.0)
    # In two steps: 2^-1100 itself is no float.
    half = int(-top) // 2
    both = np.ldexp(np.ldexp(both, half), int(-top) - half)
    return both[: len(lam)], both[len(lam) :]


def _logs(multipliers: Floats, size: Floats) -> Floats:
    """log₂(|λ_k| size_k) of each row, −inf where it is zero."""
    with np.errstate(divide="ignore"):
        return np.log2(np.abs(multipliers)) + np.log2(size)


# A worst margin below this, of a W near 1, leaves a norm beyond all that rows of the sizes allowed
# can ask for: nothing feasible is claimed with it.
LEAST_MARGIN = 1e-250
# A residual of this many times its rounding bound still counts as zero in a proof.
_RESIDUAL = 4.0


class LowerBound(NamedTuple):
    """A lower bound `value`; `dual` the plain dual norm; `residual` ‖A*λ‖_F / Σ λ‖Δ‖‖z‖.

    `null`: the residual may be rounding alone and the numerator is positive, so that λ may prove
    that no W exists; what is proved is that none has a norm below `value`.
    """

    value: Any
    dual: Any
    residual: Any
    null: Any


def below(
    norm: Norm, shape: tuple[int, int], *, worth: Any, absolute: Any, size: Any, used: Any, G: Any
) -> LowerBound:
    """lower = (Σ bλ + Σ cμ)/‖G‖_dual with G = A*λ + C*μ.

    worth: the numerator; absolute: the sum of its absolute terms; size: Σ |λ|‖Δ‖‖z‖; used: how
    many multipliers are not zero. The difference Δ, the products and a later scaling of λ add five
    units to each entry of G.
    """
    worth = worth - (used + 3) * UNIT * absolute * 1.01
    error = (used + 8) * UNIT * size * 1.01
    alone = G.ndim == 2
    plain = sqrt(np.vdot(G, G)) if alone else np.sqrt(np.einsum("bij,bij->b", G, G))
    dual = plain if norm.euclidean else norm.dual(G)
    safe = dual * (1 + norm.rounding(shape)) + norm.spread(shape)[1] * error
    value: Any
    if not alone:
        positive = worth > 0
        value = np.where(positive, worth * (1 - 4 * UNIT) / np.where(safe > 0, safe, 1.0), 0.0)
        value = np.where(positive & (safe == 0), 0.0, value)
        residual = plain / np.where(size > 0, size, 1.0)
        null = positive & (safe > 0) & (plain <= _RESIDUAL * error)
        return LowerBound(value, dual, residual, null)
    if worth <= 0 or not safe > 0:  # rows of size zero prove nothing by their rounding
        return LowerBound(0.0, dual, plain / size if size > 0 else 0.0, False)
    value = worth * (1 - 4 * UNIT) / safe
    null = plain <= _RESIDUAL * error
    return LowerBound(value, dual, plain / size if size > 0 else 0.0, null)


def margin_error(shape: tuple[int, int]) -> float:
    """The rounding error of a margin, as a share of ‖Δ‖‖z‖‖W‖: the one place that says it.

    Each margin is a sum of d·dq products taken as two dot products from a rounded Δ; two more
    units for a scaling of W afterwards, and a hundredth for the rounding of the norms.
    """
    return (shape[0] + shape[1] + 7) * UNIT * 1.01


def worst_margin(shape: tuple[int, int], W: Any, *, margins: Any, row_norms: Any, b: Any) -> Any:
    """The least margin over b, rounded down; all b positive. Not positive: W is not feasible."""
    plain: Any
    if W.ndim == 2:
        plain = np.float64(length(W))
    else:
        plain = np.sqrt(np.einsum("...ij,...ij->...", W, W))
    error = margin_error(shape) * plain
    return ((margins - error[..., None] * row_norms) / b).min(axis=-1)


def above(norm: Norm, shape: tuple[int, int], W: Any, worst: Any) -> Any:
    """upper = ‖W‖/worst for a positive worst margin, inf otherwise."""
    if W.ndim == 2:
        return value_above(norm, W) * (1 + 8 * UNIT) / worst if worst > 0 else np.inf
    value = norm.value(W) * ((1 + norm.rounding(shape)) * (1 + 8 * UNIT))
    return np.where(worst > 0, value / np.where(worst > 0, worst, 1.0), np.inf)


@njit(**INNER)
def combine(D: Floats, z: Floats, query: Ints, lam: Floats, sums: Floats, out: Floats) -> None:
    """out (d, dq) filled with Σ λ_k Δ_k z_kᵀ, the rows of one query summed first in sums (g, d)."""
    m, d = D.shape
    g, e = z.shape
    for q in range(g):
        for i in range(d):
            sums[q, i] = 0.0
    for k in range(m):
        f = lam[k]
        if f != 0.0:
            row = sums[query[k]]
            for i in range(d):
                row[i] += f * D[k, i]
    for i in range(d):
        for j in range(e):
            out[i, j] = 0.0
    for q in range(g):
        for i in range(d):
            f = sums[q, i]
            if f != 0.0:
                for j in range(e):
                    out[i, j] += f * z[q, j]


def measure(rows: StackRows, lam: Floats, W: Floats, share: float) -> tuple[Floats, Floats]:
    """What the bounds of small problems need of W (B, d, dq) and λ ≥ 0 (B, m): A*λ (B, d, dq) and
    sums (B, 4).

    The columns of sums are Σ bλ, Σ λ‖Δ‖‖z‖, how many λ are not zero, and the worst margin over b
    less its rounding, the share of ‖Δ‖‖z‖‖W‖.
    """
    (B, _, d), g = rows.D.shape, rows.z.shape[1]
    G, sums = np.empty((B, d, rows.z.shape[2])), np.empty((B, 4))
    work = np.empty((2 * g, d))
    measure_stack(rows.arrays(), plain(lam), plain(W), share, work, G, sums)
    return G, sums


@njit(**DOT_ENTRY)
def measure_stack(
    rows: StackArrays, lam: Floats, W: Floats, share: float, work: Floats, G: Floats, out: Floats
) -> None:
    """The values of `measure` into G (B, d, dq) and out (B, 4), in one pass; work (2g, d)."""
    stack_D, stack_z, stack_query, stack_norms, stack_b = rows
    B, m, d = stack_D.shape
    g = stack_z.shape[1]
    V = work[:g]
    for s in range(B):
        D, z, query, norms, b = stack_D[s], stack_z[s], stack_query[s], stack_norms[s], stack_b[s]
        combine(D, z, query, lam[s], work[g:], G[s])
        worth = 0.0
        size = 0.0
        used = 0.0
        for k in range(m):
            f = lam[s, k]
            if f != 0.0:
                used += 1.0
                worth += b[k] * f
                size += norms[k] * f
        square = 0.0
        for i in range(d):
            for j in range(W.shape[2]):
                square += W[s, i, j] * W[s, i, j]
        error = share * np.sqrt(square)
        np.dot(z, W[s].T, V)
        worst = np.inf
        for k in range(m):
            margin = 0.0
            for i in range(d):
                margin += D[k, i] * V[query[k], i]
            over = (margin - error * norms[k]) / b[k]
            if over < worst:
                worst = over
        out[s, 0] = worth
        out[s, 1] = size
        out[s, 2] = used
        out[s, 3] = worst


_LONG = np.longdouble
# The unit of rounding of the longer numbers, and whether they are longer at all.
_LONG_UNIT = float(np.finfo(_LONG).eps) / 2
_HELPS = _LONG_UNIT < UNIT / 1000
# Numbers formed at most: long doubles have no fast kernels.
_MOST_LONG = 4_000_000


def long_fits(problem: Problem) -> bool:
    """Whether the longer evaluation is there and not too slow for this problem."""
    work = (problem.m + problem.ties) * (problem.shape[0] + problem.shape[1])
    return _HELPS and problem.scalable and work * problem.shape[1] <= _MOST_LONG


def _long_rows(problem: Problem) -> tuple[Any, Any]:
    """Δ (m, d) and z (m, dq) as long doubles; differences of floats are nearly exact here."""
    D = problem.keys[problem.hi].astype(_LONG)
    pair = problem.lo >= 0
    D[pair] -= problem.keys[problem.lo[pair]]
    return D, problem.queries[problem.query].astype(_LONG)


def long_worst_margin(problem: Problem, W: Floats) -> float:
    """The least margin over b, rounded down; two float64 units for a scaling of W afterwards."""
    D, Z = _long_rows(problem)
    V = Z @ W.astype(_LONG).T
    margins = np.einsum("kd,kd->k", D, V)
    d, dq = problem.shape
    plain = float(np.linalg.norm(W))
    error = 1.01 * plain * ((d + dq + 7) * _LONG_UNIT * problem.row_norms)
    # A scaling rounds each entry of W: the margin moves by at most |Δ|ᵀ|W||z| units.
    moved = np.einsum("kd,kd->k", np.abs(D), np.abs(Z) @ np.abs(W).astype(_LONG).T)
    safe = margins - error - 1.01 * UNIT * moved
    return float((safe / problem.b).min() * (1 - 4 * UNIT))


def long_below(problem: Problem, norm: Norm, lam: Floats) -> LowerBound:
    """The lower bound of λ with A*λ summed in longer numbers."""
    D, Z = _long_rows(problem)
    G = (D.T @ (lam[:, None] * Z)).astype(np.float64)
    used = int(np.count_nonzero(lam))
    size = float(problem.row_norms @ lam)
    worth = float(problem.b.astype(_LONG) @ lam.astype(_LONG))
    # `below` adds (used + 8) units of `size`: hand it the size at which they come to the long
    # sum's error, and one float64 unit for rounding G and for scaling λ.
    plain = float(np.linalg.norm(G))
    error = (used + 8) * _LONG_UNIT * size + UNIT * (plain + size)
    return below(
        norm,
        problem.shape,
        worth=worth,
        absolute=worth / (used + 3),
        size=error / ((used + 8) * UNIT),
        used=used,
        G=G,
    )


# The Gram squares singular values: below this eigenvalue the rows themselves are looked at.
_CLEAR = 1e-8
# Numbers in the dense rows at most.
_DENSE = 40_000_000
# Rows beyond which only their least singular value is found, without vectors.
_VECTORS = 1000
# An eigenvalue or singular value errs by this many units for each row and column.
_EACH = 16


@dataclass(frozen=True)
class Independence:
    """sigma: a proved lower bound of σ_min, 0 when nothing is proved; solve(gap) (k,): y with
    A Aᵀ y ≈ gap, by least squares."""

    sigma: float
    solve: Callable[[Floats], Floats]


def least_singular(A: Floats, Z: Floats) -> float:
    """A proved lower bound of σ_min of the unit rows A_k z_kᵀ, 0 when nothing is proved."""
    if len(A) <= _VECTORS:
        return independence(A, Z).sigma
    low = float(np.linalg.eigvalsh((A @ A.T) * (Z @ Z.T))[0]) - _gram_error(A, Z)
    return sqrt(max(low, 0.0))


def _gram_error(A: Floats, Z: Floats) -> float:
    """How far a computed eigenvalue of the Gram may be off: its entries are at most 1."""
    k = len(A)
    return (_EACH * k + 2 * (A.shape[1] + Z.shape[1]) + 16) * UNIT * k


def independence(A: Floats, Z: Floats) -> Independence:
    """The independence of the unit rows A_k z_kᵀ, A (k, d) and Z (k, dq)."""
    k, d = A.shape
    dq = Z.shape[1]
    level, Q = np.linalg.eigh((A @ A.T) * (Z @ Z.T))
    error = _gram_error(A, Z)
    low = float(level[0]) - error
    dense = k * d * dq <= _DENSE
    if low > _CLEAR or not dense:
        solid = level > max(error, 0.0)
        return Independence(sqrt(max(low, 0.0)), _inverse(Q[:, solid], level[solid]))
    F = (A[:, :, None] * Z[:, None, :]).reshape(k, -1)
    Q, sigma, _ = np.linalg.svd(F, full_matrices=False)
    # The rows' own entries err by a few units each, the decomposition by more with the size.
    error = (_EACH * (k + d * dq) * float(sigma[0]) + _EACH * sqrt(k)) * UNIT
    low = float(sigma[-1]) - error if k <= d * dq else 0.0
    solid = sigma > 4 * UNIT * float(sigma[0])
    return Independence(max(low, 0.0), _inverse(Q[:, solid], sigma[solid] ** 2))


def _inverse(Q: Floats, level: Floats) -> Callable[[Floats], Floats]:
    """y = Q diag(1/level) Qᵀ gap."""
    return lambda gap: Q @ ((Q.T @ gap) / level)
