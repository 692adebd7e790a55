"""What a saved run must hold: arrays of the right kinds and sizes, and the words of its config."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.files import parse_json
from attsvm.errors import BadTokens

if TYPE_CHECKING:
    from attsvm.training.path import Path

# The axes of each array; equal letters are equal lengths (R records, B instances, n inputs).
_AXES = {
    "steps": "R", "loss": "RB", "log_gradient": "RB", "clock": "RB", "top": "RBn",
    "top_attention": "RBn", "changed": "Bn",
}  # fmt: skip
_WHOLE = ("steps", "top", "changed")


def _word(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _count(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _size(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < math.inf


def _options(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, bool | int | float) for one in value.values()
    )


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_word, value))


# What each entry of the config must be; the second group may be absent.
_NEEDED: dict[str, Callable[[Any], bool]] = {
    "model": _word,
    "optimizer": _word,
    "loss": _word,
    "lr": lambda x: _size(x) and x > 0,
    "schedule": _word,
    "decay": _size,
    "options": _options,
    "seed": _count,
    "init": _word,
    "places": lambda x: _count(x, 1),
}
_MAY: dict[str, Callable[[Any], bool]] = {
    "head": lambda x: x is None or _word(x),
    "width": lambda x: x is None or _count(x, 1),
    "records": lambda x: _count(x, 1),
    "outside": _names,
    "blocks": _names,
    "limit": lambda x: x is None or _word(x),
    "readout": lambda x: x is None or _word(x),
    "weights": lambda x: x is None or _word(x),
    "collocations": lambda x: isinstance(x, bool),
    "data": lambda x: x is None or _word(x),
}


def saved_config(text: str, file: str) -> dict[str, Any]:
    """The config of a saved path; raises BadTokens unless it is one."""
    try:
        config = parse_json(text)
    except ValueError as error:
        raise BadTokens(f"{file} is not a saved path: its config is no JSON ({error})") from error
    if not isinstance(config, dict):
        raise BadTokens(f"{file} is not a saved path: its config has no names")
    for name, fits in (_NEEDED | _MAY).items():
        if name not in config:
            if name in _MAY:
                continue
            raise BadTokens(f"{file} is not a whole saved path: its config has no {name}")
        if not fits(config[name]):
            said = f"{config[name]!r}"[:60]
            raise BadTokens(f"{file} is not a whole saved path: {name} of its config is {said}")
    return config


def check_path(path: Path, file: str) -> None:
    """Raises BadTokens unless the arrays of a path are whole, and fit each other."""
    sizes: dict[str, int] = {}
    for name, axes in _AXES.items():
        _check_array(getattr(path, name), name, axes, sizes, file)
    for name, block in path.weights.items():
        _check_array(block, name, "RB" + "." * (block.ndim - 2), sizes, file)
    for name, part in path.state.items():
        if part.dtype.kind not in "fi" or not part.dtype.isnative:
            raise BadTokens(f"{file} is not a whole saved path: state.{name} is {part.dtype}")
    steps, top, changed = path.steps, path.top, path.changed
    if not (sizes["R"] and sizes["B"] and path.weights):
        raise BadTokens(f"{file} is not a whole saved path: it has no records or no blocks")
    if steps[0] < 0 or (np.diff(steps) <= 0).any():
        raise BadTokens(f"{file} is not a whole saved path: its steps do not increase")
    if (top < 0).any() or (path.config["model"] != "decoder" and (top >= path.places).any()):
        raise BadTokens(f"{file} is not a whole saved path: top is beyond its {path.places} places")
    if (changed < 0).any() or (changed > steps[-1]).any():
        raise BadTokens(f"{file} is not a whole saved path: changed names no step of the run")


def _check_array(a: Any, name: str, axes: str, sizes: dict[str, int], file: str) -> None:
    """Raises BadTokens unless an array has its kind and its axes; sizes: those known so far."""
    kinds, widest = ("iu", np.int64) if name in _WHOLE else ("f", np.float64)
    right = a.dtype.kind in kinds and a.dtype.isnative and np.can_cast(a.dtype, widest)
    lengths: Mapping[str, int] = dict(zip(axes.rstrip("."), a.shape, strict=False))
    if not (right and a.ndim == len(axes) and all(
        sizes.setdefault(letter, size) == size for letter, size in lengths.items()
    )):  # fmt: skip
        raise BadTokens(
            f"{file} is not a whole saved path: {name} is {a.dtype} of shape {a.shape}, which does "
            "not fit the others"
        )
