"""A: with two locally optimal tokens, the start decides."""

from __future__ import annotations

from attsvm.claims.claim import Claim
from attsvm.claims.shared.single_input import STARTS, check, motion, plot, run

_FULL = {
    "example": "single-input-local", "starts": STARTS, "ends": [0, 0, 0, 0, 1, 1], "lr": 0.1,
    "steps": 1000, "reach": 2.5, "grid": 31, "cosine": 0.9994, "half_square": 0.49505,
}  # fmt: skip

CLAIM = Claim(
    id="A.single-input-local",
    title="One input: a second token becomes locally optimal",
    kind="figure",
    trust="code",
    statement="With the third token's score at 0 the second token is locally optimal as well, and "
    "starts far enough on its side end there, in the direction of its own max-margin problem.",
    full=_FULL,
    quick={**_FULL, "grid": 15},
    run=run,
    check=check,
    plot=plot,
    motion=motion,
    reference="tarzanagh2023maxmargin",
)
