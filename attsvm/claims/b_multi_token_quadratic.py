"""B: with a quadratic head the tokens that stay are known in closed form."""

from __future__ import annotations

from attsvm.claims.claim import Claim
from attsvm.claims.multi_token import check, plot, run

_FULL = {
    "head": "quadratic", "penalty": 0.3, "size": [3, 4], "dimensions": [4, 6, 8, 10], "seeds": 60,
    "rule": "gd", "lr": 10.0, "schedule": "constant", "steps": 20_000, "filter": [1e-6, 1e-3],
    "clear": 0.05, "premise": "no score lies within 0.05 of the level at which a token is dropped",
    # The published readings of the ReLU head.
    "away": {"4": 0.035, "6": 0.017, "8": 0.011, "10": 0.0055},
    "times": 1.5,
}  # fmt: skip

CLAIM = Claim(
    id="B.multi-token-quadratic",
    title="Several tokens stay: quadratic head",
    kind="figure",
    trust="code",
    statement="With the head v·o − λ‖o‖² on orthonormal tokens, attention ends in nearly all runs "
    "at the closed form (γ − ν)₊/(2λ), and W is near a finite part, which sets those ratios, plus "
    "a multiple of the max-margin direction of the tokens that stay.",
    full=_FULL,
    quick={**_FULL, "dimensions": [4, 10], "seeds": 20, "steps": 8000},
    run=run,
    check=check,
    plot=plot,
    differs="The released runs use constant normalized steps, which never settle inside the set "
    "of tokens that stay, and drop runs by a filter on attention. Here plain gradient descent is "
    "used, and which tokens stay is known beforehand, so that no run is dropped by its outcome.",
    reference="tarzanagh2023svm",
)
