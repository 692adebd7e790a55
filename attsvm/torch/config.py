"""TrainConfig: everything that decides a training run, and the optimizers that it can name."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

from attsvm._utils.expected import one_of, positive, shown, whole
from attsvm._utils.objects import is_outside, load_object
from attsvm.errors import Unsupported
from attsvm.torch.as_optimizer import TorchOptimizer, as_optimizer
from attsvm.torch.networks import Network
from attsvm.torch.optimizers import Group, MirrorDescent, SteepestDescent, direction_of

# What a task has other than the defaults of TrainConfig.
TASKS: dict[str, dict[str, Any]] = {
    "text": {},
    "images": {"data": "fashion", "train_count": 10_000, "valid_count": 2000, "test_count": 5000},
}
# The usual rate of each optimizer; that of steepest:NORM is in `usual_rate`.
OPTIMIZERS = {
    "adam": 1e-3,
    "adamw": 1e-3,
    "mirror": 0.1,
    "muon": 1e-2,
    "ngd": 1e-2,
    "nmirror": 1e-3,
    "sgd": 0.1,
}
_USUAL_P = 1.1
# What Muon's authors, and torch, have.
_MUON_MOMENTUM = 0.95


@dataclass(frozen=True)
class TrainConfig:
    """What is trained, on what, and how; two runs of one config on one thread are equal bit by bit.

    task: text or images. data: the name of a set (attsvm.datasets.LABELLED); source: which reviews.
    train_count, valid_count, test_count: at most so many inputs; default: all. width, layers,
    heads, hidden, dropout: sizes of the transformer; spread: of the entries of a new embedding;
    length, vocabulary: of text; patch: of images. optimizer: adam, adamw, mirror, muon, ngd,
    nmirror, sgd, steepest:NORM, or FILE.py:NAME of a torch optimizer. p: the exponent of mirror
    descent, default: 1.1. lr: the rate, default: one that suits the optimizer. embedding_lr: by how
    much the rate of the embeddings is larger. batch, epochs: inputs of a step, rounds over the
    data. records: how often an epoch is measured. seed: of the initial network and of the order of
    the data. stop_accuracy: stop at this training accuracy. measured: training inputs that are
    measured. device: of the network, as torch names it.

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
    measured: int = 2000
    device: str = "cpu"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kind, _, optional = str(field.type).partition(" | ")
            if value is None and optional:
                continue
            if kind == "int":
                whole(value, field.name, least=0 if field.name == "seed" else 1)
            elif kind == "float":
                zero = field.name in ("dropout", "momentum", "weight_decay")
                if isinstance(value, str | bool):
                    raise Unsupported(f"{field.name} is {shown(value)}: it must be a number")
                positive(value, field.name, zero=zero)
            elif not isinstance(value, str):
                raise Unsupported(f"{field.name} is {shown(value)}: it must be a string")
        one_of(self.task, TASKS, "task")
        if self.seed >= 2**31:
            raise Unsupported(f"seed is {self.seed}: it must be below 2³¹")
        if self.stop_accuracy is not None and self.stop_accuracy > 1:
            raise Unsupported(f"stop_accuracy is {self.stop_accuracy:g}: it must be at most 1")
        self._check_optimizer()
        try:
            torch.zeros(1, device=self.device).item()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            said = str(error).partition("\n")[0]
            raise Unsupported(
                f"device is {self.device!r}: this torch cannot use it ({said})"
            ) from error

    def _check_optimizer(self) -> None:
        """Raise Unsupported unless the optimizer exists and takes its options."""
        name = self.optimizer
        usual_rate(name)
        if self.p is not None and name not in ("mirror", "nmirror"):
            raise Unsupported(f"p is for mirror and nmirror: {name} has none")
        if self.p is not None and not self.p > 1:
            raise Unsupported(f"p is {self.p:g}: it must be above 1")
        if self.momentum and (name in ("adam", "adamw") or is_outside(name)):
            raise Unsupported(f"{name} keeps its own averages and takes no momentum here")
        if self.weight_decay and is_outside(name):
            raise Unsupported(f"{name} takes its weight_decay from as_optimizer")

    def to_dict(self) -> dict[str, Any]:
        """The config as JSON has it."""
        return asdict(self)

    def to_toml(self) -> str:
        """The config as a TOML file; what is None is left out."""
        found = {name: value for name, value in self.to_dict().items() if value is not None}
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in found.items())


def config_of(
    task: str, given: Mapping[str, Any] | None = None, *, where: str = "a config"
) -> TrainConfig:
    """The usual config of a task with these changes. Raises Unsupported for an unknown name.

    >>> config_of("images", {"optimizer": "mirror", "p": 1.1}).data
    'fashion'
    """
    one_of(task, TASKS, "task")
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


def usual_rate(optimizer: str) -> float:
    """The usual rate of an optimizer; raises Unsupported where there is none of this name."""
    first, _, norm = optimizer.partition(":")
    if first == "steepest":
        direction_of(norm)
        return 1e-3 if norm == "max" else 1e-2
    if is_outside(optimizer):
        return float(outside_optimizer(optimizer).lr or 0.1)
    if optimizer not in OPTIMIZERS:
        known = ", ".join((*OPTIMIZERS, "steepest:NORM"))
        raise Unsupported(f"optimizer is {optimizer!r}: known are {known}, or FILE.py:NAME")
    return OPTIMIZERS[optimizer]


def outside_optimizer(name: str) -> TorchOptimizer:
    """The torch optimizer that FILE.py:NAME names: a class, or what `as_optimizer` gives."""
    found = load_object(name, "an optimizer")
    if isinstance(found, type):
        return as_optimizer(found)
    if not isinstance(found, TorchOptimizer):
        raise Unsupported(f"{name} is no torch optimizer: give a class, or as_optimizer(…) of one")
    if found.normalized:
        raise Unsupported(f"{name} has normalized_gradient=True, which is for attsvm.train alone")
    return found


def optimizers_of(config: TrainConfig, network: Network) -> list[Optimizer]:
    """The optimizers of a config over a network's parameters: one, or two with muon.

    Matrices and embeddings are in different groups, the latter with the rate `embedding_lr`; biases
    and gains have p = 2 under mirror descent. Muon moves the matrices inside the network, AdamW all
    else at a tenth of its rate.
    """
    name, _, norm = config.optimizer.partition(":")
    lr = usual_rate(config.optimizer) if config.lr is None else config.lr
    p = _USUAL_P if config.p is None else config.p
    tables = {id(x) for x in network.embeddings}
    parts: dict[tuple[bool, ...], Group] = {}
    for label, x in network.named_parameters():
        matrix, table = x.ndim >= 2, id(x) in tables
        inner = matrix and not table and label.startswith("blocks.")
        rate = lr * (config.embedding_lr if table else 1.0)
        made = {"params": [], "p": p if matrix else 2.0, "lr": rate}
        parts.setdefault((inner, matrix, table), made)["params"].append((label, x))
    options: dict[str, Any] = {"lr": lr, "weight_decay": config.weight_decay}
    momentum, every = config.momentum, list(parts.values())
    if name in ("mirror", "nmirror"):
        normalized = name == "nmirror"
        return [MirrorDescent(every, p=p, normalized=normalized, momentum=momentum, **options)]
    for part in every:
        del part["p"]
    if is_outside(config.optimizer):
        return [outside_optimizer(config.optimizer).on(every, lr)]
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
