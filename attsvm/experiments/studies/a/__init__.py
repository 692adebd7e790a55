"""Claims of the paper on prompts [tarzanagh2023maxmargin]."""

from __future__ import annotations

from attsvm.experiments.studies.a import (
    contextual_data,
    gd_against_ngd,
    joint,
    joint_path,
    local_if_and_only_if,
    loss_transients,
    multi_input,
    nonlinear_head_path,
    prompt_weight_equivalence,
    regularization_path,
    single_input,
    sparsification,
    vanishing_penalty,
)
from attsvm.experiments.studies.claim import Claim

CLAIMS: dict[str, Claim] = {
    "A.single-input-global": single_input.GLOBAL,
    "A.single-input-local": single_input.LOCAL,
    "A.multi-input": multi_input.CLAIM,
    "A.gd-against-ngd": gd_against_ngd.CLAIM,
    "A.joint-tight": joint.TIGHT,
    "A.joint-relaxed": joint.RELAXED,
    "A.joint-path": joint_path.CLAIM,
    "A.loss-transients": loss_transients.CLAIM,
    "A.prompt-weight-equivalence": prompt_weight_equivalence.CLAIM,
    "A.regularization-path": regularization_path.CLAIM,
    "A.vanishing-penalty": vanishing_penalty.CLAIM,
    "A.nonlinear-head-path": nonlinear_head_path.CLAIM,
    "A.local-if-and-only-if": local_if_and_only_if.CLAIM,
    "A.contextual-data": contextual_data.CLAIM,
    "A.sparsification": sparsification.CLAIM,
}
