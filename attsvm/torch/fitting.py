"""fit: a network trained by a config, measured at every record, kept in a checkpoint.

data = load_data(config)
fit(TrainConfig(optimizer="mirror", p=1.1), data).test_accuracy
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from attsvm._utils.expected import expect, file_path, flag, function, shown
from attsvm._utils.files import beside, check_in
from attsvm._utils.result import Summary, Table
from attsvm.datasets import LABELLED
from attsvm.datasets.labelled import PAD, Labelled, Vocabulary
from attsvm.errors import BadTokens, Unsupported
from attsvm.torch.config import TrainConfig, optimizers_of
from attsvm.torch.networks import ImageClassifier, Network, TextClassifier

CHECKPOINT = "checkpoint.pt"
_KIND = "attsvm fit 2"
# The numbers of a run that a checkpoint holds.
_NUMBERS = ("done", "step", "seconds", "collapsed")
# Texts of so many batches are ordered by length together, so that few numbers are padding.
_POOL = 16
# Inputs that are measured at once.
_AT_ONCE = 256


class FitRecord(NamedTuple):
    """What was measured after `step` steps; the step 0 is the initial network.

    loss and train_accuracy: over the first `measured` inputs for training. norm_K, norm_Q, norm_V:
    Frobenius, over all layers.
    """

    step: int
    epoch: float
    loss: float
    train_accuracy: float
    valid_accuracy: float
    test_accuracy: float
    norm_K: float
    norm_Q: float
    norm_V: float


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Table):
    """A trained network and its records. Accuracies are shares, 0 to 1.

    stopped: why it ended: epochs, stop_accuracy or collapse. chance: the training accuracy of the
    most frequent class. seconds: of training and measuring.

    >>> from attsvm.torch import TrainConfig, fit, load_data
    >>> config = TrainConfig("images", data="digits", patch=4, train_count=50, epochs=1)
    >>> result = fit(config, load_data(config))
    >>> result.parameters, len(result.to_frame()) == len(result.records)
    (69194, True)
    """

    config: TrainConfig
    network: Network
    records: tuple[FitRecord, ...]
    stopped: str
    chance: float
    seconds: float

    def columns(self) -> dict[str, Any]:
        """A row per record."""
        return dict(
            zip(FitRecord._fields, map(np.array, zip(*self.records, strict=True)), strict=True)
        )

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return sum(x.numel() for x in self.network.parameters())

    @property
    def last(self) -> FitRecord:
        """The last record."""
        return self.records[-1]

    @property
    def best(self) -> FitRecord:
        """The first record with the best validation accuracy."""
        return max(self.records, key=lambda record: record.valid_accuracy)

    @property
    def test_accuracy(self) -> float:
        """The test accuracy at the record that validation chooses."""
        return self.best.test_accuracy

    @property
    def collapsed(self) -> bool:
        """Whether the loss left the finite numbers, or training accuracy ended at chance.

        At chance: within three standard errors of always saying the most frequent class.
        """
        if self.stopped == "collapse" or not math.isfinite(self.last.loss):
            return True
        error = math.sqrt(self.chance * (1 - self.chance) / self.config.measured)
        return self.last.train_accuracy <= self.chance + 3 * error

    def to_dict(self) -> dict[str, Any]:
        """What results.json holds."""
        names = ("stopped", "collapsed", "chance", "parameters", "seconds", "test_accuracy")
        return {
            "plan": self.config.to_dict(),
            **{name: getattr(self, name) for name in names},
            "best": self.best._asdict(),
            "last": self.last._asdict(),
            "records": [record._asdict() for record in self.records],
        }

    def _card(self) -> Summary:
        said = (
            f"{self.config.task}, {self.config.optimizer}: test accuracy {self.test_accuracy:.3f}, "
            f"training {self.last.train_accuracy:.3f}, {self.last.step} steps, {self.stopped}"
        )
        return Summary("FitResult", said, brief=True)


class Moment(NamedTuple):
    """What a watcher receives: before the first step, after each one, and at each record.

    steps: how many there are at most. loss: of the last batch; nan before one. record: what was
    just measured, else None.
    """

    network: Network
    step: int
    steps: int
    loss: float
    record: FitRecord | None


Watcher = Callable[[Moment], None]


def load_data(
    config: TrainConfig, *, file: str | Path | None = None, data_dir: str | Path | None = None
) -> Labelled:
    """The data that a config names. file: a CSV with columns text and label for data = "own-text".

    >>> from attsvm.torch import config_of
    >>> config = config_of("images", {"data": "digits", "patch": 4, "train_count": 200})
    >>> data = load_data(config)
    >>> data.kind, len(data.classes), len(data.train)
    ('images', 10, 200)
    """
    expect(config, TrainConfig, "config", make="config_of(task) makes one")
    if config.data not in LABELLED:
        raise Unsupported(f"data is {shown(config.data)}: known are {', '.join(LABELLED)}")
    loader = LABELLED[config.data]
    takes = inspect.signature(loader).parameters
    if "file" in takes and file is None:
        raise Unsupported(
            f"{config.data} needs a file: --data FILE.csv with columns text and label"
        )
    for name, given in (("file", file), ("data_dir", data_dir)):
        if given is not None:
            file_path(given, name)
    if file is not None and "file" not in takes:
        raise Unsupported(f"data is {config.data!r} and a file was given: own-text reads it")
    asked = {
        "file": file,
        "counts": (config.train_count, config.valid_count, config.test_count),
        "source": config.source,
        "words": config.length,
        "data_dir": data_dir,
    }
    return loader(**{name: value for name, value in asked.items() if name in takes})


def fit(
    config: TrainConfig,
    data: Labelled,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    watch: Watcher | None = None,
) -> FitResult:
    """Train a network by a config; the same bits for the same config and data, on one thread.

    Parameters
    ----------
    config : TrainConfig
    data : Labelled
        What `load_data` returns.
    folder : path, optional
        Where a checkpoint is written after each record.
    resume : bool, default: False
        Go on from the checkpoint in the folder; the end is that of an uninterrupted run.
    watch : function, optional
        Called with a `Moment` after each step and each record.

    Returns
    -------
    FitResult

    Raises
    ------
    Unsupported
        Where the checkpoint is of another config or of other data; the message names what differs.

    Examples
    --------
    >>> from attsvm.torch import config_of
    >>> changes = {"data": "digits", "patch": 4, "train_count": 200, "epochs": 2}
    >>> config = config_of("images", changes)
    >>> result = fit(config, load_data(config))
    >>> result.stopped, result.last.step, result.test_accuracy > 1.5 * result.chance
    ('epochs', 14, True)
    """
    expect(config, TrainConfig, "config", make="config_of(task) makes one")
    expect(data, Labelled, "data", make="load_data(config) reads them")
    resume, watch = flag(resume, "resume"), function(watch, "watch")
    if data.kind != config.task:
        raise Unsupported(f"the config is for {config.task} and {data.name} holds {data.kind}")
    file = None if folder is None else file_path(folder, "folder") / CHECKPOINT
    if file is not None:
        if file.parent.exists() and not file.parent.is_dir():
            raise Unsupported(f"{file.parent} is a file: name a folder")
        if file.exists() and not resume:
            raise Unsupported(
                f"{file} exists: go on with it (--resume, resume=True), or name another folder"
            )
    elif resume:
        raise Unsupported("a run is resumed from a folder: name it")
    with torch.random.fork_rng(devices=[]):  # the random numbers of the caller stay
        run = _Training(config, data)
        if file is not None and resume and file.exists():
            run.load(file)
        run.tell(watch, math.nan, None)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        while run.stopped is None:
            run.stretch(watch)
            if file is not None:
                run.save(file)
    shares = torch.bincount(run.train.y[: config.measured]).double()
    return FitResult(
        config=config,
        network=run.network.eval(),
        records=run.records,
        stopped=run.stopped,
        chance=float(shares.max() / shares.sum()),
        seconds=run.seconds,
    )


class _Training:
    """The state of a run, which goes on stretch by stretch; an epoch has one for each record."""

    def __init__(self, config: TrainConfig, data: Labelled) -> None:
        self.config, self.digest = config, data.digest
        known = None
        if data.kind == "text":
            known = Vocabulary.of(data.train.inputs, config.vocabulary)
        self.train, self.valid, self.test = (
            encode(part.inputs, part.labels, config, known)
            for part in (data.train, data.valid, data.test)
        )
        self.per_epoch = math.ceil(len(self.train.y) / config.batch)
        self.network = initial_network(config, len(data.classes), self.train.x.shape[1:], known)
        self.optimizers = optimizers_of(config, self.network)
        if config.records > self.per_epoch:
            raise Unsupported(f"records is {config.records}: an epoch has {self.per_epoch} steps")
        self.done = self.step = 0
        self.seconds = 0.0
        self.records: tuple[FitRecord, ...] = ()
        self.collapsed = False

    @property
    def stopped(self) -> str | None:
        """Why the run has ended; None while it goes on."""
        config, records = self.config, self.records
        if self.collapsed:
            return "collapse"
        if not records:
            return None
        if config.stop_accuracy is not None and records[-1].train_accuracy >= config.stop_accuracy:
            return "stop_accuracy"
        return "epochs" if self.done >= config.epochs * config.records else None

    def tell(self, watch: Watcher | None, loss: float, record: FitRecord | None) -> None:
        """Hand the present moment to the watcher."""
        if watch is not None:
            steps = self.per_epoch * self.config.epochs
            watch(Moment(self.network, self.step, steps, loss, record))

    def stretch(self, watch: Watcher | None) -> None:
        """Take the steps up to the next record, and measure; first of all the initial network."""
        config = self.config
        start = time.perf_counter()
        if not self.records:
            self._measure()
        epoch, part = divmod(self.done, config.records)
        batches = order(self.train, config, epoch)
        first, last = (len(batches) * k // config.records for k in (part, part + 1))
        # Dropout draws from here on; a resumed run begins a stretch with the same numbers.
        torch.manual_seed((config.seed + 1) * 1_000_003 + self.done)
        self.network.train()
        for places in batches[first:last]:
            x, y = self.train.batch(places)
            loss = F.cross_entropy(self.network(x), y)
            for one in self.optimizers:
                one.zero_grad(set_to_none=True)
            loss.backward()
            for one in self.optimizers:
                one.step()
            self.step += 1
            self.tell(watch, loss.item(), None)
            if not math.isfinite(loss.item()):
                self.collapsed = True
                break
        self.done += 1
        self._measure()
        self.seconds += time.perf_counter() - start
        self.tell(watch, math.nan, self.records[-1])

    def _measure(self) -> None:
        """Add a record of the present network."""
        self.network.eval()
        loss, train = measure(self.network, self.train, self.config.measured)
        shares = [measure(self.network, part)[1] for part in (self.valid, self.test)]
        norms = {
            f"norm_{letter}": math.sqrt(sum(float((w.detach().double() ** 2).sum()) for w in own))
            for letter, own in self.network.projections.items()
        }
        epoch = self.done / self.config.records
        self.records += (FitRecord(self.step, epoch, loss, train, *shares, **norms),)
        if not math.isfinite(loss):
            self.collapsed = True

    def save(self, file: Path) -> None:
        """Write a checkpoint in one move: tensors, numbers and text, no objects."""
        kept = {
            "kind": _KIND,
            "plan": self.config.to_dict(),
            "data": self.digest,
            "records": [tuple(record) for record in self.records],
            "network": self.network.state_dict(),
            "optimizers": [one.state_dict() for one in self.optimizers],
            **{name: getattr(self, name) for name in _NUMBERS},
        }
        with beside(file) as target:
            torch.save(kept, target)

    def load(self, file: Path) -> None:
        """Go on from a checkpoint. Raises Unsupported where it is of another config or data."""
        check_in(file, "the checkpoint of a fit")
        try:
            kept: dict[str, Any] = torch.load(file, weights_only=True, map_location="cpu")
            kind = kept.get("kind")
        except Exception as error:  # whatever a file that is no checkpoint makes torch raise
            raise BadTokens(f"{file} is no checkpoint of a fit, or it is cut") from error
        if kind != _KIND:
            raise BadTokens(f"{file} was written by another version of attsvm")
        config, plan = self.config, kept["plan"]
        other = [
            f"{name} is {value!r}, was {plan.get(name)!r}"
            for name, value in config.to_dict().items()
            if name != "epochs" and value != plan.get(name)  # a run may be carried on for longer
        ]
        if other:
            raise Unsupported(f"{file} is of another config: {'; '.join(other)}")
        if kept["data"] != self.digest:
            raise Unsupported(f"{file} is of other data: the texts or images are not the same")
        if kept["done"] > config.epochs * config.records:
            raise Unsupported(f"{file} is past {config.epochs} epochs: ask for more")
        self.network.load_state_dict(kept["network"])
        for one, state in zip(self.optimizers, kept["optimizers"], strict=True):
            one.load_state_dict(state)
        self.records = tuple(FitRecord(*record) for record in kept["records"])
        for name in _NUMBERS:
            setattr(self, name, kept[name])


@dataclass(frozen=True)
class LabelledTensors:
    """x (n, …) and y (n,) of one part; lengths (n,) of texts, [cls] with them, else None."""

    x: Tensor
    y: Tensor
    lengths: Tensor | None

    def batch(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs at these places, cut to the longest text among them, and their classes."""
        x = self.x[places]
        if self.lengths is not None:
            x = x[:, : int(self.lengths[places].max())]
        return x, self.y[places]

    def in_order(self, most: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The first inputs in large batches, texts by length."""
        n = len(self.y) if most is None else min(most, len(self.y))
        places = torch.arange(n)
        if self.lengths is not None:
            places = torch.argsort(self.lengths[:n], stable=True)
        for start in range(0, n, _AT_ONCE):
            yield self.batch(places[start : start + _AT_ONCE])


def encode(
    inputs: Any, labels: Any, config: TrainConfig, known: Vocabulary | None
) -> LabelledTensors:
    """One part of a set as the network takes it; known: the words of the training part."""
    y = torch.from_numpy(np.asarray(labels, dtype=np.int64)).to(config.device)
    if known is not None:
        x = torch.from_numpy(known.encode(inputs, length=config.length))
        return LabelledTensors(x.to(config.device), y, (x != PAD).sum(dim=1))
    x = torch.from_numpy(np.array(inputs, dtype=np.float32))
    return LabelledTensors(x.to(config.device), y, None)


def order(inputs: LabelledTensors, config: TrainConfig, epoch: int) -> list[Tensor]:
    """The places of each batch of an epoch, drawn from the seed and the number of the epoch."""
    draw = torch.Generator().manual_seed(config.seed * 100_003 + epoch)
    places = torch.randperm(len(inputs.y), generator=draw)
    if inputs.lengths is None:
        return list(places.split(config.batch))
    batches: list[Tensor] = []
    for pool in places.split(config.batch * _POOL):
        ranked = pool[torch.argsort(inputs.lengths[pool], stable=True)]
        batches += ranked.split(config.batch)
    return [batches[k] for k in torch.randperm(len(batches), generator=draw).tolist()]


def initial_network(
    config: TrainConfig, classes: int, shape: torch.Size, known: Vocabulary | None
) -> Network:
    """The initial network of a config, drawn from its seed. shape: of one input."""
    torch.manual_seed(config.seed)
    if known is None:
        return ImageClassifier(config, classes, shape).to(config.device)
    return TextClassifier(config, classes, len(known)).to(config.device)


@torch.no_grad()
def measure(
    network: Network, inputs: LabelledTensors, most: int | None = None
) -> tuple[float, float]:
    """The mean loss and the accuracy over the first `most` inputs, or all."""
    loss, right, count = 0.0, 0, 0
    for x, y in inputs.in_order(most):
        logits = network(x)
        loss += float(F.cross_entropy(logits, y, reduction="sum"))
        right += int((logits.argmax(dim=1) == y).sum())
        count += len(y)
    return loss / count, right / count
