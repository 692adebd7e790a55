"""Rule: how a gradient becomes a step. A pair of pure functions on stacks of arrays.

A gradient comes in scaled form, direction × e^log_scale, because its size leaves the range of
floats while its direction does not. Each parameter (W; p; K and Q; v) is a block with its own
direction and scale, and a rule that normalizes does so block by block, without an additive eps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from attsvm.ground.arrays import Floats
from attsvm.rules.graded import Graded

# Parameters by name, each with a leading stack axis B.
Blocks = dict[str, Floats]
# What a rule remembers, by name: arrays and numbers.
State = dict[str, Any]
# (log of the step size (B,), log of the gradient's norm (B,)) -> log of the time passed (B,).
Clock = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, eq=False)
class Gradient:
    """The gradient of each block as direction (B, ...) and log_scale (B,).

    Block x is direction[x] · e^log_scale[x]; a log_scale of −inf means exactly zero. graded[x] is
    the same block as a sum of terms of any size, for rules that ask for it where it is known.
    """

    direction: Blocks
    log_scale: Blocks
    graded: dict[str, Graded] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Step:
    """What a rule knows when it moves.

    lr (B,) is the step size of this step, loss (B,) the loss (above its infimum for a rule that
    says `needs_floor`), count the number of steps before this one.
    """

    params: Blocks
    gradient: Gradient
    state: State
    lr: Floats
    loss: Floats
    count: int


@dataclass(frozen=True)
class Rule:
    """init(params) gives the first state, move(step) the next params and state.

    Neither changes its arguments. A state is a flat dict of arrays, so that it can be saved. A
    step beyond the range of floats gives params that are not finite.

    What else is true of a rule it says itself; no other code asks for its name.

    norm: the name of the norm in which every step has length lr (ngd: frobenius), None otherwise.
    decays: whether decoupled weight decay is defined. graded: it asks for gradients in graded form.
    A rule that gives small entries or singular directions the weight of large ones is exact only
    with it, and must do without where a model has none. needs_floor: `Step.loss` is the loss above
    its infimum. clock(log lr, log ‖g‖): the log of the time by which plain gradient flow moves on
    in one step; None for a rule that does not follow it. fused: which steps the fused kernels take
    for it, None for none. limit: the rule of the table of limits that it stands for, None where
    nothing is known.
    """

    name: str
    init: Callable[[Blocks], State]
    move: Callable[[Step], tuple[Blocks, State]]
    norm: str | None = None
    decays: bool = True
    graded: bool = False
    needs_floor: bool = False
    clock: Clock | None = None
    fused: Literal["gd", "ngd"] | None = None
    limit: str | None = None

    def update(
        self, params: Blocks, gradient: Gradient, state: State, lr: Floats, loss: Floats, step: int
    ) -> tuple[Blocks, State]:
        """The params and state after this step."""
        return self.move(Step(params, gradient, state, lr, loss, step))
