"""Bounds with longer numbers, for when rounding is all that keeps a gap open.

Tokens that nearly coincide force a large W, and the rounding error of every margin grows with it.
Where NumPy's long double has 64 bits, sums in it err two thousand times less; elsewhere nothing
changes. Only the evaluation is longer: W and λ stay float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate.bounds import Below, below
from attsvm.norms import Norm
from attsvm.norms.norm import UNIT
from attsvm.problem.problem import Problem

_LONG = np.longdouble
# The unit of rounding of the longer numbers, and whether they are longer at all.
_LONG_UNIT = float(np.finfo(_LONG).eps) / 2
HELPS = _LONG_UNIT < UNIT / 1000
# Numbers formed at most: long doubles have no fast kernels.
MOST = 4_000_000


def fits(problem: Problem) -> bool:
    """Whether the longer evaluation is there and not too slow for this problem."""
    work = (problem.m + problem.ties) * (problem.shape[0] + problem.shape[1])
    return HELPS and problem.scalable and work * problem.shape[1] <= MOST


def _rows(problem: Problem) -> tuple[Any, Any]:
    """Δ (m, d) and z (m, dq) as long doubles; differences of floats are nearly exact here."""
    D = problem.keys[problem.hi].astype(_LONG)
    pair = problem.lo >= 0
    D[pair] -= problem.keys[problem.lo[pair]]
    return D, problem.queries[problem.query].astype(_LONG)


def worst_margin(problem: Problem, W: Floats) -> float:
    """The least margin over b, rounded down; two float64 units for a scaling of W afterwards."""
    D, Z = _rows(problem)
    V = Z @ W.astype(_LONG).T
    margins = np.einsum("kd,kd->k", D, V)
    d, dq = problem.shape
    plain = float(np.linalg.norm(W))
    error = 1.01 * plain * ((d + dq + 7) * _LONG_UNIT * problem.row_norms)
    # A scaling rounds each entry of W: the margin moves by at most |Δ|ᵀ|W||z| units.
    moved = np.einsum("kd,kd->k", np.abs(D), np.abs(Z) @ np.abs(W).astype(_LONG).T)
    safe = margins - error - 1.01 * UNIT * moved
    return float((safe / problem.b).min() * (1 - 4 * UNIT))


def lower(problem: Problem, norm: Norm, lam: Floats) -> Below:
    """The lower bound of λ with A*λ summed in longer numbers."""
    D, Z = _rows(problem)
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
