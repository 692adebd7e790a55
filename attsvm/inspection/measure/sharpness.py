"""How sharp a head's attention is, and how much of it goes to special tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attsvm.inspection.view import View

# A query is saturated when one key has more than this much of its attention.
SATURATED = 0.9


class Sharpness(NamedTuple):
    """mean: the mean over queries of the largest attention; saturated: the share of queries where
    it is above 0.9; special: the mean attention on special keys; chance: the mean of one over the
    number of keys, which is what even attention gives."""

    mean: float
    saturated: float
    special: float
    chance: float


def sharpness_of(view: View) -> Sharpness:
    """The sharpness of the head over the View's queries."""
    attention = view.attention()
    most = attention.max(axis=1)
    return Sharpness(
        mean=float(most.mean()),
        saturated=float((most > SATURATED).mean()),
        special=float(np.where(view.special, attention, 0.0).sum(axis=1).mean()),
        chance=float((1.0 / view.valid.sum(axis=1)).mean()),
    )
