"""Muon: x ← x − η U Vᵀ of m = U Σ Vᵀ, m the running average of gradients."""

from __future__ import annotations

from attsvm.rules import spectral
from attsvm.rules.descent import averaged
from attsvm.rules.rule import Rule


def rule(*, momentum: float = 0.95, newton_schulz: bool = False) -> Rule:
    """Spectral descent with this momentum β; β = 0 is spectral descent.

    The singular vectors are exact; newton_schulz=True takes the usual approximation.

    Theory: on linear multiclass models the limit is the spectral max margin [fan2025spectral].
    """
    return averaged("muon", spectral.toward(newton_schulz=newton_schulz), momentum)
