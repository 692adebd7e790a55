"""ℓ(x) = e^−x."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.interval import Interval
from attsvm.training.losses.loss import Loss


def _value(x: Floats) -> Floats:
    return np.exp(-x)


def _slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = −e^−x."""
    return np.full(np.shape(x), -1.0), -np.asarray(x, dtype=np.float64)


def _steepness(lo: Floats, hi: Floats) -> tuple[Floats, Floats, Floats]:
    """|ℓ'| = ℓ'' = e^−x falls."""
    slope = Interval(-hi, -lo).exp()
    return slope.lo, slope.hi, slope.hi


LOSS = Loss("exponential", _value, _slope, 0.0, code=1, steepness=_steepness)
