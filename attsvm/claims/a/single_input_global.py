"""A: with one locally optimal token, every start ends there."""

from __future__ import annotations

from attsvm.claims.claim import Claim
from attsvm.claims.shared.single_input import STARTS, check, motion, plot, run

_FULL = {
    "example": "single-input-global", "starts": STARTS, "ends": [0] * 6, "lr": 0.1, "steps": 1000,
    "reach": 2.5, "grid": 31, "cosine": 0.9994, "half_square": 0.49505,
}  # fmt: skip

CLAIM = Claim(
    id="A.single-input-global",
    title="One input: all starts select the best token",
    kind="figure",
    trust="code",
    statement="On the three-token instance whose other tokens tie, normalized descent on the "
    "prompt ends at the best token from every published start, in the direction of its "
    "max-margin problem.",
    full=_FULL,
    quick={**_FULL, "grid": 15},
    run=run,
    check=check,
    plot=plot,
    motion=motion,
    reference="tarzanagh2023maxmargin",
)
