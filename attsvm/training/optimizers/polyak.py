"""Polyak's step: x ← x − η (L − L*)/‖g‖² · g, one step size for all blocks together."""

from __future__ import annotations

import numpy as np

from attsvm.errors import Unsupported
from attsvm.training.optimizers.optimizer import Blocks, Optimizer, State, Step
from attsvm.training.optimizers.steps.scaled import grown, length, log


def optimizer(*, longest: float | None = None) -> Optimizer:
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

    return Optimizer("polyak", init, move, needs_infimum=True, limit="polyak")
