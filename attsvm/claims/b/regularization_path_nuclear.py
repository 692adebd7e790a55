"""B: the least loss in growing balls turns to the nuclear max-margin solution."""

from __future__ import annotations

from attsvm.claims.claim import Claim
from attsvm.claims.shared.least_loss import check, plot, run

_FULL = {
    "shape": [4, 5, 6], "seeds": 10, "model": "factored", "norm": "nuclear", "starts": 2,
    "radii": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0], "correlation": 0.999, "share": 0.99,
}  # fmt: skip

CLAIM = Claim(
    id="B.regularization-path-nuclear",
    title="Regularization path, nuclear",
    kind="theorem",
    trust="read",
    statement="Minimising the loss with ‖K‖² + ‖Q‖² ≤ 2R, K Qᵀ/R tends to the set of "
    "nuclear max-margin solutions of the best tokens as R grows, if they are unique and can be "
    "separated.",
    full=_FULL,
    quick={**_FULL, "seeds": 3, "radii": [1.0, 10.0, 100.0, 1000.0]},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
)
