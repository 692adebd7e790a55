"""Claims of the paper on next-token prediction [huang2024nexttoken]."""

from __future__ import annotations

from attsvm.experiments.studies.claim import Claim
from attsvm.experiments.studies.d import (
    confused_tokens,
    cyclic_data,
    figure_2,
    generalization_on_unseen,
    proposition_2,
    rates,
    star_orders,
    two_stage_against_one_stage,
    two_stages,
)

CLAIMS: dict[str, Claim] = {
    "D.figure-2": figure_2.CLAIM,
    "D.two-stages": two_stages.CLAIM,
    "D.rates": rates.CLAIM,
    "D.two-stage-against-one-stage": two_stage_against_one_stage.CLAIM,
    "D.generalization-on-unseen": generalization_on_unseen.CLAIM,
    "D.star-orders": star_orders.CLAIM,
    "D.proposition-2": proposition_2.CLAIM,
    "D.confused-tokens": confused_tokens.CLAIM,
    "D.cyclic-data": cyclic_data.CLAIM,
}
