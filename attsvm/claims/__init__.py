"""The claims, by id: paper letter and name."""

from __future__ import annotations

from difflib import get_close_matches

from attsvm.claims import (
    a_gd_against_ngd,
    a_joint_path,
    a_joint_relaxed,
    a_joint_tight,
    a_loss_transients,
    a_multi_input,
    a_prompt_weight_equivalence,
    a_single_input_global,
    a_single_input_local,
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
}

# Modules of this folder that are not claims themselves.
SUPPORT = ("claim", "drawing", "proof", "single_input", "joint_descent")


def claim_of(name: str) -> Claim:
    """The claim of this id; an unknown one is answered with the nearest."""
    if name in CLAIMS:
        return CLAIMS[name]
    near = get_close_matches(name, CLAIMS, n=3, cutoff=0.3)
    hint = f"nearest are {', '.join(near)}" if near else "`attsvm list` names them all"
    raise Unsupported(f"unknown claim {name!r}: {hint}")
