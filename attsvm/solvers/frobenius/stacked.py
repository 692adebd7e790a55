"""Small Frobenius problems from their rows to multipliers and W: one of them, or a stack."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.chunks import memory
from attsvm.problem.problem import StackRows
from attsvm.solvers.frobenius.dual_active_set import (
    NO_SOLUTION,
    Found,
    room_of,
    solve_stack,
)

# The shortfall, as a share of ‖Δ‖‖z‖‖W‖, that a polish on the support may still improve.
_POLISH = 1e-12
# The share of a margin that may be missed before the polish.
_MISSED = 1e-9
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


def solve_rows(rows: StackRows, free: Bools) -> Found:
    """What is found of a stack, norms > 0; free (m,) True on ties.

    Where no W exists λ is the proof, and W is what it combines to.
    """
    (B, m, d), (_, g, e) = rows.D.shape, rows.z.shape
    found = np.empty(B, np.int64), np.empty((B, m)), np.empty((B, d, e)), np.empty((B, 3))
    solve_stack(rows.arrays(), free, _NONE, d * e, memory(room_of, m, d, g), found)
    return found


class Alone(NamedTuple):
    """What is found of one problem: status, multipliers (m,), W (d, dq), and whether W meets the
    rows so well that a polish has nothing to do."""

    status: int
    lam: Floats
    W: Floats
    met: bool


def solve_small(rows: StackRows, free: Bools) -> Alone:
    """What is found of a stack of one problem.

    A margin b is a small share of ‖Δ‖‖z‖‖W‖ where ‖W‖ is large, and missed by more of itself: a W
    meets the rows when it misses little of both.
    """
    status, lam, W, sizes = solve_rows(rows, free)
    _, worst, most = sizes[0].tolist()
    met = status[0] != NO_SOLUTION and (
        worst <= 0.0 or (worst <= _POLISH * sqrt(np.vdot(W, W)) and worst * most <= _MISSED)
    )
    return Alone(int(status[0]), lam[0], W[0], bool(met))
