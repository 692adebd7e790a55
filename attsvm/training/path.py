"""Path: what happened in a run, thinned, with all that is needed to go on from its end.

A saved path is checked when it is loaded: its arrays fit each other, its config is complete.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.expected import expect, file_path, place, whole_instance
from attsvm._utils.files import parse_json
from attsvm._utils.result import Summary, Table, draw
from attsvm.errors import BadTokens, Unsupported
from attsvm.training.models import (
    SENTENCE_MODELS,
    Model,
    SentenceModel,
    model_of,
    with_head,
    with_heads,
)
from attsvm.training.optimizers.optimizer import BELOW

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    "heads": lambda x: x is None or _count(x, 1),
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


# Records per decade of steps.
PER_DECADE = 48
# What a saved path holds besides its promised arrays, with all axes.
_KEPT = ("log_gradient", "top", "top_attention", "clock", "changed")


@dataclass(frozen=True, eq=False, repr=False)
class Path(Table):
    """A run of B instances, recorded at steps (R,).

    weights: each block (R, B, ...); loss (R, B); log_gradient (R, B) the log of the gradient's
    norm; top (R, B, n) the token with the most attention; top_attention (R, B, n) its probability;
    clock (R, B): log of the time at which plain gradient flow is at the same point (nan for
    optimizers that do not follow it); changed (B, n): the last step at which the top token changed.
    With several heads n counts the inputs of each, one head after the other.
    config: model, optimizer, loss, lr, … as plain values; state: the optimizer's state at the end.
    diverged: the step at which a number was no longer finite, −1 when none was. objects: the
    optimizer, model or loss of the run by family, where it was an object and not a name; they are
    not saved.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
    >>> path = attsvm.train(tokens, model="prompt", head=[0.2, 0.7], steps=500)
    >>> path.at(-1)["p"].round(1), path.selection
    (array([[-3.5, 49.8]]), array([[0]]))
    """

    steps: Ints
    weights: dict[str, Floats]
    loss: Floats
    log_gradient: Floats
    top: Ints
    top_attention: Floats
    clock: Floats
    changed: Ints
    config: dict[str, Any]
    state: dict[str, Any]
    diverged: int = -1
    objects: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of instances B."""
        return int(self.loss.shape[1])

    def matrices(self, model: Model | None = None) -> Floats:
        """The effective W of every record (R, B, d, dq); those of several heads below each other.

        model: that of the run, needed for a saved run whose model was a custom object.
        """
        form = self.form(model)
        return np.stack([form.matrix(self.at(r)) for r in range(len(self.steps))])

    def form(self, model: Model | None = None) -> Model | SentenceModel:
        """The model of the run; raises Unsupported where it is an unknown custom object."""
        name = self.config["model"]
        if "model" not in self.config.get("outside", ()):
            if name in SENTENCE_MODELS:
                form: Model | SentenceModel = SENTENCE_MODELS[name]
            else:
                form = with_heads(model_of(name), self.config.get("heads"))
            self._check_blocks(form)
            return form
        found = self.objects.get("model") if model is None else model
        if found is None:
            raise Unsupported(
                f"this run's model {name!r} is a custom object, which is not saved: give model=…"
            )
        if expect(found, Model, "model").name != name:
            raise Unsupported(f"this run's model is {name!r}, not {found.name!r}: give that one")
        return with_heads(model_of(found), self.config.get("heads"))

    def _check_blocks(self, form: Model | SentenceModel) -> None:
        """Raises BadTokens unless the blocks are matrices and vectors of the model's names."""
        if isinstance(form, SentenceModel):
            shapes = form.shapes(1, 1)
        else:
            own = form.trains_head
            made = with_head(form, self.config.get("head") or "linear") if own else form
            shapes = made.shapes(1, 1, 1, 1)
        axes = {name: block.ndim - 2 for name, block in self.weights.items()}
        if axes != {name: len(shape) for name, shape in shapes.items()}:
            raise BadTokens(
                f"the blocks of this run, {', '.join(axes)}, are not those of its model "
                f"{form.name!r}: {', '.join(shapes)}"
            )

    def at(self, record: int) -> dict[str, Floats]:
        """The blocks (B, ...) of one record."""
        record = place(record, len(self.steps), "record")
        return {name: block[record] for name, block in self.weights.items()}

    @property
    def selection(self) -> Ints:
        """The token with the most attention at the end (B, n)."""
        return self.top[-1]

    @property
    def underflow(self) -> int | None:
        """The first step whose gradient lay below the floats, for an optimizer that reads floats.

        None where there is none.
        """
        first = np.asarray(self.state.get(BELOW, -1.0)).max(initial=-1.0)
        return int(first) if first >= 0 else None

    @property
    def records(self) -> int:
        """The records per decade of steps: fewer than PER_DECADE where they are large."""
        return int(self.config.get("records", PER_DECADE))

    @property
    def places(self) -> int:
        """The number of token places T of each input."""
        return int(self.config["places"])

    def arrays(self) -> dict[str, Any]:
        """All that a saved path holds, by name.

        steps (R,), loss (R, B), every block by its own name (R, B, ...) and selection (B, n), all
        without the axis B for one instance. What else a run needs to go on is under path.NAME and
        state.NAME.
        """
        promised = {"steps": self.steps, "loss": self.loss, "selection": self.selection}
        clash = sorted((set(promised) | {"E"}) & set(self.weights))
        if clash:
            raise Unsupported(f"a block called {clash[0]} cannot be saved: give it another name")
        if self.size == 1:
            promised |= {"loss": self.loss[:, 0], "selection": self.selection[0]}
        for name, block in self.weights.items():
            promised[name] = block[:, 0] if self.size == 1 else block
        config = json.dumps(self.config | {"blocks": sorted(self.weights)})
        return {
            **promised,
            **{f"path.{name}": getattr(self, name) for name in _KEPT},
            "path.diverged": np.int64(self.diverged),
            "path.config": np.str_(config),
            **{f"state.{name}": np.asarray(block) for name, block in self.state.items()},
        }

    def save(self, file: str | FilePath, *, force: bool = False) -> None:
        """Write the path as an .npz file without pickles, in one move."""
        from attsvm._utils.files import write_arrays

        write_arrays(file_path(file, "file"), self.arrays(), force=force)

    @classmethod
    def load(cls, file: str | FilePath) -> Path:
        """The path saved in this file."""
        from attsvm._utils.files import load_arrays

        return cls.of_arrays(load_arrays(file_path(file, "file")), str(file))

    @classmethod
    def of_arrays(cls, arrays: dict[str, Any], file: str = "the file") -> Path:
        """The path of these arrays, as `arrays` gives them; `file` is for the error."""
        expect(arrays, dict, "arrays")
        needed = ["steps", "loss", *(f"path.{name}" for name in (*_KEPT, "config", "diverged"))]
        missing = [name for name in needed if name not in arrays]
        if missing:
            raise BadTokens(f"{file} is not a saved path: it has no array {missing[0]}")
        config = saved_config(str(arrays["path.config"]), file)
        part = {name: arrays[f"path.{name}"] for name in _KEPT}
        loss = arrays["loss"]
        one = loss.ndim == 1
        weights = _blocks(arrays, config, file, one=one)
        diverged = arrays["path.diverged"]
        if diverged.ndim or diverged.dtype.kind != "i":
            raise BadTokens(f"{file} is not a whole saved path: diverged is no step")
        path = cls(
            steps=arrays["steps"],
            weights=weights,
            loss=loss[:, None] if one else loss,
            **part,
            config=config,
            state={k.split(".", 1)[1]: a for k, a in arrays.items() if k.startswith("state.")},
            diverged=int(diverged),
        )
        check_path(path, file)
        return path

    def columns(self) -> dict[str, Any]:
        """A row per record and instance.

        step, instance, loss, log10 of the gradient's norm, the least attention on a top token, log
        of the flow time, and the Frobenius norm of each block.
        """
        records, size = self.loss.shape
        with np.errstate(over="ignore"):
            norms = {
                f"norm_{name}": np.linalg.norm(block.reshape(records * size, -1), axis=1)
                for name, block in self.weights.items()
            }
        return {
            "step": np.repeat(self.steps, size),
            "instance": np.tile(np.arange(size), records),
            "loss": self.loss.ravel(),
            "log10_gradient": self.log_gradient.ravel() / np.log(10),
            "least_attention": self.top_attention.min(axis=2).ravel(),
            "log_flow_time": self.clock.ravel(),
            **norms,
        }

    def plot(self, found: Any = None, *, instance: int = 0, style: str = "screen") -> Figure:
        """Loss and gradient, attention on the top tokens, and the norm of what is trained.

        found: the Outcome of the run; then the last panel is the way to the limit, as in the
        picture of `attsvm train --figure`. style: "screen", or "paper" for a column.
        """
        number = whole_instance(instance, self.size)
        return draw("path", self, found=found, instance=number, style=style)

    def _card(self) -> Summary:
        c = self.config
        said = (
            f"{c['model']}, {c['optimizer']}, {self.size} instances, "
            f"{int(self.steps[-1])} steps, {len(self.steps)} records"
        )
        blocks = ", ".join(f"{k} {block.shape[2:]}" for k, block in self.weights.items())
        facts = {
            "lr": c.get("lr"),
            "loss at the end": self.loss[-1],
            "selection": self.selection[0],
            "least attention": float(self.top_attention[-1].min(initial=1.0)),
            "blocks": blocks,
        }
        if self.underflow is not None:
            said += f"; from step {self.underflow} the gradient is below the floats"
        if self.diverged >= 0:
            said += f"; diverged at step {self.diverged}"
        return Summary("Path", said, facts, brief=True)


def _blocks(
    arrays: dict[str, Any], config: dict[str, Any], file: str, *, one: bool
) -> dict[str, Floats]:
    """The blocks that the config names, with the axis B; it is not in the files of one instance."""
    names = config.pop("blocks", [])
    missing = [name for name in names if name not in arrays]
    if missing:
        raise BadTokens(f"{file} is not a saved path: it has no array {missing[0]}")
    found = {name: arrays[name] for name in names}
    return {name: a[:, None] if one and a.ndim else a for name, a in found.items()}


def recorded(step: int, per_decade: int = PER_DECADE) -> bool:
    """Whether this step is on the grid: all up to 10, then so many per decade.

    It does not depend on where a run ends, so that a continued run has the same records.
    """
    if step <= 10:
        return True
    place = np.log10(step) * per_decade
    return bool(np.floor(place) != np.floor(np.log10(step - 1) * per_decade))


def pulled_back(config: Mapping[str, Any]) -> float | None:
    """The decay or the ridge of a run from its config, 0 without either, None if nothing is known.

    Either keeps the norm from growing.
    """
    decay = config.get("decay")
    return decay or float(config.get("options", {}).get("ridge", 0.0)) or decay
