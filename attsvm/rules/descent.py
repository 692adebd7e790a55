"""Rules that move along a function of the gradient, or of its running average.

    memoryless:  x ← x − η D(g)          averaged:  m ← β m + (1 − β) g,   x ← x − η D(m)

with m₀ = 0 and D given by each rule: g itself, g/‖g‖, sign(g), U Vᵀ.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from attsvm.errors import Unsupported
from attsvm.rules.rule import Blocks, Gradient, Rule, State, Step
from attsvm.rules.scaled import log, log_of, over, peak, unit
from attsvm.tokens import Floats

# D(direction (B, ...), log_scale (B,)) of one block: (B, ...).
Toward = Callable[[Floats, Floats], Floats]


def memoryless(name: str, toward: Toward, *, norm: str | None = None) -> Rule:
    """The rule x ← x − η D(g), block by block."""

    def init(params: Blocks) -> State:
        return {}

    def move(step: Step) -> tuple[Blocks, State]:
        new = {}
        for block, x in step.params.items():
            D = toward(step.gradient.direction[block], step.gradient.log_scale[block])
            with np.errstate(invalid="ignore"):  # 0 · inf, for lr = 0
                new[block] = x - over(step.lr, x) * D
        return new, step.state

    return Rule(name, init, move, norm)


def averaged(name: str, toward: Toward, beta: float) -> Rule:
    """The rule m ← β m + (1 − β) g, x ← x − η D(m), block by block.

    The average spans as many orders of magnitude as the gradients do, so it is kept as a
    direction with largest entry 1 and a log scale, both renewed at each step. Entries smaller
    than the largest of their block by more than e^745 are zero.
    """
    if not 0 <= beta < 1:
        raise Unsupported(f"{name} has momentum β = {beta}: it must lie in [0, 1)")
    keep, add = log_of(beta), math.log1p(-beta)

    def init(params: Blocks) -> State:
        state: State = {}
        for block, x in params.items():
            state |= {f"{block}.mean": np.zeros_like(x), f"{block}.log": np.full(len(x), -np.inf)}
        return state

    def move(step: Step) -> tuple[Blocks, State]:
        new: Blocks = {}
        averages: State = {}
        for block, x in step.params.items():
            mean = step.state[f"{block}.mean"], step.state[f"{block}.log"]
            M, log_scale = _average(mean, step.gradient, block, keep=keep, add=add)
            new[block] = x - over(step.lr, x) * toward(M, log_scale)
            averages |= {f"{block}.mean": M, f"{block}.log": log_scale}
        return new, averages

    return Rule(name, init, move)


def _average(
    mean: tuple[Floats, Floats], gradient: Gradient, block: str, *, keep: float, add: float
) -> tuple[Floats, Floats]:
    """β m + (1 − β) g as (direction, log scale), with keep = log β and add = log(1 − β)."""
    M, log_mean = mean
    top = peak(gradient.direction[block])
    G = unit(gradient.direction[block], top, gradient.log_scale[block])
    old, fresh = log_mean + keep, gradient.log_scale[block] + log(top) + add
    scale = np.maximum(old, fresh)
    base = np.where(scale == -np.inf, 0.0, scale)  # −inf − (−inf) is no number
    M = over(np.exp(old - base), M) * M + over(np.exp(fresh - base), G) * G
    top = peak(M)
    return unit(M, top, scale), scale + log(top)
