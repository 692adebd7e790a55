"""The losses of the papers' experiments, functions of the margin x = y·f.

logistic: log(1 + e^−x). exponential: e^−x. linear: −x, whose slope does not vanish, so that only
the softmax decides how fast training goes. squared: ½(1 − x)², not monotone: a margin beyond 1 is
pulled back.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.interval import Interval
from attsvm.training.losses.loss import Loss


def _logistic_value(x: Floats) -> Floats:
    return np.logaddexp(0.0, -x)


def _logistic_slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = −1/(1 + e^x)."""
    return np.full(np.shape(x), -1.0), -np.logaddexp(0.0, x)


def _logistic_steepness(lo: Floats, hi: Floats) -> tuple[Floats, Floats, Floats]:
    """|ℓ'| = 1/(1 + e^x) falls; ℓ'' = 1/(4 cosh²(x/2)) is largest nearest to 0."""
    slope = 1.0 / (1.0 + Interval(lo, hi).exp())
    nearest = np.where(lo > 0, lo, np.where(hi < 0, hi, 0.0))
    root = Interval(0.5 * nearest).exp() + Interval(-0.5 * nearest).exp()
    return slope.lo, slope.hi, (1.0 / root.squared()).hi


LOGISTIC = Loss(
    "logistic", _logistic_value, _logistic_slope, 0.0, code=0, steepness=_logistic_steepness
)


def _exponential_value(x: Floats) -> Floats:
    return np.exp(-x)


def _exponential_slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = −e^−x."""
    return np.full(np.shape(x), -1.0), -np.asarray(x, dtype=np.float64)


def _exponential_steepness(lo: Floats, hi: Floats) -> tuple[Floats, Floats, Floats]:
    """|ℓ'| = ℓ'' = e^−x falls."""
    slope = Interval(-hi, -lo).exp()
    return slope.lo, slope.hi, slope.hi


EXPONENTIAL = Loss(
    "exponential",
    _exponential_value,
    _exponential_slope,
    0.0,
    code=1,
    steepness=_exponential_steepness,
)


def _linear_value(x: Floats) -> Floats:
    return -np.asarray(x, dtype=np.float64)


def _linear_slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = −1."""
    return np.full(np.shape(x), -1.0), np.zeros(np.shape(x))


def _linear_steepness(lo: Floats, hi: Floats) -> tuple[Floats, Floats, Floats]:
    """|ℓ'| = 1, ℓ'' = 0."""
    one = np.ones(np.broadcast(lo, hi).shape)
    return one, one, np.zeros_like(one)


LINEAR = Loss("linear", _linear_value, _linear_slope, -np.inf, code=2, steepness=_linear_steepness)


def _squared_value(x: Floats) -> Floats:
    return 0.5 * (1.0 - np.asarray(x, dtype=np.float64)) ** 2


def _squared_slope(x: Floats) -> tuple[Floats, Floats]:
    """ℓ' = x − 1; zero at x = 1, with logarithm −inf."""
    slope = np.asarray(x, dtype=np.float64) - 1.0
    size = np.abs(slope)
    log = np.log(size, out=np.full(size.shape, -np.inf), where=size > 0)
    return np.sign(slope), log


def _squared_from_best(sign: Floats, log: Floats) -> tuple[Floats, Floats, Floats]:
    """½r² and ℓ' = −r."""
    return 0.5 * np.exp(2.0 * log), -sign, log


SQUARED = Loss(
    "squared", _squared_value, _squared_slope, 0.0, best=1.0, code=3, from_best=_squared_from_best
)
