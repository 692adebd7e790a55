"""The prediction heads, by name. A plain vector is the linear head."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import LARGEST
from attsvm._utils.expected import shown
from attsvm.errors import BadTokens
from attsvm.training.heads.head import Head, check_head
from attsvm.training.heads.linear import Linear
from attsvm.training.heads.nonlinear import Quadratic, Relu

HEADS: dict[str, type[Head]] = {"linear": Linear, "relu": Relu, "quadratic": Quadratic}

__all__ = ["HEADS", "Head", "Linear", "Quadratic", "Relu", "check_head", "head_of"]


def head_of(head: Any, d: int, *, size: int | None = None) -> Head:
    """The head: a Head as it is, or the linear one of a vector (d,) or a stack of them (B, d).

    A custom Head is checked.

    size: the number of instances B that it is for.
    """
    if isinstance(head, Head):
        if type(head) not in HEADS.values():
            check_head(head, d, 1 if size is None else size)
        return head
    try:
        v = np.asarray(head, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadTokens(
            f"the prediction head is {shown(head)}; it must be a vector ({d},) or a Head"
        ) from error
    if v.ndim not in (1, 2) or v.shape[-1] != d:
        raise BadTokens(f"the prediction head has shape {v.shape}; it must be ({d},)")
    if not (np.abs(v) <= LARGEST).all():
        raise BadTokens("the prediction head has an entry that is not finite, or too large")
    if v.ndim == 2 and size is not None and len(v) not in (1, size):
        raise BadTokens(
            f"the prediction head has shape {v.shape}; {size} instances need ({size}, {d})"
        )
    return Linear(np.atleast_2d(v))
