"""Muon: x ← x − η U Vᵀ of m = U Σ Vᵀ, m the running average of gradients."""

from __future__ import annotations

from dataclasses import replace

from attsvm.training.optimizers import ngd, spectral
from attsvm.training.optimizers.graded.averages import Average, by_terms, whole
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps.steepest import averaged


def optimizer(*, momentum: float = 0.95, newton_schulz: bool = False) -> Optimizer:
    """Spectral descent with this momentum β; β = 0 is spectral descent.

    The singular vectors are exact; newton_schulz=True takes the usual approximation.

    Theory: on linear multiclass models the limit is the spectral max margin [fan2025spectral].
    """

    def average(ndim: int) -> Average:
        if newton_schulz:
            return whole(spectral.approximate)
        return whole(ngd.toward) if ndim == 2 else by_terms(spectral.terms_of)

    return replace(averaged("muon", average, momentum, graded=not newton_schulz), limit="muon")
