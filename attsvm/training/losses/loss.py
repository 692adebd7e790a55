"""Loss: a function of the margin y·f, with its slope in the log domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
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
