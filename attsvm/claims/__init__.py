"""The claims, by id: paper letter and name."""

from __future__ import annotations

from difflib import get_close_matches

from attsvm.claims import (
    a_single_input_global,
    a_single_input_local,
)
from attsvm.claims.claim import Claim
from attsvm.errors import Unsupported

CLAIMS: dict[str, Claim] = {
    "A.single-input-global": a_single_input_global.CLAIM,
    "A.single-input-local": a_single_input_local.CLAIM,
}

# Modules of this folder that are not claims themselves.
SUPPORT = ("claim", "drawing", "proof", "single_input")


def claim_of(name: str) -> Claim:
    """The claim of this id; an unknown one is answered with the nearest."""
    if name in CLAIMS:
        return CLAIMS[name]
    near = get_close_matches(name, CLAIMS, n=3, cutoff=0.3)
    hint = f"nearest are {', '.join(near)}" if near else "`attsvm list` names them all"
    raise Unsupported(f"unknown claim {name!r}: {hint}")
