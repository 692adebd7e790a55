"""ℓ(x) = log(1 + e^−x), the loss of the papers' experiments."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.interval import Interval
from attsvm.training.losses.loss import Loss


def _value(x: Floats) -> Floats:
    return np.logaddexp(0.0, -x)


def _slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = −1/(1 + e^x)."""
    return np.full(np.shape(x), -1.0), -np.logaddexp(0.0, x)


def _steepness(lo: Floats, hi: Floats) -> tuple[Floats, Floats, Floats]:
    """|ℓ'| = 1/(1 + e^x) falls; ℓ'' = 1/(4 cosh²(x/2)) is largest nearest to 0."""
    slope = 1.0 / (1.0 + Interval(lo, hi).exp())
    nearest = np.where(lo > 0, lo, np.where(hi < 0, hi, 0.0))
    root = Interval(0.5 * nearest).exp() + Interval(-0.5 * nearest).exp()
    return slope.lo, slope.hi, (1.0 / root.squared()).hi


LOSS = Loss("logistic", _value, _slope, 0.0, code=0, steepness=_steepness)
