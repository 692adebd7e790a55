"""TrainConfig: everything that decides a training run, and the optimizers that it can name."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from torch.optim import SGD, Adam, AdamW, Optimizer

from attsvm._utils.expected import file_path, number, shown
from attsvm._utils.files import check_in, parse_toml
from attsvm.errors import Unsupported
from attsvm.torch.networks import Network
from attsvm.torch.optimizers import Group, MirrorDescent, SteepestDescent, direction_of, groups

# What a task has other than the defaults of TrainConfig.
TASKS: dict[str, dict[str, Any]] = {
    "text": {},
    "images": {"data": "fashion", "train_count": 10_000, "valid_count": 2000, "test_count": 5000},
}
DTYPES = ("float32", "bfloat16")
# The usual rate of each optimizer; steepest:NORM has those of `_STEEPEST_RATES`.
OPTIMIZERS = {
    "adam": 1e-3,
    "adamw": 1e-3,
    "mirror": 0.1,
    "muon": 1e-2,
    "ngd": 1e-2,
    "nmirror": 1e-3,
    "sgd": 0.1,
}
_STEEPEST_RATES = {"max": 1e-3}
_USUAL_P = 1.1
# What Muon's authors, and torch, have.
_MUON_MOMENTUM = 0.95
_AT_LEAST_ONE = (
    *("train_count", "valid_count", "test_count", "width", "layers", "heads", "hidden", "length"),
    *("vocabulary", "patch", "batch", "epochs", "records", "patience", "measured"),
)


@dataclass(frozen=True)
class TrainConfig:
    """What is trained, on what, and how; two runs of one config on one thread are equal bit by bit.

    task: text or images. data: the name of a set (attsvm.datasets.LABELLED); source: which reviews.
    train_count, valid_count, test_count: at most so many inputs; default: all. width, layers,
    heads, hidden, dropout, biases: sizes of the transformer; spread: of the entries of a new
    embedding; length, vocabulary: of text; patch: of images. optimizer: adam, adamw, mirror, muon,
    ngd, nmirror, sgd or steepest:NORM. p: the exponent of mirror descent, default: 1.1. lr: the
    rate, default: one that suits the optimizer. embedding_lr: by how much the rate of the
    embeddings is larger. batch, epochs: inputs of a step, rounds over the data. records: how often
    an epoch is measured. seed: of the initial network and of the order of the data. stop_accuracy:
    stop at this training accuracy. patience: stop after so many records without a better validation
    accuracy. measured: training inputs that are measured. dtype: of the weights.

    >>> config = TrainConfig(optimizer="mirror", p=1.1, epochs=2)
    >>> config.task, config.optimizer, config.width, config.epochs
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
        for name, known in (("task", tuple(TASKS)), ("dtype", DTYPES)):
            if getattr(self, name) not in known:
                raise Unsupported(
                    f"{name} is {shown(getattr(self, name))}: it is {' or '.join(known)}"
                )
        least, limits = math.ulp(0.0), [("seed", 0.0, 2.0**31 - 1, "at least 0 and below 2³¹")]
        limits += [(name, 1.0, math.inf, "at least 1") for name in _AT_LEAST_ONE]
        limits += [(name, least, math.inf, "above 0") for name in ("lr", "spread", "embedding_lr")]
        limits += [("stop_accuracy", least, 1.0, "above 0 and at most 1")]
        for name, low, high, said in limits:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise Unsupported(f"{name} is {shown(value)}: it must be {said}")

    def to_dict(self) -> dict[str, Any]:
        """The config as JSON has it."""
        return asdict(self)

    def to_toml(self) -> str:
        """The config as a TOML file; what is None is left out."""
        found = {name: value for name, value in self.to_dict().items() if value is not None}
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in found.items())

    def differences(self, saved: Mapping[str, Any]) -> list[str]:
        """How the config differs from a saved one, `name is x, was y`."""
        mine = self.to_dict()
        return [
            f"{name} is {mine.get(name)!r}, was {saved.get(name)!r}"
            for name in dict.fromkeys((*mine, *saved))
            if mine.get(name) != saved.get(name)
        ]


def _check_kind(name: str, annotation: str, value: Any) -> None:
    """Raise Unsupported unless a field holds what its annotation says, numbers finite."""
    kind, _, optional = annotation.partition(" | ")
    if value is None and optional:
        return
    types: tuple[type, ...]
    types, said = {
        "str": ((str,), "a string"),
        "bool": ((bool,), "true or false"),
        "int": ((int,), "a whole number"),
        "float": ((int, float), "a finite number"),
    }[kind]
    right = isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))
    if not right or (kind == "float" and not math.isfinite(number(value))):
        raise Unsupported(f"{name} is {shown(value)}: it must be {said}")


