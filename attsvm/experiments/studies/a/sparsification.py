"""A: as a vision transformer trains, its attention weights grow and its attention sparsifies."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.shared.networks import CURVES, ON_IMAGES, QUICK_IMAGES, premises
from attsvm.experiments.study import Checks, Note, Study, Table, at_least, at_most

# Records that are compared: the start, the quarters and the end of training.
_MARKS = 5
JUDGED = "Adam"


def _marks(rows: Table, name: str) -> Floats:
    """A column (networks, marks) at the start, the quarters and the end of training."""
    values = rows.pivot(index="seed", columns="step", values=name).to_numpy()
    places = np.linspace(0, values.shape[1] - 1, _MARKS).round().astype(int)
    return np.asarray(values[:, places])


def checks(table: Table, thresholds: Any) -> Checks:
    """Even at the start; falling from mark to mark while the weights grow, in every run."""
    rows = table[table.method == JUDGED]
    spread, size = _marks(rows, "spread"), _marks(rows, "size")
    falls, grows = np.diff(spread, axis=1), np.diff(size, axis=1)
    yield at_least("least spread at the start", spread[:, 0].min(), 0.9)
    yield at_most("largest change of spread from mark to mark", falls.max(), 0.0)
    yield at_least("least growth of ‖W‖ from mark to mark", grows.min(), 0.0)
    # A map shows the share of the first token's attention that is on patches.
    yield at_most("largest sum of a map", rows.map_sum.max(skipna=False), 1 + 1e-6)
    yield at_least("least entry of a map", rows.map_least.min(skipna=False), 0.0)
    shown = " / ".join(f"{x:.2f}" for x in spread.mean(axis=0))
    sizes = " / ".join(f"{x:.1f}" for x in size.mean(axis=0))
    yield Note(
        f"Spread {shown} (published .99 / .605 / .47 / .25 / .21 over 400 epochs), ‖W‖ {sizes}: "
        "the shapes are compared, not the values, which are of another network, data and length."
    )
    epochs = f"{rows.epoch.max():.0f} epochs of {JUDGED}"
    yield premises(table, f"Fashion-MNIST, {epochs}", judged=rows.seed.nunique())


STUDY = Study(
    id="A.sparsification",
    title="Attention sparsifies as a vision transformer trains",
    source="paper",
    statement="As a vision transformer trains, the norm of its attention weights grows and its "
    "attention, even at the start, sparsifies from quarter to quarter of the training.",
    checks=checks,
    quick={"run": {"plan": QUICK_IMAGES}, "seeds": 2},
    figure={
        **CURVES,
        "value": ["spread", "size"],
        "panels": "method",
        "log": "y",
        "ylabel": "spread of attention, size ‖W‖",
    },
    differs="Fashion-MNIST and a small network in place of CIFAR-10, for fewer epochs. The formula "
    "is not on the slide: ‖s‖₁²/‖s‖₂² by the number of tokens is as recalled; W is K_hᵀ Q_h over "
    "all heads and layers.",
    theorem="slides",
    size="12 of 400 epochs; a smaller network, other images",
    **ON_IMAGES,
)
