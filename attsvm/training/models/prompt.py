"""A prompt vector p: logits k_t·p, the weight model with the query 1."""

from __future__ import annotations

from attsvm._utils.arrays import Floats
from attsvm.training.models.model import Factors, Model
from attsvm.training.optimizers.optimizer import Blocks


def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    """p (d,)."""
    return {"p": (d,)}


def matrix(params: Blocks) -> Floats:
    """p as a column."""
    return params["p"][:, :, None]


def chain(params: Blocks, G: Floats) -> Blocks:
    """∇_p."""
    return {"p": G[:, :, 0]}


def factors(params: Blocks, D: Floats, z: Floats) -> Factors:
    """p = Σ x D, the query being 1."""
    return {"p": (D, z)}


MODEL = Model("prompt", shapes, matrix, chain, prompt=True, factors=factors, fused=True)
