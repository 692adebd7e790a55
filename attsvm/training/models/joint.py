"""Attention and decoder trained together: a prompt or a weight, and the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.training.heads import HEADS, Head, Linear, Relu
from attsvm.training.models.model import Model
from attsvm.training.models.weight import PROMPT, WEIGHT
from attsvm.training.optimizers.optimizer import Blocks


def _joint(model: Model) -> Model:
    """The model with a linear head v (e,) trained as well."""

    def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
        return {**model.shapes(d, dq, width, e), "v": (e,)}

    name = f"joint-{model.name}"
    return replace(model, name=name, shapes=shapes, trains_head=True, fused=False)


JOINT_PROMPT, JOINT_WEIGHT = _joint(PROMPT), _joint(WEIGHT)


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
        raise Unsupported(f"model {model.name!r} trains no prediction head: pass head=v")
    if head not in TRAINED:
        raise Unsupported(
            f"prediction head {head!r} cannot be trained: known are {', '.join(TRAINED)}"
        )
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
