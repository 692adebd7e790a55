"""The first parameters of a run, drawn or given."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.expected import shown
from attsvm.errors import BadTokens, Unsupported
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import Model
from attsvm.training.optimizers.optimizer import Blocks


def shapes_of(model: Model, batch: Batch, width: int | None) -> dict[str, tuple[int, ...]]:
    """The shape of each block; width: columns of the factors, min(d, dq) unless given."""
    d, dq = batch.shape
    return model.shapes(d, dq, min(d, dq) if width is None else width, batch.values.shape[3])


def initial(
    model: Model, batch: Batch, init: str | dict[str, Any], *, seed: int, width: int | None
) -> Blocks:
    """The first parameters of every instance, each instance from its own stream of the seed."""
    shapes = shapes_of(model, batch, width)
    if isinstance(init, dict):
        _check_width(model, batch, init, width)
    if init != "default":
        return begin(shapes, batch.size, init, seed=seed)
    out = begin(shapes, batch.size, model.start, seed=seed)
    if "V" in shapes:  # no unit of a zero network is active
        drawn = begin({"V": shapes["V"]}, batch.size, "normal:0.1", seed=seed)
        out = {name: drawn.get(name, block) for name, block in out.items()}
    return out


def _check_width(model: Model, batch: Batch, init: dict[str, Any], width: int | None) -> None:
    """Raises BadTokens when the given blocks are those of another width, and names it."""
    given = {name: x.shape for name, x in init.items() if isinstance(x, np.ndarray) and x.ndim}

    def fits(shapes: dict[str, tuple[int, ...]]) -> bool:
        return all(given.get(name) in (s, (batch.size, *s)) for name, s in shapes.items())

    for name, shape in given.items():
        if not fits(shapes_of(model, batch, width)) and fits(shapes_of(model, batch, shape[-1])):
            raise BadTokens(
                f"the starting {name} has shape {shape}, that of width {shape[-1]}: give "
                f"width={shape[-1]}, on the command line --width {shape[-1]}"
            )


def begin(
    shapes: dict[str, tuple[int, ...]], count: int, init: str | dict[str, Any], *, seed: int
) -> Blocks:
    """The blocks of these shapes for `count` instances: zero, normal:STD, uniform, or given."""
    if isinstance(init, dict):
        return _given(init, shapes, count)
    kind, _, size = init.partition(":")
    out: Blocks = {}
    streams = [np.random.default_rng([seed, b]) for b in range(count)]
    for name, shape in shapes.items():
        if kind == "zero":
            out[name] = np.zeros((count, *shape))
        elif kind == "normal":
            out[name] = _deviation(size) * np.stack([s.standard_normal(shape) for s in streams])
        elif kind == "uniform":
            edge = 1.0 / np.sqrt(shape[0])
            out[name] = np.stack([s.uniform(-edge, edge, shape) for s in streams])
        else:
            raise Unsupported(f"unknown init {shown(init)}: known are zero, normal:STD, uniform")
    return out


def _deviation(text: str) -> float:
    try:
        value = float(text or "1")
    except ValueError:
        value = np.nan
    if not 0 < value < np.inf:
        raise Unsupported(f"init normal:{text[:20]} needs a positive number")
    return value


def _given(init: dict[str, Any], shapes: dict[str, tuple[int, ...]], size: int) -> Blocks:
    out: Blocks = {}
    for name, shape in shapes.items():
        if name not in init:
            raise BadTokens(f"the starting point has no {name}; it needs {', '.join(shapes)}")
        try:
            block = np.asarray(init[name], dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadTokens(f"the starting {name} is no array of numbers") from error
        if block.shape == shape:
            block = np.broadcast_to(block, (size, *shape))
        if block.shape != (size, *shape):
            raise BadTokens(f"the starting {name} has shape {block.shape}; it must be {shape}")
        if not np.isfinite(block).all():
            raise BadTokens(f"the starting {name} holds a number that is not finite")
        out[name] = block.copy()
    return out
