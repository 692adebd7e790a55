"""A: an input that does not support the decoder is only asked to tie."""

from __future__ import annotations

from attsvm.claims.claim import Claim
from attsvm.claims.shared.joint_descent import check, plot, run

_FULL = {
    "example": "joint-relaxed", "problem": "relaxed", "lr": 0.1, "steps": 1000,
    "limit": [1.0, 0.0], "half_square": 0.5, "cosine": 0.999,
}  # fmt: skip

CLAIM = Claim(
    id="A.joint-relaxed",
    title="Prompt and decoder: one input does not support the decoder",
    kind="figure",
    trust="code",
    statement="When one selected token is no support vector of the decoder, the prompt of the "
    "published descent ends in the direction of the relaxed problem, which asks that input for a "
    "margin of 0 only, and not in that of the unrelaxed one.",
    full=_FULL,
    quick=_FULL,
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
)
