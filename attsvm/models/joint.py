"""Attention and decoder trained together: a prompt or a weight, and the head."""

from __future__ import annotations

from dataclasses import replace

from attsvm.errors import Unsupported
from attsvm.heads import Head, Relu
from attsvm.models import prompt, weight
from attsvm.models.model import Model
from attsvm.rules.rule import Blocks


def _prompt_shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {**prompt.shapes(d, dq, width, e), "v": (e,)}


def _weight_shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {**weight.shapes(d, dq, width, e), "v": (e,)}


PROMPT = replace(
    prompt.MODEL, name="joint-prompt", shapes=_prompt_shapes, trains_head=True, fused=False
)
WEIGHT = replace(
    weight.MODEL, name="joint-weight", shapes=_weight_shapes, trains_head=True, fused=False
)


def with_head(model: Model, head: str) -> Model:
    """The joint model that trains this head: "linear" (block v) or "relu" (block V, d × width)."""
    if not model.trains_head:
        raise Unsupported(f"model {model.name!r} trains no head: hand it one")
    if head == "linear":
        return model
    if head != "relu":
        raise Unsupported(f"head {head!r} cannot be trained: known are linear, relu")

    def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
        plain = model.shapes(d, dq, width, e)
        return {**{name: shape for name, shape in plain.items() if name != "v"}, "V": (e, width)}

    return replace(model, shapes=shapes, reads=_relu)


def _relu(params: Blocks) -> Head:
    return Relu(params["V"])
