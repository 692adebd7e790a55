"""Signum: x ← x − η sign(m), m the running average of gradients."""

from __future__ import annotations

from dataclasses import replace

from attsvm.training.optimizers.graded.averages import Average, by_entry
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps.steepest import averaged


def optimizer(*, momentum: float = 0.9) -> Optimizer:
    """Sign descent with this momentum β; β = 0 is sign descent."""

    def average(ndim: int) -> Average:
        return by_entry()

    return replace(averaged("signum", average, momentum, graded=True), limit="signum")
