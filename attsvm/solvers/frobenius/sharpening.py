"""Sharpening a proof of infeasibility until its residual is rounding alone.

Multipliers λ ≥ 0 with Σ λ_k A_k ≈ 0 and Σ bλ > 0 are projected on the null space of their own
rows: λ − F⁺ᵀ(Fᵀλ) with F the unit rows as vectors, a few times over. Rows whose multiplier turns
negative are dropped.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.solvers.solver import Answer, RowArrays

# Numbers in the dense feature matrix of the support; beyond this the proof is left as it is.
_MOST = 2.5e7


def sharpen(rows: RowArrays, lam: Floats) -> Answer:
    """The proof with its residual reduced; `lam` (k,) are multipliers of these rows."""
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
        part = RowArrays(
            rows.D[support],
            rows.z,
            rows.query[support],
            rows.norms[support],
            rows.b[support],
            rows.free[support],
            support,
            len(unit),
            len(unit),
        )
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
