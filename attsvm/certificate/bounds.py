"""The two bounds of a certificate, rounded the safe way, for one problem or a stack of them.

Every argument may carry a leading stack axis B. The rounding errors are those of the standard
model: a sum of k products errs by at most k + 1 units of the sum of absolute values.

Theory: [higham2002accuracy].
"""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import DOT_ENTRY, INNER, njit, plain
from attsvm.certificate.scale import length, value_above
from attsvm.norms import Norm
from attsvm.norms.norm import UNIT
from attsvm.problem.rows import StackArrays, StackRows

# A worst margin below this, of a W near 1, leaves a norm beyond all that rows of the sizes allowed
# can ask for: nothing feasible is claimed with it.
LEAST_MARGIN = 1e-250
# A residual of this many times its rounding bound still counts as zero in a proof.
_RESIDUAL = 4.0


class Below(NamedTuple):
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
) -> Below:
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
        return Below(value, dual, residual, null)
    if worth <= 0 or not safe > 0:  # rows of size zero prove nothing by their rounding
        return Below(0.0, dual, plain / size if size > 0 else 0.0, False)
    value = worth * (1 - 4 * UNIT) / safe
    null = plain <= _RESIDUAL * error
    return Below(value, dual, plain / size if size > 0 else 0.0, null)


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


class Measured(NamedTuple):
    """What the bounds of small problems need: A*λ (B, d, dq), and in the columns of sums (B, 4)
    Σ bλ, Σ λ‖Δ‖‖z‖, how many λ are not zero, and the worst margin over b less its rounding."""

    sums: Floats
    G: Floats


def measure(rows: StackRows, lam: Floats, W: Floats, share: float) -> Measured:
    """The measures of W (B, d, dq) and λ ≥ 0 (B, m); share of ‖Δ‖‖z‖‖W‖ is taken off a margin."""
    (B, _, d), g = rows.D.shape, rows.z.shape[1]
    found = Measured(np.empty((B, 4)), np.empty((B, d, rows.z.shape[2])))
    room = np.empty((2 * g, d))
    measure_stack(rows.arrays(), plain(lam), plain(W), share, room, found.G, found.sums)
    return found


@njit(**DOT_ENTRY)
def measure_stack(
    rows: StackArrays, lam: Floats, W: Floats, share: float, room: Floats, G: Floats, out: Floats
) -> None:
    """`Measured` into G (B, d, dq) and out (B, 4), in one pass; room (2g, d)."""
    stack_D, stack_z, stack_query, stack_norms, stack_b = rows
    B, m, d = stack_D.shape
    g = stack_z.shape[1]
    V = room[:g]
    for s in range(B):
        D, z, query, norms, b = stack_D[s], stack_z[s], stack_query[s], stack_norms[s], stack_b[s]
        combine(D, z, query, lam[s], room[g:], G[s])
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
