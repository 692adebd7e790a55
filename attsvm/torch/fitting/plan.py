"""Plan: everything that decides a training run, as plain numbers and words."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from attsvm._utils.expected import file_path, number, shown
from attsvm._utils.files import check_in, parse_toml
from attsvm.errors import Unsupported

TASKS = ("text", "images")
DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class Plan:
    """What is trained, on what, and how; two runs of one plan on one thread are equal bit by bit.

    task: text or images. data: the name of a set (attsvm.datasets.LABELLED); source: which reviews.
    train_count, valid_count, test_count: at most so many inputs; all without. width, layers,
    heads, hidden, dropout, biases: sizes of the transformer; spread: of the entries of a new
    embedding; length, vocabulary: of text; patch: of images. optimizer: one of `OPTIMIZERS` or
    steepest:NORM. p: the exponent of mirror descent, 1.1 without. lr: the rate, one that suits the
    optimizer without. embedding_lr: by how much the rate of the embeddings is larger. batch,
    epochs: inputs of a step, rounds over the data. records: how often an epoch is measured. seed:
    of the initial network and of the order of the data. stop_accuracy: stop at this training
    accuracy. patience: stop after so many records without a better validation accuracy. measured:
    training inputs that are measured. dtype: of the weights.

    >>> plan = Plan(optimizer="mirror", p=1.1, epochs=2)
    >>> plan.task, plan.optimizer, plan.width, plan.epochs
    ('text', 'mirror', 64, 2)
    """

    task: str = "text"
    data: str = "reviews"
    source: str = "rotten_tomatoes"
    train_count: int | None = None
    valid_count: int | None = None
    test_count: int | None = None
    width: int = 64
    layers: int = 2
    heads: int = 4
    hidden: int = 128
    dropout: float = 0.0
    biases: bool = True
    spread: float = 0.02
    length: int = 64
    vocabulary: int = 8000
    patch: int = 7
    optimizer: str = "adamw"
    p: float | None = None
    lr: float | None = None
    embedding_lr: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch: int = 32
    epochs: int = 10
    records: int = 1
    seed: int = 0
    stop_accuracy: float | None = None
    patience: int | None = None
    measured: int = 2000
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_kind(field.name, str(field.type), getattr(self, field.name))
        for name, known in (("task", TASKS), ("dtype", DTYPES)):
            if getattr(self, name) not in known:
                raise Unsupported(
                    f"{name} is {shown(getattr(self, name))}: it is {' or '.join(known)}"
                )
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise Unsupported(f"{name} is {shown(value)}: it must be at least 1")
        if not 0 <= self.seed < 2**31:
            raise Unsupported(f"seed is {shown(self.seed)}: it must lie in [0, 2³¹)")
        if self.lr is not None and not self.lr > 0:
            raise Unsupported(f"lr is {self.lr:g}: it must be above 0")
        if not self.spread > 0:
            raise Unsupported(f"spread is {self.spread:g}: it must be above 0")
        if not self.embedding_lr > 0:
            raise Unsupported(f"embedding_lr is {self.embedding_lr:g}: it must be above 0")
        if self.stop_accuracy is not None and not 0 < self.stop_accuracy <= 1:
            raise Unsupported(f"stop_accuracy is {self.stop_accuracy:g}: it must lie in (0, 1]")

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON has it."""
        return asdict(self)

    def to_toml(self) -> str:
        """The plan as a TOML file has it; what is None is left out, and read as None."""
        said = {name: value for name, value in self.to_dict().items() if value is not None}
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in said.items())


_AT_LEAST_ONE = (
    *("train_count", "valid_count", "test_count", "width", "layers", "heads", "hidden", "length"),
    *("vocabulary", "patch", "batch", "epochs", "records", "patience", "measured"),
)
# What a task has other than Plan says.
_OF_TASK: dict[str, dict[str, Any]] = {
    "text": {},
    "images": {"data": "fashion", "train_count": 10_000, "valid_count": 2000, "test_count": 5000},
}


def plan_of(task: str, given: Mapping[str, Any] | None = None, *, where: str = "a plan") -> Plan:
    """The usual plan of a task with these changes. Raises Unsupported for an unknown name.

    >>> plan_of("images", {"optimizer": "mirror", "p": 1.1}).data
    'fashion'
    """
    if not isinstance(task, str) or task not in TASKS:
        raise Unsupported(f"task is {shown(task)}: it is {' or '.join(TASKS)}")
    if not isinstance(given, Mapping | None):
        raise Unsupported(f"given must be names with values, this is {shown(given)}")
    changes = dict(given or {})
    names = [field.name for field in fields(Plan)]
    for name in changes:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.0)[0]
            raise Unsupported(f"{where} has no {shown(name)}: did you mean {near!r}?")
    if changes.setdefault("task", task) != task:
        raise Unsupported(f"{where} is for {changes['task']!r}, and {task!r} was asked for")
    return replace(Plan(), **(_OF_TASK[task] | changes))


def read_settings(file: str | Path) -> dict[str, Any]:
    """What a TOML file says of a plan, by name."""
    file = file_path(file, "file")
    check_in(file, "a .toml file")
    try:
        return parse_toml(file.read_text("utf-8"))
    except ValueError as error:
        raise Unsupported(f"{file} cannot be read as TOML ({error})") from error


def read_plan(file: str | Path, **changes: Any) -> Plan:
    """The plan in a TOML file, with these changes; the names in it are those of Plan.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "plan.toml"
    ...     size = file.write_text("epochs = 3")
    ...     plan = read_plan(file, seed=1)
    >>> plan.task, plan.epochs, plan.seed
    ('text', 3, 1)
    """
    found = read_settings(file) | changes
    task = found.get("task", "text")
    if not isinstance(task, str):
        raise Unsupported(f"task is {shown(task)}: it is {' or '.join(TASKS)}")
    return plan_of(task, found, where=str(file))


def differences(one: Plan, other: Mapping[str, Any]) -> list[str]:
    """How a plan differs from a saved one, `name is x, was y`."""
    mine = one.to_dict()
    names = dict.fromkeys((*mine, *other))
    return [
        f"{name} is {mine.get(name)!r}, was {other.get(name)!r}"
        for name in names
        if mine.get(name) != other.get(name)
    ]


def _check_kind(name: str, kind: str, value: Any) -> None:
    """Raises Unsupported unless a field holds what its annotation says, numbers finite."""
    if value is None:
        if "None" in kind:
            return
        raise Unsupported(f"{name} is missing: it must be {_SAID[kind]}")
    base = kind.removesuffix(" | None")
    right = {
        "str": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
    }[base]
    if not right or (base == "float" and not math.isfinite(number(value))):
        raise Unsupported(f"{name} is {shown(value)}: it must be {_SAID[base]}")


_SAID = {
    "str": "a word",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a finite number",
}
