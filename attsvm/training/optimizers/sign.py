"""Sign descent: x ← x − η sign(g), the steepest descent in the largest entry.

Signum: x ← x − η sign(m), m the running average of gradients.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.wide import APART, NONE, normal
from attsvm.training.optimizers.optimizer import (
    SIGN,
    Held,
    LaneRule,
    Optimizer,
    State,
    arrays_of,
    planes,
    unheld,
)
from attsvm.training.optimizers.steps import Average, averaged, by_entry, memoryless, over

# Entries this many powers of two below the largest are not kept over one power.
LOWEST = 900


def _signs(G: Floats, log_scale: Floats) -> Floats:
    """sign(g), zero in entries that are zero."""
    return np.where(over(log_scale == -np.inf, G), 0.0, np.sign(G))


def _fine_signs(terms: Graded) -> Floats:
    """sign(g), each entry from its own terms however small they are."""
    return np.sign(terms.entries()[0])


def sign() -> Optimizer:
    """Sign descent: the largest entry of every step is η."""
    rule = unheld(SIGN, 0.0, width=lambda W, z: W[0].size)
    made = memoryless("sign", _signs, norm="max", finely=_fine_signs)
    return replace(made, fused=rule, limit="sign")


def signum(*, momentum: float = 0.9) -> Optimizer:
    """Sign descent with this momentum β; β = 0 is sign descent."""

    def average(ndim: int) -> Average:
        return by_entry()

    made = averaged("signum", average, momentum, graded=True)
    return replace(made, fused=LaneRule(SIGN, (momentum, 0.0, 0.0), _pack, _unpack), limit="signum")


def _pack(state: State, W: Floats, z: Floats) -> Held:
    """Every entry of m over one power of two."""
    share, power = state["share"], state["power"]
    top = np.where(share == 0, NONE, power).max(axis=(1, 2), initial=NONE)
    below = np.where(share == 0, 0, power - top[:, None, None])
    m = np.ldexp(share, np.maximum(below, -APART))
    m[(below < -LOWEST).any(axis=(1, 2))] = np.nan
    return planes(m), top


def _unpack(held: Held, W: Floats, z: Floats, count: int) -> State:
    m = arrays_of(held[0], W)[0]
    share, power = normal(m, np.broadcast_to(held[1][:, None, None], m.shape))
    return {"share": share, "power": power}
