"""Loss: a function of the margin y·f, with its slope in the log domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from attsvm.ground.arrays import Floats


@dataclass(frozen=True)
class Loss:
    """ℓ(x) at margins x of any shape, and its slope as (sign ℓ', log |ℓ'|).

    The slope underflows long before training ends; its logarithm does not. floor: the infimum of
    the loss, −inf when there is none. best: the margin at which it is least, inf for a loss that
    falls all the way. code: its number in the fused kernels, None for a loss that they do not know.
    """

    name: str
    value: Callable[[Floats], Floats]
    slope: Callable[[Floats], tuple[Floats, Floats]]
    floor: float
    best: float = math.inf
    code: int | None = None
