"""Claims of the paper on weights [tarzanagh2023svm]."""

from __future__ import annotations

from attsvm.claims.b import (
    ends_against_dimension,
    equal_scores_global,
    global_share_against_dimension,
    initial_gradient_condition,
    local_convergence,
    local_if_and_only_if,
    multi_token,
    no_stationary_points,
    path_picture,
    rank,
    regularization_path,
    self_attention,
    separability_against_dimension,
    sequence_attention,
    two_layer,
    width_against_nuclear,
)
from attsvm.claims.claim import Claim

CLAIMS: dict[str, Claim] = {
    "B.path-picture-1": path_picture.FIRST,
    "B.path-picture-2": path_picture.SECOND,
    "B.local-convergence": local_convergence.CLAIM,
    "B.rank": rank.CLAIM,
    "B.multi-token-relu": multi_token.RELU,
    "B.multi-token-quadratic": multi_token.QUADRATIC,
    "B.separability-against-dimension": separability_against_dimension.CLAIM,
    "B.ends-against-dimension": ends_against_dimension.CLAIM,
    "B.global-share-against-dimension": global_share_against_dimension.CLAIM,
    "B.width-against-nuclear": width_against_nuclear.CLAIM,
    "B.no-stationary-points": no_stationary_points.CLAIM,
    "B.equal-scores-global": equal_scores_global.CLAIM,
    "B.initial-gradient-condition": initial_gradient_condition.CLAIM,
    "B.local-if-and-only-if": local_if_and_only_if.CLAIM,
    "B.regularization-path-frobenius": regularization_path.FROBENIUS,
    "B.regularization-path-nuclear": regularization_path.NUCLEAR,
    "B.self-attention": self_attention.CLAIM,
    "B.sequence-attention": sequence_attention.CLAIM,
    "B.two-layer": two_layer.CLAIM,
}
