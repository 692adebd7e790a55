"""ℓ(x) = ½(1 − x)²: not monotone, so a margin beyond 1 is pulled back."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.training.losses.loss import Loss


def _value(x: Floats) -> Floats:
    return 0.5 * (1.0 - np.asarray(x, dtype=np.float64)) ** 2


def _slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = x − 1; zero at x = 1, with logarithm −inf."""
    slope = np.asarray(x, dtype=np.float64) - 1.0
    size = np.abs(slope)
    log = np.log(size, out=np.full(size.shape, -np.inf), where=size > 0)
    return np.sign(slope), log


def _from_best(sign: Floats, log: Floats) -> tuple[Floats, Floats, Floats]:
    """½r² and ℓ' = −r."""
    return 0.5 * np.exp(2.0 * log), -sign, log


LOSS = Loss("squared", _value, _slope, 0.0, best=1.0, code=3, from_best=_from_best)
