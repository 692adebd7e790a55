"""The heads, by name. A plain vector is the linear head."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.errors import BadTokens
from attsvm.heads.head import Head
from attsvm.heads.linear import Linear
from attsvm.heads.quadratic import Quadratic
from attsvm.heads.relu import Relu
from attsvm.tokens import LARGEST

HEADS: dict[str, type[Head]] = {"linear": Linear, "relu": Relu, "quadratic": Quadratic}

# Modules of this folder that are not heads themselves.
SUPPORT = ("head",)


def head_of(head: Any, d: int) -> Head:
    """The head: a Head as it is, or the linear one of a vector (d,) or a stack of them (B, d)."""
    if isinstance(head, Head):
        return head
    v = np.asarray(head, dtype=np.float64)
    if v.ndim not in (1, 2) or v.shape[-1] != d or not (np.abs(v) <= LARGEST).all():
        raise BadTokens(f"the head has shape {v.shape}; it must be ({d},) with finite entries")
    return Linear(np.atleast_2d(v))
