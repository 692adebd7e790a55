"""Claims that go beyond the four papers."""

from __future__ import annotations

from attsvm.claims.beyond import (
    basins_by_proof,
    factored_spectral,
    float_drift,
    logit_ceiling,
    proved_runs,
    rules_against_norms,
    saturation_is_not_convergence,
)
from attsvm.claims.claim import Claim

CLAIMS: dict[str, Claim] = {
    "beyond.rules-against-norms": rules_against_norms.CLAIM,
    "beyond.factored-spectral": factored_spectral.CLAIM,
    "beyond.saturation-is-not-convergence": saturation_is_not_convergence.CLAIM,
    "beyond.float-drift": float_drift.CLAIM,
    "beyond.logit-ceiling": logit_ceiling.CLAIM,
    "beyond.proved-runs": proved_runs.CLAIM,
    "beyond.basins-by-proof": basins_by_proof.CLAIM,
}
