"""The weight matrix itself, as one block W."""

from __future__ import annotations

from attsvm.models.model import Model
from attsvm.rules.rule import Blocks
from attsvm.tokens import Floats


def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    """W (d, dq)."""
    return {"W": (d, dq)}


def matrix(params: Blocks) -> Floats:
    """W."""
    return params["W"]


def chain(params: Blocks, G: Floats) -> Blocks:
    """∇_W."""
    return {"W": G}


MODEL = Model("weight", shapes, matrix, chain)
