"""Claims that go beyond the four papers."""

from __future__ import annotations

from attsvm.experiments.studies.beyond import (
    basins_by_proof,
    factored_spectral,
    flipped_labels,
    float_drift,
    logit_ceiling,
    mini_batches,
    proved_runs,
    rules_against_norms,
    saturation_is_not_convergence,
    saturation_time,
)
from attsvm.experiments.studies.claim import Claim

CLAIMS: dict[str, Claim] = {
    "beyond.rules-against-norms": rules_against_norms.CLAIM,
    "beyond.factored-spectral": factored_spectral.CLAIM,
    "beyond.saturation-is-not-convergence": saturation_is_not_convergence.CLAIM,
    "beyond.float-drift": float_drift.CLAIM,
    "beyond.logit-ceiling": logit_ceiling.CLAIM,
    "beyond.proved-runs": proved_runs.CLAIM,
    "beyond.basins-by-proof": basins_by_proof.CLAIM,
    "beyond.saturation-time": saturation_time.CLAIM,
    "beyond.flipped-labels": flipped_labels.CLAIM,
    "beyond.mini-batches": mini_batches.CLAIM,
}
