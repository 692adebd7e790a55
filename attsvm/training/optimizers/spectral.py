"""Spectral descent: x ← x − η U Vᵀ, the steepest descent in the largest singular value.

Muon: x ← x − η U Vᵀ of m = U Σ Vᵀ, m the running average of gradients.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.norms import norm_of
from attsvm.norms.norm import UNIT
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.wide import of_logs
from attsvm.training.optimizers.gradient_descent import normalized
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps import Average, averaged, by_terms, memoryless, over, whole

# The odd polynomial a σ + b σ³ + c σ⁵ that Muon applies to the singular values, and how often.
_NEWTON_SCHULZ, _ROUNDS = (3.4445, -4.7750, 2.0315), 5


def exact(G: Floats, log_scale: Floats) -> Floats:
    """U Vᵀ of g = U Σ Vᵀ over its nonzero singular values; g/‖g‖ for a block of vectors (B, d).

    For gradients without a graded form. Singular values below the rounding of the largest one are
    taken as zero: their vectors are noise, and U Vᵀ would give the noise the length of the signal.
    """
    if G.ndim == 2:
        return normalized(G, log_scale)
    return norm_of("spectral").dual_maximizer(np.where(over(log_scale == -np.inf, G), 0.0, G))


def approximate(G: Floats, log_scale: Floats) -> Floats:
    """U f(Σ) Vᵀ by matrix products only, f(σ) near 1: Muon's five rounds of Newton–Schulz.

    With X = g/‖g‖, five times X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X. Singular values of X above
    about 0.01 end between 0.65 and 1.25, smaller ones are cut short, zero stays zero. Vectors
    are normalized exactly.
    """
    X = normalized(G, log_scale)
    if G.ndim == 2:
        return X
    tall = X.shape[-2] > X.shape[-1]
    X = X.swapaxes(-1, -2) if tall else X
    a, b, c = _NEWTON_SCHULZ
    for _ in range(_ROUNDS):
        A = X @ X.swapaxes(-1, -2)
        X = a * X + (b * A + c * (A @ A)) @ X
    return X.swapaxes(-1, -2) if tall else X


def finely(terms: Graded) -> Floats:
    """U Vᵀ over every singular value that the terms have, however small it is."""
    return terms.direction() if terms.right.shape[2] == 1 else terms.resolved()[0]


def terms_of(G: Floats, log_scale: Floats) -> Graded:
    """g as the terms σ u vᵀ of its singular values above the rounding of the largest."""
    U, s, Vt = np.linalg.svd(np.where(over(log_scale == -np.inf, G), 0.0, G), full_matrices=False)
    live = s > s[:, :1] * 4 * UNIT * sum(G.shape[1:])
    number = np.arange(s.shape[1])
    x = of_logs(np.where(live, s, 0.0), np.broadcast_to(log_scale[:, None], s.shape))
    return Graded(np.ascontiguousarray(U.swapaxes(1, 2)), Vt, number, number, *x)


def spectral(*, newton_schulz: bool = False) -> Optimizer:
    """Spectral descent: the largest singular value of every step is η, unless approximated."""
    if newton_schulz:
        made = memoryless("spectral", approximate)
    else:
        made = memoryless("spectral", exact, norm="spectral", finely=finely)
    return replace(made, limit="spectral")


def muon(*, momentum: float = 0.95, newton_schulz: bool = False) -> Optimizer:
    """Spectral descent with this momentum β; β = 0 is spectral descent.

    The singular vectors are exact; newton_schulz=True takes the usual approximation.

    Theory: on linear multiclass models the limit is the spectral max margin [fan2025spectral].
    """

    def average(ndim: int) -> Average:
        if newton_schulz:
            return whole(approximate)
        return whole(normalized) if ndim == 2 else by_terms(terms_of)

    return replace(averaged("muon", average, momentum, graded=not newton_schulz), limit="muon")
