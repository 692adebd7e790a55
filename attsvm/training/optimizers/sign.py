"""Sign descent: x ← x − η sign(g), the steepest descent in the largest entry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps.scaled import over
from attsvm.training.optimizers.steps.steepest import memoryless


def toward(G: Floats, log_scale: Floats) -> Floats:
    """sign(g), zero in entries that are zero."""
    return np.where(over(log_scale == -np.inf, G), 0.0, np.sign(G))


def finely(terms: Graded) -> Floats:
    """sign(g), each entry from its own terms however small they are."""
    return np.sign(terms.entries()[0])


def optimizer() -> Optimizer:
    """Sign descent: the largest entry of every step is η."""
    return replace(memoryless("sign", toward, norm="max", finely=finely), limit="sign")
