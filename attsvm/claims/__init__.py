"""The claims, by id: paper letter and name."""

from __future__ import annotations

from difflib import get_close_matches

from attsvm.claims import (
    a_contextual_data,
    a_gd_against_ngd,
    a_joint_path,
    a_joint_relaxed,
    a_joint_tight,
    a_local_if_and_only_if,
    a_loss_transients,
    a_multi_input,
    a_nonlinear_head_path,
    a_prompt_weight_equivalence,
    a_regularization_path,
    a_single_input_global,
    a_single_input_local,
    a_vanishing_penalty,
    b_equal_scores_global,
    b_global_share_against_dimension,
    b_initial_gradient_condition,
    b_local_convergence,
    b_local_if_and_only_if,
    b_multi_token_quadratic,
    b_multi_token_relu,
    b_no_stationary_points,
    b_path_picture_1,
    b_path_picture_2,
    b_rank,
    b_regularization_path_frobenius,
    b_regularization_path_nuclear,
    b_self_attention,
    b_separability_against_dimension,
    b_sequence_attention,
    b_two_layer,
    beyond_factored_spectral,
    beyond_float_drift,
    beyond_logit_ceiling,
    beyond_rules_against_norms,
    beyond_saturation_is_not_convergence,
    c_cross_p_divergence,
    c_joint_mirror,
    c_joint_mirror_path,
    c_mirror_path,
    c_mirror_rates,
    c_single_instance,
)
from attsvm.claims.claim import Claim
from attsvm.errors import Unsupported

CLAIMS: dict[str, Claim] = {
    "A.single-input-global": a_single_input_global.CLAIM,
    "A.single-input-local": a_single_input_local.CLAIM,
    "A.multi-input": a_multi_input.CLAIM,
    "A.gd-against-ngd": a_gd_against_ngd.CLAIM,
    "A.joint-tight": a_joint_tight.CLAIM,
    "A.joint-relaxed": a_joint_relaxed.CLAIM,
    "A.joint-path": a_joint_path.CLAIM,
    "A.loss-transients": a_loss_transients.CLAIM,
    "A.prompt-weight-equivalence": a_prompt_weight_equivalence.CLAIM,
    "A.regularization-path": a_regularization_path.CLAIM,
    "A.vanishing-penalty": a_vanishing_penalty.CLAIM,
    "A.nonlinear-head-path": a_nonlinear_head_path.CLAIM,
    "A.local-if-and-only-if": a_local_if_and_only_if.CLAIM,
    "A.contextual-data": a_contextual_data.CLAIM,
    "B.path-picture-1": b_path_picture_1.CLAIM,
    "B.path-picture-2": b_path_picture_2.CLAIM,
    "B.local-convergence": b_local_convergence.CLAIM,
    "B.rank": b_rank.CLAIM,
    "B.multi-token-relu": b_multi_token_relu.CLAIM,
    "B.multi-token-quadratic": b_multi_token_quadratic.CLAIM,
    "B.separability-against-dimension": b_separability_against_dimension.CLAIM,
    "B.global-share-against-dimension": b_global_share_against_dimension.CLAIM,
    "B.no-stationary-points": b_no_stationary_points.CLAIM,
    "B.equal-scores-global": b_equal_scores_global.CLAIM,
    "B.initial-gradient-condition": b_initial_gradient_condition.CLAIM,
    "B.local-if-and-only-if": b_local_if_and_only_if.CLAIM,
    "B.regularization-path-frobenius": b_regularization_path_frobenius.CLAIM,
    "B.regularization-path-nuclear": b_regularization_path_nuclear.CLAIM,
    "B.self-attention": b_self_attention.CLAIM,
    "B.sequence-attention": b_sequence_attention.CLAIM,
    "B.two-layer": b_two_layer.CLAIM,
    "C.cross-p-divergence": c_cross_p_divergence.CLAIM,
    "C.single-instance": c_single_instance.CLAIM,
    "C.joint-mirror": c_joint_mirror.CLAIM,
    "C.mirror-rates": c_mirror_rates.CLAIM,
    "C.mirror-path": c_mirror_path.CLAIM,
    "C.joint-mirror-path": c_joint_mirror_path.CLAIM,
    "beyond.rules-against-norms": beyond_rules_against_norms.CLAIM,
    "beyond.factored-spectral": beyond_factored_spectral.CLAIM,
    "beyond.saturation-is-not-convergence": beyond_saturation_is_not_convergence.CLAIM,
    "beyond.float-drift": beyond_float_drift.CLAIM,
    "beyond.logit-ceiling": beyond_logit_ceiling.CLAIM,
}

# Modules of this folder that are not claims themselves.
SUPPORT = (
    "attending_runs",
    "claim",
    "drawing",
    "flow_clock",
    "joint_descent",
    "joint_mirror_instance",
    "kept_sets",
    "least_loss",
    "mirror_runs",
    "multi_token",
    "plane_paths",
    "prompt_paths",
    "proof",
    "published",
    "random_instances",
    "single_input",
    "steepest_runs",
)


def claim_of(name: str) -> Claim:
    """The claim of this id; an unknown one is answered with the nearest."""
    if name in CLAIMS:
        return CLAIMS[name]
    near = get_close_matches(name, CLAIMS, n=3, cutoff=0.3)
    hint = f"nearest are {', '.join(near)}" if near else "`attsvm list` names them all"
    raise Unsupported(f"unknown claim {name!r}: {hint}")
