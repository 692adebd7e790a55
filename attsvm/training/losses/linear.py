"""ℓ(x) = −x: no slope to vanish, so only the softmax decides how fast training goes."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.training.losses.loss import Loss


def _value(x: Floats) -> Floats:
    return -np.asarray(x, dtype=np.float64)


def _slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = −1."""
    return np.full(np.shape(x), -1.0), np.zeros(np.shape(x))


def _steepness(lo: Floats, hi: Floats) -> tuple[Floats, Floats, Floats]:
    """|ℓ'| = 1, ℓ'' = 0."""
    one = np.ones(np.broadcast(lo, hi).shape)
    return one, one, np.zeros_like(one)


LOSS = Loss("linear", _value, _slope, -np.inf, code=2, steepness=_steepness)
