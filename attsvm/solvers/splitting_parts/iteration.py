"""Douglas–Rachford steps between the rows, met in Frobenius norm, and the norm's proximal map.

    min f(V)  s.t.  W = V,  W meets the rows

    V = prox(Z, γ);   W = the matrix nearest to 2V − Z that meets the rows;   Z ← Z + 1.6 (W − V)

The nearest matrix is 2V − Z + Σ λ_k Δ_k z_kᵀ with λ from coordinate descent, which goes on from
the last λ: a few epochs do. At the end V = W, and λ/γ are multipliers of the problem.

Theory: [eckstein1992douglas], inexact steps included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.progress import Progress, share_of_gap
from attsvm.norms import Norm
from attsvm.norms.norm import Prox
from attsvm.solvers.frobenius.coordinate import Segments, Waiting, adjoint, descend
from attsvm.solvers.splitting_parts.best import Best, BestSoft

# Steps at most, between two looks at the bounds, and the first two looks.
STEPS = 20_000
LOOK, EARLY = 10, (3, 6)
# Looks without a gap smaller by a tenth, after which the iteration gives up.
PATIENCE = 40
# Epochs at most, all steps together.
LIMIT = 40_000
# Epochs of coordinate descent in a step: at first, and at most. They double where the last one
# moves W by more than the second share of how far W and V are apart, and halve below the first.
EPOCHS, MOST, CLOSE = 3, 32, (0.02, 0.2)
# Looks without progress after which the least doubles, and the most: nearly dependent rows.
PAUSE, IDLE = 3, 10
# Epochs between two visits of every row; a row waits that is further from tight than the worst
# violation, and than this share of how far W and V are apart.
REFRESH, FAR = 16, 0.1
# How far beyond W − V a step goes: below 2.
RELAXED = 1.6
# Until this step, and where nothing else helps, γ is moved so that ‖W − V‖/‖V‖ and the last change
# of V over ‖Z − V‖ stay within this ratio.
SETTLED, RATIO, FACTOR = 150, 5.0, 0.6

# Where `enough` says no, the gap asked for shrinks by this factor, so many times.
SHARPER, REFUSED = 0.2, 4

# Whether W and λ (sorted) are good enough, asked once their plain bounds are.
Enough = Callable[[Floats, Floats], bool]


class Leave(Protocol):
    """Whether to leave off before the gap is reached, asked at every look."""

    def __call__(self, lam: Floats, *, gap: float, epochs: int, stale: int) -> bool:
        """lam: the best multipliers; stale: looks without progress."""


def alternate(
    rows: Segments,
    norm: Norm,
    prox: Prox,
    lam: Floats,
    *,
    tol: float,
    enough: Enough | None = None,
    leave: Leave | None = None,
    told: Progress | None = None,
) -> tuple[Floats, Floats]:
    """The best W (d, dq) and λ (m,) found for the sorted rows, from Frobenius multipliers λ.

    prox: that of the norm; of half its square where the rows have a budget.
    """
    W = adjoint(rows, lam)
    unit = float(norm.value(W))
    # In units in which the start has norm 1, whatever f is grows there with slope 1.
    cap = rows.ceil / unit
    rows, lam, W = replace(rows, b=rows.b / unit), lam / unit, W / unit
    soft = bool(np.isfinite(cap).any())
    best: Best | BestSoft = BestSoft(W, lam, cap) if soft else Best(W, lam)
    best = best.below(rows, norm, lam).above(rows, norm, W)
    step = _first_step(norm, W)
    Z, draw = 2.0 * W, np.random.default_rng(0)
    V = prox(Z, step)
    rows, lam = _capped(rows, lam, step * cap)
    combined = adjoint(rows, lam)
    waiting, epochs, worst, apart = Waiting(rows, refresh=REFRESH), EPOCHS, np.inf, np.inf
    first = mark = best.gap
    stale = refused = 0
    for count in range(1, STEPS + 1):
        if stale >= PATIENCE or waiting.epochs > LIMIT:
            break
        if best.gap <= tol:
            if enough is None or enough(best.W * unit, best.lam * (unit if soft else 1.0)):
                break
            tol, refused = tol * SHARPER, refused + 1
            if refused == REFUSED:
                break
        centre = 2.0 * V - Z
        W = centre + combined
        worst = max(worst, FAR * apart)
        worst = descend(rows, lam, W, epochs=epochs - 1, draw=draw, cut=worst, waiting=waiting)
        last = W.copy()
        worst = descend(rows, lam, W, epochs=1, draw=draw, cut=worst, waiting=waiting)
        apart = _size(W - V)
        epochs = _epochs(epochs, float(np.linalg.norm(W - last)) / apart, stale)
        combined = W - centre
        Z = Z + RELAXED * (W - V)
        before, V = V, prox(Z, step)
        if count % LOOK and count not in EARLY:
            continue
        combined = adjoint(rows, lam)
        best = best.below(rows, norm, lam / step).above(rows, norm, W).above(rows, norm, V)
        stale = 0 if best.gap < 0.9 * mark else stale + 1
        mark = best.gap if stale == 0 else mark
        if told is not None:
            first = best.gap if first == np.inf else first
            told(share_of_gap(first, best.gap, tol), f"gap {best.gap:.1e}")
        if leave and leave(best.lam, gap=best.gap, epochs=waiting.epochs, stale=stale):
            break
        # What stands still may be a row that waits, and is missed in between.
        waiting.refresh = max(1, REFRESH >> stale // 2)
        if count <= SETTLED or (stale and stale % IDLE == 0):
            factor = _balance(apart / _size(V), _size(V - before) / _size(Z - V))
            if factor != 1.0:
                step, lam, combined = step * factor, lam * factor, combined * factor
                Z = V + (Z - V) * factor
                V = prox(Z, step)
                rows, lam = _capped(rows, lam, step * cap)
    return best.W * unit, best.lam * (unit if soft else 1.0)


def _capped(rows: Segments, lam: Floats, ceil: Floats) -> tuple[Segments, Floats]:
    """The rows with other bounds on λ, and λ within them; a row without features has the bound."""
    if not np.isfinite(ceil).any():
        return rows, lam
    lam = np.where((rows.length == 0.0) & (rows.b > 0.0), ceil, np.minimum(lam, ceil))
    return replace(rows, ceil=ceil), lam


def _size(V: Floats) -> float:
    """‖V‖_F, and 1 for zero."""
    return float(np.linalg.norm(V)) or 1.0


def _epochs(now: int, moved: float, stale: int) -> int:
    """How many epochs the next step takes; moved: how far W went in the last one, over ‖W − V‖."""
    least, most = 2 << min(stale // PAUSE, 5), MOST << min(stale // IDLE, 2)
    if moved > CLOSE[1]:
        now = 2 * now
    elif moved < CLOSE[0]:
        now = now // 2
    return min(max(now, least), most)


def _first_step(norm: Norm, W: Floats) -> float:
    """γ with which γ∇f is as large as W, for W of norm 1."""
    size = float(np.linalg.norm(W))
    if norm.normal is not None:
        return size / float(np.linalg.norm(norm.normal(W)))
    return size * size


def _balance(apart: float, moved: float) -> float:
    """The factor by which γ is to change: W and V too far apart, or V moving too fast."""
    if apart > RATIO * moved:
        return FACTOR
    return 1.0 / FACTOR if moved > RATIO * apart else 1.0
