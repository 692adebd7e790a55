"""ℓ(x) = −x: no slope to vanish, so only the softmax decides how fast training goes."""

from __future__ import annotations

import numpy as np

from attsvm.ground.arrays import Floats
from attsvm.losses.loss import Loss


def _value(x: Floats) -> Floats:
    return -np.asarray(x, dtype=np.float64)


def _slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = −1."""
    return np.full(np.shape(x), -1.0), np.zeros(np.shape(x))


LOSS = Loss("linear", _value, _slope, -np.inf, code=2)
