"""Normalized mirror descent: u ← u − η g/‖g‖_Q in the dual variable, Q = P/(P − 1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.norms.entrywise import power_norm
from attsvm.training.optimizers.mirror import through_dual
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps.scaled import unit


def optimizer(p: float) -> Optimizer:
    """Mirror descent by the dual norm of each block; P = 2 is normalized gradient descent.

    `norm` is None: the step in u has dual norm η, but the step in x depends on where x is.
    """

    def toward(G: Floats, log_scale: Floats) -> Floats:
        size = np.asarray(power_norm(G.reshape(len(G), 1, -1), p / (p - 1)))
        return unit(G, size, log_scale)

    made = through_dual(f"nmirror:{p:.12g}", toward, p)
    return replace(made, dual=(p, False))
