"""Decoupled weight decay: x ← (1 − η λ) x − step, around any optimizer that adds its step to x."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm.errors import Unsupported
from attsvm.training.optimizers.optimizer import Blocks, Optimizer, State, Step
from attsvm.training.optimizers.steps.scaled import over


def with_decay(optimizer: Optimizer, decay: float) -> Optimizer:
    """The optimizer with decoupled weight decay λ = decay; λ = 0 gives the optimizer back.

    The step is that of the optimizer at the undecayed x. `norm` becomes None, since the change of x
    no longer has norm η; the steps without the decay still do, so ‖x‖ settles below 1/λ in it.
    """
    if not 0 <= decay < np.inf:
        raise Unsupported(f"weight decay is {decay}: it must be finite and not negative")
    if decay == 0:
        return optimizer
    if not optimizer.decays:
        raise Unsupported(f"decoupled weight decay is not defined for {optimizer.name}")

    def move(step: Step) -> tuple[Blocks, State]:
        moved, state = optimizer.move(step)
        new = {
            block: moved[block] - over(step.lr * decay, x) * x for block, x in step.params.items()
        }
        return new, state

    return replace(
        optimizer, name=f"{optimizer.name}+decay:{decay:g}", move=move, norm=None, about=()
    )
