"""A: with every selected token supporting the decoder, the prompt meets its own problem."""

from __future__ import annotations

from attsvm.claims.claim import Claim
from attsvm.claims.shared.joint_descent import check, plot, run

_FULL = {
    "example": "joint-tight", "problem": "whole", "lr": 0.1, "steps": 1000,
    "limit": [4 / 3, 1 / 3], "half_square": 0.944444, "cosine": 0.999,
}  # fmt: skip

CLAIM = Claim(
    id="A.joint-tight",
    title="Prompt and decoder: all inputs support the decoder",
    kind="figure",
    trust="code",
    statement="Normalized descent on prompt and decoder together, with every selected token a "
    "support vector of the decoder, ends in both max-margin directions, the prompt's unrelaxed.",
    full=_FULL,
    quick=_FULL,
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
)
