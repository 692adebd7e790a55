"""Attention and decoder trained together: a prompt or a weight, and the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.training.heads import HEADS, Head, Linear, Relu
from attsvm.training.models import prompt, weight
from attsvm.training.models.model import Model
from attsvm.training.optimizers.optimizer import Blocks


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


class Trained(NamedTuple):
    """A head that is trained: its shape from its length e and its width, and how it reads."""

    shape: Callable[[int, int], tuple[int, ...]]
    head: Callable[[Floats], Head]


# The heads that a joint model trains, by name; each under the name of its own block.
TRAINED: dict[str, Trained] = {
    "linear": Trained(lambda e, width: (e,), Linear),
    "relu": Trained(lambda e, width: (e, width), Relu),
}


def with_head(model: Model, head: str) -> Model:
    """The joint model that trains this head: "linear" (block v) or "relu" (block V, d × width)."""
    if not model.trains_head:
        raise Unsupported(f"model {model.name!r} trains no head: hand it one")
    if head not in TRAINED:
        raise Unsupported(f"head {head!r} cannot be trained: known are {', '.join(TRAINED)}")
    shape, made = TRAINED[head]
    if made is Linear:  # the model as it stands
        return model
    block = HEADS[head].block

    def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
        plain = model.shapes(d, dq, width, e)
        plain = {name: own for name, own in plain.items() if name != Linear.block}
        return {**plain, block: shape(e, width)}

    def reads(params: Blocks) -> Head:
        return made(params[block])

    return replace(model, shapes=shapes, reads=reads)
