"""When attention saturates, and the least number of steps in which it can.

Attention of at least s on one token of every input needs leads of at least g = log(s/(1 − s)) over
each other token, so ‖W‖ ≥ g N, N the least norm of the selection's problem. Steps of norm η with
decoupled decay λ keep ‖W_t‖ ≤ ‖W_0‖(1 − λη)^t + (1 − (1 − λη)^t)/λ, and ‖W_0‖ + ηt without decay.
So no run of such an optimizer saturates before its norm can be g N, and none does at all with λ g N
≥ 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.theory.outcome import DECIDED
from attsvm.training.path import Path


def needed_lead(sure: float = DECIDED) -> float:
    """log(s/(1 − s)): the least lead over every other token with attention s."""
    return float(np.log(sure / (1 - sure)))


def least_steps(least: float, *, lr: float, decay: float, sure: float = DECIDED) -> float:
    """The least number of steps from W = 0 after which attention can be s; inf where it never can.

    least: a lower bound on the norm of the selection's problem.

    >>> round(least_steps(2.0, lr=0.1, decay=0.0, sure=0.999), 1)
    138.1
    """
    need = needed_lead(sure) * least
    if decay == 0.0:
        return need / lr
    if decay * need >= 1.0:
        return float("inf")
    return float(np.log1p(-decay * need) / np.log1p(-decay * lr))


class Saturated(NamedTuple):
    """Of each run the first record with saturated attention, or the last one: its step (B,), W
    (B, d, dq), and whether it is saturated (B,)."""

    at: Ints
    W: Floats
    yes: Ints


def first_saturated(path: Path, sure: float = DECIDED) -> Saturated:
    """The first saturated records of a run of B instances."""
    least = path.top_attention.min(axis=2) >= sure
    yes = least.any(axis=0)
    place = np.where(yes, least.argmax(axis=0), len(path.steps) - 1)
    W = path.matrices()[place, np.arange(len(place))]
    return Saturated(path.steps[place], W, yes.astype(np.int64))
