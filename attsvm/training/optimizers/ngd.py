"""Normalized gradient descent: x ← x − η g/‖g‖, each block by its own Frobenius norm."""

from __future__ import annotations

from dataclasses import replace

from attsvm._utils.arrays import Floats
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps.ridge import with_ridge
from attsvm.training.optimizers.steps.scaled import length, unit
from attsvm.training.optimizers.steps.steepest import memoryless


def toward(G: Floats, log_scale: Floats) -> Floats:
    """g/‖g‖, zero at a zero gradient. No eps is added: the scale drops out before it could."""
    return unit(G, length(G), log_scale)


def optimizer(*, ridge: float = 0.0) -> Optimizer:
    """Normalized gradient descent: every step has Frobenius norm η; ridge: λ of λ ‖x‖² more."""
    made = memoryless("ngd", toward, norm="frobenius")
    return with_ridge(replace(made, clock=_clock, fused="ngd", limit="ngd"), ridge)


def _clock(log_lr: Floats, log_norm: Floats) -> Floats:
    """A step of length η is the time η/‖g‖ of gradient flow."""
    return log_lr - log_norm
