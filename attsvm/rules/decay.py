"""Decoupled weight decay: x ← (1 − η λ) x − step, around any rule that adds its step to x."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attsvm.errors import Unsupported
from attsvm.rules.rule import Blocks, Gradient, Rule
from attsvm.rules.scaled import over
from attsvm.tokens import Floats


def with_decay(rule: Rule, decay: float) -> Rule:
    """The rule with decoupled weight decay λ = decay; λ = 0 gives the rule back.

    The step is that of the rule at the undecayed x. `norm` becomes None, since the change of x
    no longer has norm η; the steps without the decay still do, so ‖x‖ settles below 1/λ in it.
    """
    if not 0 <= decay < np.inf:
        raise Unsupported(f"weight decay is {decay}: it must be finite and not negative")
    if decay == 0:
        return rule
    if not rule.decays:
        raise Unsupported(f"decoupled weight decay is not defined for {rule.name}")

    def update(
        params: Blocks,
        gradient: Gradient,
        state: dict[str, Any],
        lr: Floats,
        loss: Floats,
        step: int,
    ) -> tuple[Blocks, dict[str, Any]]:
        moved, state = rule.update(params, gradient, state, lr, loss, step)
        new = {block: moved[block] - over(lr * decay, x) * x for block, x in params.items()}
        return new, state

    return replace(rule, name=f"{rule.name}+decay:{decay:g}", update=update, norm=None)
