"""The weight matrix itself as one block W, and the prompt: a vector p with logits k_t·p.

A prompt is the weight model with the query 1.
"""

from __future__ import annotations

from attsvm._utils.arrays import Floats
from attsvm.training.models.model import Factors, Model
from attsvm.training.optimizers.optimizer import Blocks


def _weight_shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {"W": (d, dq)}


def _weight_factors(params: Blocks, D: Floats, z: Floats) -> Factors:
    """W = Σ x D zᵀ."""
    return {"W": (D, z)}


WEIGHT = Model(
    "weight",
    _weight_shapes,
    lambda params: params["W"],
    lambda params, G: {"W": G},
    factors=_weight_factors,
    fused=True,
)


def _prompt_shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {"p": (d,)}


def _prompt_factors(params: Blocks, D: Floats, z: Floats) -> Factors:
    """p = Σ x D, the query being 1."""
    return {"p": (D, z)}


PROMPT = Model(
    "prompt",
    _prompt_shapes,
    lambda params: params["p"][:, :, None],
    lambda params, G: {"p": G[:, :, 0]},
    prompt=True,
    factors=_prompt_factors,
    fused=True,
)
