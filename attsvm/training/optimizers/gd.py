"""Gradient descent: x ← x − η g."""

from __future__ import annotations

from dataclasses import replace

from attsvm._utils.arrays import Floats
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps.scaled import grown
from attsvm.training.optimizers.steps.steepest import memoryless


def toward(G: Floats, log_scale: Floats) -> Floats:
    """g = e^log_scale G. A gradient below the smallest float moves nothing, as it should."""
    return grown(log_scale, G)


def optimizer() -> Optimizer:
    """Gradient descent, the step in true scale.

    Theory: on the weight, started far out and near it, it converges in direction to the Frobenius
    max-margin solution of locally optimal tokens [tarzanagh2023maxmargin], [tarzanagh2023svm].
    """
    made = memoryless("gd", toward)
    return replace(made, clock=_clock, fused="gd", limit="gd")


def _clock(log_lr: Floats, log_norm: Floats) -> Floats:
    """A step of size η is the time η of gradient flow."""
    return log_lr
