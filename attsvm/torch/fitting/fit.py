"""fitted: a network trained by a plan, measured at every record, kept in a checkpoint."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F
from torch.optim import Optimizer

from attsvm._utils.expected import expect, file_path, flag, function, shown
from attsvm.datasets import LABELLED
from attsvm.datasets.labelled import Labelled
from attsvm.errors import Unsupported
from attsvm.torch.fitting.batches import Encoded, Inputs, encoded, order
from attsvm.torch.fitting.checkpoint import NAME, State, load, save
from attsvm.torch.fitting.history import Fit, Record
from attsvm.torch.fitting.optimizers import check_optimizer, optimizers_of
from attsvm.torch.fitting.plan import Plan
from attsvm.torch.networks import ImageClassifier, Network, TextClassifier
from attsvm.torch.networks.network import Sizes


class Moment(NamedTuple):
    """What a watcher is told: before the first step, after each one, and at each record.

    steps: how many there are at most. loss: of the last batch; nan before one. record: what was
    just measured, else None.
    """

    network: Network
    optimizers: list[Optimizer]
    step: int
    steps: int
    loss: float
    record: Record | None


def data_of(
    plan: Plan, *, file: str | Path | None = None, data_dir: str | Path | None = None
) -> Labelled:
    """The data that a plan names. file: a CSV of one's own for data = "own-text".

    >>> from attsvm.torch.fitting.plan import plan_of
    >>> plan = plan_of("images", {"data": "digits", "patch": 4, "train_count": 200, "epochs": 2})
    >>> data = data_of(plan)
    >>> data.kind, len(data.classes), len(data.train)
    ('images', 10, 200)
    """
    check_optimizer(expect(plan, Plan, "plan", make="plan_of(task) makes one"))
    if plan.data not in LABELLED:
        raise Unsupported(f"data is {shown(plan.data)}: known are {', '.join(LABELLED)}")
    loader = LABELLED[plan.data]
    takes = inspect.signature(loader).parameters
    if "file" in takes and file is None:
        raise Unsupported(f"{plan.data} needs a file: --data FILE.csv with columns text and label")
    for name, given in (("file", file), ("data_dir", data_dir)):
        if given is not None:
            file_path(given, name)
    if file is not None and "file" not in takes:
        raise Unsupported(f"data is {plan.data!r} and a file was given: own-text reads it")
    asked = {
        "file": file,
        "counts": (plan.train_count, plan.valid_count, plan.test_count),
        "source": plan.source,
        "words": plan.length,
        "data_dir": data_dir,
    }
    return loader(**{name: value for name, value in asked.items() if name in takes})


def fitted(
    plan: Plan,
    data: Labelled,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    watch: Callable[[Moment], None] | None = None,
) -> Fit:
    """A network trained by the plan; the same bits for the same plan and data, on one thread.

    folder: where a checkpoint is kept after each record. resume: go on from the one that is there;
    the end is that of a run without a break. A checkpoint of another plan is refused, by what
    differs. watch: called with a `Moment` after each step. The random numbers of the caller stay.

    >>> from attsvm.torch.fitting.plan import plan_of
    >>> plan = plan_of("images", {"data": "digits", "patch": 4, "train_count": 200, "epochs": 2})
    >>> fit = fitted(plan, data_of(plan))
    >>> fit.stopped, fit.last.step, fit.test_accuracy > 1.5 * fit.chance
    ('epochs', 14, True)
    """
    check_optimizer(expect(plan, Plan, "plan", make="plan_of(task) makes one"))
    expect(data, Labelled, "data", make="data_of(plan) reads them")
    resume, watch = flag(resume, "resume"), function(watch, "watch")
    given = encoded(plan, data)
    file = None if folder is None else file_path(folder, "folder") / NAME
    if file is not None:
        if file.parent.exists() and not file.parent.is_dir():
            raise Unsupported(f"{file.parent} is a file: name a folder")
        if file.exists() and not resume:
            raise Unsupported(
                f"{file} exists: go on with it (--resume, resume=True), or name another folder"
            )
    elif resume:
        raise Unsupported("a run is resumed from a folder: name it")
    with torch.random.fork_rng(devices=[]):
        network = network_of(plan, data, given)
        state = State(network, optimizers_of(plan, network))
        digest = data.digest
        if file is not None and resume and file.exists():
            load(state, plan, digest, file)
        run = _Run(plan, given, state, watch)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        while run.stopped is None:
            run.stretch()
            if file is not None:
                save(state, plan, digest, file)
    shares = torch.bincount(given.train.y[: plan.measured]).double()
    return Fit(
        plan=plan,
        network=network.eval(),
        records=state.records,
        stopped=run.stopped,
        chance=float(shares.max() / shares.sum()),
        parameters=sum(x.numel() for x in network.parameters()),
        seconds=state.seconds,
    )


def network_of(plan: Plan, data: Labelled, given: Encoded) -> Network:
    """The initial network of a plan, drawn from its seed."""
    sizes = Sizes(
        plan.width,
        plan.layers,
        plan.heads,
        plan.hidden,
        plan.dropout,
        plan.biases,
        spread=plan.spread,
    )
    classes = len(data.classes)
    torch.manual_seed(plan.seed)
    made: Network
    if given.vocabulary is not None:
        count = len(given.vocabulary)
        made = TextClassifier(count, length=plan.length, classes=classes, sizes=sizes)
    else:
        height, width = given.train.x.shape[1:]
        made = ImageClassifier((height, width), patch=plan.patch, classes=classes, sizes=sizes)
    return made.to(getattr(torch, plan.dtype))


class _Run:
    """A state that is carried on stretch by stretch; an epoch has as many as it has records."""

    def __init__(
        self, plan: Plan, given: Encoded, state: State, watch: Callable[[Moment], None] | None
    ) -> None:
        self.plan, self.given, self.state, self.watch = plan, given, state, watch
        self.per_epoch = math.ceil(len(given.train) / plan.batch)
        if plan.records > self.per_epoch:
            raise Unsupported(f"records is {plan.records}: an epoch has {self.per_epoch} steps")
        self._tell(math.nan, None)

    @property
    def stopped(self) -> str | None:
        """Why the run has ended; None while it goes on."""
        plan, records = self.plan, self.state.records
        if self.state.collapsed:
            return "collapse"
        if not records:
            return None
        if plan.stop_accuracy is not None and records[-1].train_accuracy >= plan.stop_accuracy:
            return "stop_accuracy"
        if plan.patience is not None:
            accuracies = [record.valid_accuracy for record in records]
            if len(records) - 1 - accuracies.index(max(accuracies)) >= plan.patience:
                return "patience"
        return "epochs" if self.state.stretch >= plan.epochs * plan.records else None

    def stretch(self) -> None:
        """Take the steps up to the next record, and measure; first of all the initial network."""
        state, plan = self.state, self.plan
        start = time.perf_counter()
        if not state.records:
            self._measure()
        epoch, part = divmod(state.stretch, plan.records)
        batches = order(self.given.train, plan, epoch)
        first, last = (len(batches) * k // plan.records for k in (part, part + 1))
        # Dropout draws from here on; a resumed run begins a stretch with the same numbers.
        torch.manual_seed((plan.seed + 1) * 1_000_003 + state.stretch)
        state.network.train()
        for places in batches[first:last]:
            loss = self._step(places)
            state.step += 1
            self._tell(loss, None)
            if not math.isfinite(loss):
                state.collapsed = True
                break
        state.stretch += 1
        self._measure()
        state.seconds += time.perf_counter() - start
        self._tell(math.nan, state.records[-1])

    def _step(self, places: torch.Tensor) -> float:
        """One step of every optimizer; the loss before it."""
        x, y = self.given.train.batch(places)
        loss = F.cross_entropy(self.state.network(x).float(), y)
        for one in self.state.optimizers:
            one.zero_grad(set_to_none=True)
        loss.backward()
        for one in self.state.optimizers:
            one.step()
        return loss.item()

    def _measure(self) -> None:
        """Add a record of the network as it stands."""
        given, state = self.given, self.state
        state.network.eval()
        loss, train = measured(state.network, given.train, self.plan.measured)
        shares = [measured(state.network, part)[1] for part in (given.valid, given.test)]
        norms = {
            f"norm_{letter}": math.sqrt(sum(float((w.detach().double() ** 2).sum()) for w in own))
            for letter, own in state.network.projections.items()
        }
        epoch = state.stretch / self.plan.records
        state.records += (Record(state.step, epoch, loss, train, *shares, **norms),)
        if not math.isfinite(loss):
            state.collapsed = True

    def _tell(self, loss: float, record: Record | None) -> None:
        if self.watch is not None:
            state, steps = self.state, self.per_epoch * self.plan.epochs
            self.watch(Moment(state.network, state.optimizers, state.step, steps, loss, record))


@torch.no_grad()
def measured(network: Network, inputs: Inputs, most: int | None = None) -> tuple[float, float]:
    """The mean loss and the accuracy over the first inputs, as many as said."""
    loss, right, count = 0.0, 0, 0
    for x, y in inputs.in_order(most):
        logits = network(x).float()
        loss += float(F.cross_entropy(logits, y, reduction="sum"))
        right += int((logits.argmax(dim=1) == y).sum())
        count += len(y)
    return loss / count, right / count
