"""C: on images ℓ1.1 mirror descent is about as accurate as Adam, with sparser attention weights."""

from __future__ import annotations

from typing import Any

from attsvm.experiments.studies.shared.image_networks import QUICK, STUDIED
from attsvm.experiments.studies.shared.networks import (
    CURVES,
    LETTERS,
    difference,
    networks_of,
    premises,
)
from attsvm.experiments.study import Checks, Note, Study, Table, info

_WHY = (
    "Not the published parameterization: training ends at epoch 12 of 1,000, where the published "
    "curve has mirror descent about 17 points behind Adam; it is level from epoch 150 to 200 on. "
    "In separate runs from one start it was 3.6 points behind at 12 epochs and 1.7 at 36."
)


def checks(table: Table, thresholds: Any) -> Checks:
    """ℓ1.1 beside Adam in test accuracy, and entries of K, Q and V above the level.

    Nothing is judged: the networks are trained for a small part of the published epochs.
    """
    found = networks_of(table, thresholds["matched"])
    accuracy = found.chosen
    for other in ("Adam", "p = 2"):
        yield from difference(
            f"p = 1.1 less {other}, test accuracy", accuracy["p = 1.1"], accuracy[other]
        )
    for method, rows in found.groupby("method", sort=False):
        yield info(f"{method}: mean test accuracy", rows.chosen.mean())
        yield info(f"{method}: runs that collapse", rows.collapsed.sum())
    for letter in LETTERS:
        count = found[f"{letter}_above"]
        yield from difference(f"{letter}: p = 1.1 less Adam", count["p = 1.1"], count["Adam"])
    yield Note(_WHY)
    yield premises(table, "Fashion-MNIST")


STUDY = Study(
    id="C.real-images",
    title="Mirror descent with p = 1.1 against Adam on images",
    source="figure",
    statement="Trained on images, a small vision transformer has about the test accuracy of Adam "
    "under ℓ1.1 mirror descent (at most two points less), with fewer entries of K, Q and V above a "
    "level set before training.",
    checks=checks,
    thresholds={"matched": 0.8},
    quick={"run": {"plan": QUICK}, "seeds": 2, "thresholds": {"matched": 0.5}},
    figure={**CURVES, "value": "test_accuracy", "lines": "method", "ylabel": "test accuracy"},
    differs="Fashion-MNIST and two layers of width 32 in place of CIFAR-10 and six of width 512; "
    "three initial networks each in place of one run; rates are tuned alike; plain gradient "
    "descent is beside them.",
    size="12 of 1,000 epochs; a smaller network, other images",
    **STUDIED,
)
