"""B: W z of both inputs moves along the lines of the max-margin problem, picture 2."""

from __future__ import annotations

from attsvm.claims.claim import Claim
from attsvm.claims.shared.plane_paths import check, motion, plot, run

_FULL = {
    "example": "path-picture-2", "lr": 0.1, "steps": 2000, "seed": 0,
    "correlation": 0.99,
}  # fmt: skip

CLAIM = Claim(
    id="B.path-picture-2",
    title="Paths in the plane: five tokens an input",
    kind="figure",
    trust="code",
    statement="On the published draw with five tokens an input, normalized descent moves "
    "W z of each input onto the line that the max-margin problem of the selected tokens names: "
    "the Frobenius problem for the weight, the nuclear one for the factors.",
    full=_FULL,
    quick=_FULL,
    run=run,
    check=check,
    plot=plot,
    motion=motion,
    reference="tarzanagh2023svm",
)
