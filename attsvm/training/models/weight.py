"""The weight matrix itself, as one block W."""

from __future__ import annotations

from attsvm._utils.arrays import Floats
from attsvm.training.models.model import Factors, Model
from attsvm.training.optimizers.optimizer import Blocks


def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    """W (d, dq)."""
    return {"W": (d, dq)}


def matrix(params: Blocks) -> Floats:
    """W."""
    return params["W"]


def chain(params: Blocks, G: Floats) -> Blocks:
    """∇_W."""
    return {"W": G}


def factors(params: Blocks, D: Floats, z: Floats) -> Factors:
    """W = Σ x D zᵀ as it stands."""
    return {"W": (D, z)}


MODEL = Model("weight", shapes, matrix, chain, factors=factors, fused=True)
