"""A ridge: descent on the loss and λ ‖x‖² for every block x, by an optimizer without memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm.errors import Unsupported
from attsvm.training.optimizers.optimizer import Blocks, Gradient, Optimizer, State, Step
from attsvm.training.optimizers.steps.scaled import grown


def with_ridge(optimizer: Optimizer, ridge: float) -> Optimizer:
    """The optimizer on the loss with λ ‖x‖² more for every block x, λ = ridge; λ = 0 gives it back.

    The gradient g + 2λ x is formed with the larger of both exponents taken out, so that neither
    part is lost before the other is. What a run records of loss and gradient is without the ridge.
    Unlike decay it is part of what a normalized step divides by.
    """
    if not 0 <= ridge < np.inf:
        raise Unsupported(
            f"{optimizer.name} has the ridge {ridge}: it must be finite and not negative"
        )
    if ridge == 0:
        return optimizer
    own = np.log(2.0 * ridge)

    def move(step: Step) -> tuple[Blocks, State]:
        direction: Blocks = {}
        log_scale: Blocks = {}
        for block, x in step.params.items():
            scale = step.gradient.log_scale[block]
            peak = np.maximum(scale, own)
            loss, pull = (scale - peak, step.gradient.direction[block]), (own - peak, x)
            direction[block] = grown(*loss) + grown(*pull)
            log_scale[block] = peak
        return optimizer.move(replace(step, gradient=Gradient(direction, log_scale)))

    name = f"{optimizer.name}+ridge:{ridge:g}"
    return replace(optimizer, name=name, move=move, clock=None, limit=None, ridge=ridge, about=())
