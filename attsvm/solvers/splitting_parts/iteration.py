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

import numpy as np

from attsvm.ground.arrays import Floats
from attsvm.norms import Norm
from attsvm.norms.norm import Prox
from attsvm.solvers.frobenius.coordinate import Segments, adjoint, descend
from attsvm.solvers.splitting_parts.best import Best

# Steps at most, and between two looks at the bounds.
STEPS = 20_000
LOOK = 10
# Looks without a gap smaller by a tenth, after which the iteration gives up.
PATIENCE = 100
# Epochs of coordinate descent in a step.
EPOCHS = 3
# How far beyond W − V a step goes: below 2.
RELAXED = 1.6
# Until this step γ is moved so that ‖W − V‖ and the last change of V stay within this ratio.
SETTLED, RATIO, FACTOR = 150, 5.0, 0.6

# Where `enough` says no, the gap asked for shrinks by this factor.
SHARPER = 0.2

# Told the gap after every look.
Told = Callable[[float], None]
# Whether W and λ (sorted) are good enough, asked once their plain bounds are.
Enough = Callable[[Floats, Floats], bool]


def alternate(
    rows: Segments,
    norm: Norm,
    prox: Prox,
    lam: Floats,
    *,
    tol: float,
    enough: Enough | None = None,
    told: Told | None = None,
) -> Best:
    """The best pair found for the sorted rows, from Frobenius multipliers λ (m,)."""
    W = adjoint(rows, lam)
    unit = float(norm.value(W))
    # In units in which the start has norm 1, whatever f is grows there with slope 1.
    rows, lam, W = replace(rows, b=rows.b / unit), lam / unit, W / unit
    best = Best(W, lam).below(rows, norm, lam).above(rows, norm, W)
    step = _first_step(norm, W)
    Z, draw = 2.0 * W, np.random.default_rng(0)
    V = prox(Z, step)
    combined = W  # Σ λ_k Δ_k z_kᵀ
    mark, stale = best.gap, 0
    for count in range(1, STEPS + 1):
        if stale >= PATIENCE:
            break
        if best.gap <= tol:
            if enough is None or enough(best.W * unit, best.lam):
                break
            tol *= SHARPER
        centre = 2.0 * V - Z
        W = centre + combined
        descend(rows, lam, W, epochs=EPOCHS, draw=draw)
        combined = W - centre
        Z = Z + RELAXED * (W - V)
        before, V = V, prox(Z, step)
        if count % LOOK:
            continue
        combined = adjoint(rows, lam)
        best = best.below(rows, norm, lam).above(rows, norm, W).above(rows, norm, V)
        stale = 0 if best.gap < 0.9 * mark else stale + 1
        mark = best.gap if stale == 0 else mark
        if told is not None:
            told(best.gap)
        if count <= SETTLED:
            factor = _balance(float(np.linalg.norm(W - V)), float(np.linalg.norm(V - before)))
            if factor != 1.0:
                step, lam, combined = step * factor, lam * factor, combined * factor
                Z = V + (Z - V) * factor
                V = prox(Z, step)
    return replace(best, W=best.W * unit, upper=best.upper * unit, lower=best.lower * unit)


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