def config_of(
    task: str, given: Mapping[str, Any] | None = None, *, where: str = "a config"
) -> TrainConfig:
    """The usual config of a task with these changes. Raises Unsupported for an unknown name.

    >>> config_of("images", {"optimizer": "mirror", "p": 1.1}).data
    'fashion'
    """
    if not isinstance(task, str) or task not in TASKS:
        raise Unsupported(f"task is {shown(task)}: it is {' or '.join(TASKS)}")
    if not isinstance(given, Mapping | None):
        raise Unsupported(f"given must be names with values, this is {shown(given)}")
    changes = dict(given or {})
    names = [field.name for field in fields(TrainConfig)]
    for name in changes:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.0)[0]
            raise Unsupported(f"{where} has no {shown(name)}: did you mean {near!r}?")
    if changes.setdefault("task", task) != task:
        raise Unsupported(f"{where} is for {changes['task']!r}, and {task!r} was asked for")
    return replace(TrainConfig(), **(TASKS[task] | changes))


def read_settings(file: str | Path) -> dict[str, Any]:
    """The settings of a TOML file, by name."""
    file = file_path(file, "file")
    check_in(file, "a .toml file")
    try:
        return parse_toml(file.read_text("utf-8"))
    except ValueError as error:
        raise Unsupported(f"{file} cannot be read as TOML ({error})") from error


def read_config(file: str | Path, **changes: Any) -> TrainConfig:
    """The config in a TOML file, with these changes; the names in it are those of TrainConfig.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "plan.toml"
    ...     size = file.write_text("epochs = 3")
    ...     config = read_config(file, seed=1)
    >>> config.task, config.epochs, config.seed
    ('text', 3, 1)
    """
    found = read_settings(file) | changes
    return config_of(found.get("task", "text"), found, where=str(file))


def usual_rate(optimizer: str) -> float:
    """The usual rate of an optimizer; raises Unsupported where there is none of this name."""
    first, _, norm = optimizer.partition(":")
    if first == "steepest":
        direction_of(norm)
        return _STEEPEST_RATES.get(norm, 1e-2)
    if optimizer not in OPTIMIZERS:
        known = ", ".join((*OPTIMIZERS, "steepest:NORM"))
        raise Unsupported(f"optimizer is {optimizer!r}: known are {known}")
    return OPTIMIZERS[optimizer]


def check_optimizer(config: TrainConfig) -> None:
    """Raise Unsupported unless the optimizer exists and takes the options of the config."""
    name = config.optimizer
    usual_rate(name)
    if config.p is not None and name not in ("mirror", "nmirror"):
        raise Unsupported(f"p is for mirror and nmirror: {name} has none")
    if config.p is not None and not config.p > 1:
        raise Unsupported(f"p is {config.p:g}: it must be above 1")
    if config.momentum and name in ("adam", "adamw"):
        raise Unsupported(f"{name} keeps its own averages and takes no momentum")


def optimizers_of(config: TrainConfig, network: Network) -> list[Optimizer]:
    """The optimizers of a config over a network's parameters: one, or two with muon.

    Matrices and embeddings are in different groups, the latter with the rate `embedding_lr`; biases
    and gains have p = 2 under mirror descent. Muon moves the matrices inside the network, AdamW all
    else at a tenth of its rate.
    """
    check_optimizer(config)
    name, _, norm = config.optimizer.partition(":")
    lr = usual_rate(config.optimizer) if config.lr is None else config.lr
    p = _USUAL_P if config.p is None else config.p
    tables = {id(x) for x in network.embeddings}
    parts: dict[tuple[bool, ...], Group] = {}
    for group in groups(network, p=_USUAL_P):
        for label, x in group["params"]:
            matrix, table = group["p"] != 2, id(x) in tables
            inner = matrix and not table and label.startswith("blocks.")
            rate = lr * (config.embedding_lr if table else 1.0)
            made = {"params": [], "p": p if matrix else 2.0, "lr": rate}
            parts.setdefault((inner, matrix, table), made)["params"].append((label, x))
    options: dict[str, Any] = {"lr": lr, "weight_decay": config.weight_decay}
    momentum = config.momentum
    if name in ("mirror", "nmirror"):
        normalized = name == "nmirror"
        every = list(parts.values())
        return [MirrorDescent(every, p=p, normalized=normalized, momentum=momentum, **options)]
    for part in parts.values():
        del part["p"]
    every = list(parts.values())
    if name == "sgd":
        return [SGD(every, momentum=momentum, **options)]
    if name in ("adam", "adamw"):
        return [(Adam if name == "adam" else AdamW)(every, fused=True, **options)]
    if name == "muon":
        try:
            from torch.optim import Muon
        except ImportError as error:
            raise Unsupported("this torch has no Muon: install torch 2.9 or later") from error
        outer = [part | {"lr": part["lr"] * 0.1} for key, part in parts.items() if not key[0]]
        return [
            Muon([parts[True, True, False]], momentum=momentum or _MUON_MOMENTUM, **options),
            AdamW(outer, fused=True, **options),
        ]
    norm = "frobenius" if name == "ngd" else norm
    return [SteepestDescent(every, norm=norm, momentum=momentum, **options)]
