"""Sign descent: x ← x − η sign(g), the steepest descent in the largest entry.

Signum: x ← x − η sign(m), m the running average of gradients.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps import Average, averaged, by_entry, memoryless, over


def _signs(G: Floats, log_scale: Floats) -> Floats:
    """sign(g), zero in entries that are zero."""
    return np.where(over(log_scale == -np.inf, G), 0.0, np.sign(G))


def _fine_signs(terms: Graded) -> Floats:
    """sign(g), each entry from its own terms however small they are."""
    return np.sign(terms.entries()[0])


def sign() -> Optimizer:
    """Sign descent: the largest entry of every step is η."""
    return replace(memoryless("sign", _signs, norm="max", finely=_fine_signs), limit="sign")


def signum(*, momentum: float = 0.9) -> Optimizer:
    """Sign descent with this momentum β; β = 0 is sign descent."""

    def average(ndim: int) -> Average:
        return by_entry()

    return replace(averaged("signum", average, momentum, graded=True), limit="signum")
