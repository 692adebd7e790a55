"""The pictures of results, by kind: what `plot()` draws."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from attsvm.plotting.comparison import comparison_picture
from attsvm.plotting.margins import certificate_picture, outcome_picture
from attsvm.plotting.optima import optima_picture, optimality_picture
from attsvm.plotting.run import path_picture
from attsvm.plotting.stages import sentences_picture, stages_picture
from attsvm.plotting.ways import basin_picture, proof_picture, regpath_picture

PICTURES: dict[str, Callable[..., Figure]] = {
    "basin": basin_picture,
    "certificate": certificate_picture,
    "comparison": comparison_picture,
    "optima": optima_picture,
    "optimality": optimality_picture,
    "outcome": outcome_picture,
    "path": path_picture,
    "proof": proof_picture,
    "regpath": regpath_picture,
    "sentences": sentences_picture,
    "stages": stages_picture,
}
