"""Gradient descent: x ← x − η g; normalized, and with Polyak's step size.

Normalized gradient descent: x ← x − η g/‖g‖, each block by its own Frobenius norm.

Polyak's step: x ← x − η (L − L*)/‖g‖² · g, one step size for all blocks together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.training.optimizers.optimizer import (
    POLYAK,
    Blocks,
    Optimizer,
    State,
    Step,
    unheld,
)
from attsvm.training.optimizers.steps import grown, length, log, memoryless, unit, with_ridge


def unscaled(G: Floats, log_scale: Floats) -> Floats:
    """g = e^log_scale G. A gradient below the smallest float moves nothing, as it should."""
    return grown(log_scale, G)


def gd() -> Optimizer:
    """Gradient descent, the step in true scale.

    Theory: on the weight, started far out and near it, it converges in direction to the Frobenius
    max-margin solution of locally optimal tokens [tarzanagh2023maxmargin], [tarzanagh2023svm].
    """
    made = memoryless("gd", unscaled)
    return replace(made, clock=_gd_clock, fused="gd", limit="gd")


def _gd_clock(log_lr: Floats, log_norm: Floats) -> Floats:
    """A step of size η is the time η of gradient flow."""
    return log_lr


def normalized(G: Floats, log_scale: Floats) -> Floats:
    """g/‖g‖, zero at a zero gradient. No eps is added: the scale drops out before it could."""
    return unit(G, length(G), log_scale)


def ngd(*, ridge: float = 0.0) -> Optimizer:
    """Normalized gradient descent: every step has Frobenius norm η; ridge: λ of λ ‖x‖² more."""
    made = memoryless("ngd", normalized, norm="frobenius")
    return with_ridge(replace(made, clock=_ngd_clock, fused="ngd", limit="ngd"), ridge)


def _ngd_clock(log_lr: Floats, log_norm: Floats) -> Floats:
    """A step of length η is the time η/‖g‖ of gradient flow."""
    return log_lr - log_norm


def polyak(*, longest: float | None = None) -> Optimizer:
    """Gradient descent with Polyak's step size, which needs the loss above its infimum L*.

    ‖g‖² sums the squares of all blocks; everything is done in logarithms. Where the gradient or
    the loss is zero nothing moves. If L* is too low, the step η (L − L*)/‖g‖ grows without bound
    as the gradient vanishes: it is taken as it is, to the end of the range of floats. `longest`
    caps its Frobenius norm over all blocks.
    """
    if longest is not None and not 0 < longest < np.inf:
        raise Unsupported(f"polyak has longest = {longest}: it must be positive and finite")

    def init(params: Blocks) -> State:
        return {}

    def move(step: Step) -> tuple[Blocks, State]:
        gradient = step.gradient
        if np.isposinf(step.loss).any():
            raise Unsupported("polyak needs a loss with a finite infimum: this one has none")
        sizes = [gradient.log_scale[x] + log(length(gradient.direction[x])) for x in step.params]
        log_norm = np.logaddexp.reduce([2 * size for size in sizes], axis=0) / 2
        zero = log_norm == -np.inf
        log_norm = np.where(zero, 0.0, log_norm)
        # log of the step's length η (L − L*)/‖g‖; rounding may put a loss below its infimum.
        log_length = log(step.lr) + log(np.maximum(step.loss, 0.0)) - log_norm
        log_length = np.where(zero, -np.inf, log_length)
        if longest is not None:
            log_length = np.minimum(log_length, np.log(longest))
        new = {}
        for block, x in step.params.items():
            logs = log_length - log_norm + gradient.log_scale[block]
            new[block] = x - grown(logs, gradient.direction[block])
        return new, step.state

    rule = unheld(POLYAK, np.inf if longest is None else longest, width=lambda W, z: 0)
    return Optimizer("polyak", init, move, needs_infimum=True, fused=rule, limit="polyak")
