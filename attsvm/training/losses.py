"""The losses, by name: functions of the margin x = y·f, with their slopes in the log domain.

logistic: log(1 + e^−x). exponential: e^−x. linear: −x, whose slope does not vanish, so that only
the softmax decides how fast training goes. squared: ½(1 − x)², not monotone: a margin beyond 1 is
pulled back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import shown
from attsvm._utils.interval import Interval
from attsvm._utils.objects import keep_declared
from attsvm.errors import Unsupported

# (lo, hi) -> (least |ℓ'|, most |ℓ'|, most |ℓ''|) of each interval.
Steepness = Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]
# (sign r, log |r|) -> (ℓ, sign ℓ', log |ℓ'|) at the margins best − r.
FromBest = Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]


@dataclass(frozen=True)
class Loss:
    """ℓ(x) at margins x of any shape, and its slope as (sign ℓ', log |ℓ'|).

    The slope underflows long before training ends; its logarithm does not. infimum: the infimum of
    the loss, −inf when there is none. best: the margin at which it is least, inf for a loss that
    falls all the way. code: its number in the fused kernels, None for a loss that they do not know.
    steepness(lo, hi): (least |ℓ'|, most |ℓ'|, most |ℓ''|) on the intervals [lo, hi], rounded
    outward; None for a loss that does not fall everywhere, of which no convergence is proved.
    from_best(sign, log): (ℓ, sign ℓ', log |ℓ'|) at the margins x = best − sign·e^log. A loss whose
    slope vanishes at a finite `best` gives it: near there best − x is known far better than x, for
    a linear head. None: the slope is that of the rounded x. code, steepness and from_best speak of
    value and slope: `dataclasses.replace` with another value or slope drops those that are not
    given anew. about: what they were declared for.

    >>> from attsvm.training.losses import loss_of
    >>> sign, log_size = loss_of("logistic").slope(np.array([1000.0]))
    >>> float(sign[0]), float(log_size[0])  # the slope itself is below any float
    (-1.0, -1000.0)
    """

    name: str
    value: Callable[[Floats], Floats]
    slope: Callable[[Floats], tuple[Floats, Floats]]
    infimum: float
    best: float = math.inf
    code: int | None = None
    steepness: Steepness | None = None
    from_best: FromBest | None = None
    about: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        keep_declared(self, (self.value, self.slope), ("code", "steepness", "from_best"))


def check_loss(loss: Loss) -> None:
    """Raises Unsupported, with the condition and the input, unless the loss meets its contract.

    The contract: value and slope are finite, in the shape of the margins (log |ℓ'| may be −inf);
    the slope is the derivative of the value; the loss is nowhere below its infimum; it falls up to
    `best` and rises beyond it; |ℓ'| and |ℓ''| keep to the bounds of `steepness`, which only a loss
    has that falls everywhere; `from_best`, where it is given, says the same.
    """
    x = np.linspace(-3.0, 3.0, 14).reshape(2, 7)
    try:
        value, (sign, log_slope) = np.asarray(loss.value(x)), loss.slope(x)
        r = loss.best - x
        with np.errstate(divide="ignore"):
            there = loss.from_best and loss.from_best(np.sign(r), np.log(np.abs(r)))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise Unsupported(f"loss {loss.name!r} fails on margins x from −3 to 3 ({said})") from error
    for part in (value, sign, log_slope):
        right = np.shape(part) == x.shape and not np.isnan(part).any()
        _require(loss, right, "value, sign and log |ℓ'| are numbers in the shape of the margins")
    h = 1e-5
    rise = (np.asarray(loss.value(x + h)) - np.asarray(loss.value(x - h))) / (2 * h)
    slope = sign * np.exp(log_slope)
    _require(
        loss,
        bool(np.allclose(slope, rise, rtol=1e-6, atol=1e-7)),
        "slope is (sign ℓ', log |ℓ'|), ℓ' the derivative of value",
    )
    _require(loss, bool((value >= loss.infimum - 1e-12).all()), "no value is below the infimum")
    falls = bool((slope[x < loss.best] <= 0).all() and (slope[x > loss.best] >= 0).all())
    _require(loss, falls, "the loss falls up to the margin `best`, and rises beyond it")
    if loss.steepness is not None:
        _require(loss, loss.best == math.inf, "a loss with `steepness` falls everywhere")
        _require(loss, encloses(loss, x.ravel()), "|ℓ'| lies between the bounds of `steepness`")
        above, below = (s * np.exp(log) for s, log in (loss.slope(x + h), loss.slope(x - h)))
        most = np.asarray(loss.steepness(x - h, x + h)[2])
        bent = np.abs(above - below) / (2 * h) <= most * (1 + 1e-6) + 1e-7
        _require(loss, bool(bent.all()), "|ℓ''| is at most what `steepness` says")
    if there is not None:
        same = len(there) == 3 and all(np.shape(part) == x.shape for part in there)
        same = same and np.allclose(there[0], value)
        same = same and np.allclose(there[1] * np.exp(there[2]), slope)
        _require(loss, same, "from_best gives value and slope at the margins best − r")


def encloses(loss: Loss, x: Floats) -> bool:
    """Whether the loss falls at the margins x, as steeply as `steepness` says, up to rounding."""
    if loss.steepness is None:
        return False
    with np.errstate(all="ignore"):
        sign, log_slope = loss.slope(x)
        least, most, _ = loss.steepness(x, x)
        size = np.exp(log_slope)
        above, below = size * (1 + 1e-9) + 1e-300 >= least, size * (1 - 1e-9) - 1e-300 <= most
    return bool((np.asarray(sign) < 0).all() and above.all() and below.all())


def _require(loss: Loss, kept: bool, law: str) -> None:
    if not kept:
        said = f"loss {loss.name!r} breaks its contract: {law}"
        raise Unsupported(f"{said}; on margins x from −3 to 3")


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


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (LOGISTIC, EXPONENTIAL, LINEAR, SQUARED)}
# Losses that are known to keep the contract.
_FINE: WeakSet[Loss] = WeakSet(LOSSES.values())

__all__ = ["LOSSES", "Loss", "check_loss", "loss_of"]


def loss_of(loss: str | Loss) -> Loss:
    """The loss of this name; a custom Loss is checked once and returned."""
    if isinstance(loss, Loss):
        if loss not in _FINE:
            if loss.name in LOSSES:
                raise Unsupported(
                    f"the custom loss is named {loss.name!r}, as a listed one: give it another name"
                )
            kernels = {known.code: (known.value, known.slope) for known in LOSSES.values()}
            if loss.code is not None and kernels.get(loss.code) != (loss.value, loss.slope):
                raise Unsupported(
                    f"loss {loss.name!r} has the code {loss.code}, which stands for the value and "
                    "slope of a listed loss: leave it out"
                )
            check_loss(loss)
            _FINE.add(loss)
        return loss
    if not isinstance(loss, str):
        raise Unsupported(f"a loss is given by name, or as a Loss; this is {shown(loss)}")
    if loss not in LOSSES:
        raise Unsupported(f"unknown loss {shown(loss)}: known are {', '.join(LOSSES)}")
    return LOSSES[loss]
