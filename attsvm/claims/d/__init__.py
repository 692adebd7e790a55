"""Claims of the paper on next-token prediction [huang2024nexttoken]."""

from __future__ import annotations

from attsvm.claims.claim import Claim
from attsvm.claims.d import (
    cyclic_data,
    generalization_on_unseen,
    order_extension_ties,
    rates,
    two_stage_against_one_stage,
    two_stages,
)

CLAIMS: dict[str, Claim] = {
    "D.two-stages": two_stages.CLAIM,
    "D.rates": rates.CLAIM,
    "D.two-stage-against-one-stage": two_stage_against_one_stage.CLAIM,
    "D.generalization-on-unseen": generalization_on_unseen.CLAIM,
    "D.order-extension-ties": order_extension_ties.CLAIM,
    "D.cyclic-data": cyclic_data.CLAIM,
}
