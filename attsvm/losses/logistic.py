"""ℓ(x) = log(1 + e^−x), the loss of the papers' experiments."""

from __future__ import annotations

import numpy as np

from attsvm.ground.arrays import Floats
from attsvm.losses.loss import Loss


def _value(x: Floats) -> Floats:
    return np.logaddexp(0.0, -x)


def _slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = −1/(1 + e^x)."""
    return np.full(np.shape(x), -1.0), -np.logaddexp(0.0, x)


LOSS = Loss("logistic", _value, _slope, 0.0, code=0)
