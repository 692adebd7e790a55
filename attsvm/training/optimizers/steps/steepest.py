"""Optimizers that move along a function of the gradient, or of its running average.

    memoryless:  x ← x − η D(g)          averaged:  m ← β m + (1 − β) g,   x ← x − η D(m)

with m₀ = 0 and D given by each optimizer: g itself, g/‖g‖, sign(g), U Vᵀ.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.averages import Average
from attsvm.training.optimizers.optimizer import Blocks, Optimizer, State, Step
from attsvm.training.optimizers.steps.scaled import over

# D(direction (B, ...), log_scale (B,)) of one block: (B, ...).
Toward = Callable[[Floats, Floats], Floats]
# The same from the block's terms.
Finely = Callable[[Graded], Floats]


def memoryless(
    name: str, toward: Toward, *, norm: str | None = None, finely: Finely | None = None
) -> Optimizer:
    """The optimizer x ← x − η D(g), block by block.

    finely: D from the graded form of a block, where there is one.
    """

    def init(params: Blocks) -> State:
        return {}

    def move(step: Step) -> tuple[Blocks, State]:
        new = {}
        for block, x in step.params.items():
            terms = step.gradient.graded.get(block)
            if finely is None or terms is None:
                D = toward(step.gradient.direction[block], step.gradient.log_scale[block])
            else:
                D = finely(terms).reshape(x.shape)
            with np.errstate(invalid="ignore"):  # 0 · inf, for lr = 0
                new[block] = x - over(step.lr, x) * D
        return new, step.state

    return Optimizer(name, init, move, norm, graded=finely is not None)


def averaged(
    name: str, average: Callable[[int], Average], beta: float, *, graded: bool = False
) -> Optimizer:
    """The optimizer m ← β m + (1 − β) g, x ← x − η D(m), block by block.

    The average spans as many orders of magnitude as the gradients do: average(ndim) says how that
    of a block with this many axes is kept, and what D is.
    """
    if not 0 <= beta < 1:
        raise Unsupported(f"{name} has momentum β = {beta}: it must lie in [0, 1)")

    def init(params: Blocks) -> State:
        return {
            f"{block}.{part}": value
            for block, x in params.items()
            for part, value in average(x.ndim).first(x.shape).items()
        }

    def move(step: Step) -> tuple[Blocks, State]:
        new: Blocks = {}
        after: State = {}
        for block, x in step.params.items():
            kept = average(x.ndim)
            before = {part: step.state[f"{block}.{part}"] for part in kept.parts}
            gradient = step.gradient
            D, now = kept.after(
                before,
                gradient.direction[block],
                gradient.log_scale[block],
                gradient.graded.get(block),
                beta,
            )
            new[block] = x - over(step.lr, x) * D
            after |= {f"{block}.{part}": value for part, value in now.items()}
        return new, after

    return Optimizer(name, init, move, graded=graded)
