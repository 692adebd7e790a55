"""Loss: a function of the margin y·f, with its slope in the log domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attsvm.errors import Unsupported
from attsvm.ground.arrays import Floats

# (lo, hi) -> (least |ℓ'|, most |ℓ'|, most |ℓ''|) of each interval.
Steepness = Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]


@dataclass(frozen=True)
class Loss:
    """ℓ(x) at margins x of any shape, and its slope as (sign ℓ', log |ℓ'|).

    The slope underflows long before training ends; its logarithm does not. floor: the infimum of
    the loss, −inf when there is none. best: the margin at which it is least, inf for a loss that
    falls all the way. code: its number in the fused kernels, None for a loss that they do not know.
    steepness(lo, hi): (least |ℓ'|, most |ℓ'|, most |ℓ''|) on the intervals [lo, hi], rounded
    outward; None for a loss that does not fall everywhere, of which no convergence is proved.

    >>> from attsvm.losses import loss_of
    >>> sign, log_size = loss_of("logistic").slope(np.array([1000.0]))
    >>> float(sign[0]), float(log_size[0])  # the slope itself is below any float
    (-1.0, -1000.0)
    """

    name: str
    value: Callable[[Floats], Floats]
    slope: Callable[[Floats], tuple[Floats, Floats]]
    floor: float
    best: float = math.inf
    code: int | None = None
    steepness: Steepness | None = None


def check_loss(loss: Loss) -> None:
    """Raises Unsupported, with the law and the input, unless the loss keeps its contract.

    The laws: value and slope are finite numbers in the shape of the margins (log |ℓ'| may be −inf);
    the slope is the derivative of the value; the loss is nowhere below its floor; it falls up to
    `best` and rises beyond it.
    """
    x = np.linspace(-3.0, 3.0, 14).reshape(2, 7)
    try:
        value, (sign, log_slope) = np.asarray(loss.value(x)), loss.slope(x)
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
    _require(loss, bool((value >= loss.floor - 1e-12).all()), "no value is below the floor")
    falls = bool((slope[x < loss.best] <= 0).all() and (slope[x > loss.best] >= 0).all())
    _require(loss, falls, "the loss falls up to the margin `best`, and rises beyond it")


def _require(loss: Loss, kept: bool, law: str) -> None:
    if not kept:
        said = f"loss {loss.name!r} breaks a law of losses: {law}"
        raise Unsupported(f"{said}; on margins x from −3 to 3")
