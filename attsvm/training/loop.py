"""The training loop: evaluate, record, step; and the steps that a fused kernel takes before it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.memory import require
from attsvm._utils.progress import Progress
from attsvm.errors import BadTokens, ConvergenceWarning
from attsvm.training.config import OptimizerConfig
from attsvm.training.models.gradient.fused import Log, RunState, StepSizes
from attsvm.training.models.model import Evaluation, log_norm
from attsvm.training.optimizers import Schedule
from attsvm.training.optimizers.optimizer import Blocks, Clock, State
from attsvm.training.optimizers.steps import constant
from attsvm.training.path import PER_DECADE, Path, recorded

# The columns of a Path that have one row per record.
COLUMNS = ("steps", "loss", "log_gradient", "top", "top_attention", "clock")


def grid(first: int, last: int, per_decade: int = PER_DECADE) -> Ints:
    """The steps on the grid of records from `first` to `last`, both included.

    >>> grid(9, 14)
    array([ 9, 10, 11, 12, 13, 14])
    """
    found = [0, *range(1, 11)]
    decade = 1
    while 10**decade <= last:
        found.extend(_decade(decade, per_decade))
        decade += 1
    steps = np.array(found, np.int64)
    return steps[(steps >= first) & (steps <= last)]


@lru_cache(maxsize=32)
def _decade(place: int, per_decade: int) -> tuple[int, ...]:
    """The steps on the grid above 10^place, up to 10^(place + 1)."""

    def near() -> Iterator[int]:
        # A step on the grid is the first beyond some 10^(k/per_decade), up to rounding.
        for k in range(per_decade + 1):
            middle = int(10 ** (place + k / per_decade))
            yield from range(middle - 1, middle + 3)

    within = {s for s in near() if 10**place < s <= 10 ** (place + 1)}
    return tuple(sorted(s for s in within if recorded(s, per_decade)))


def _concatenated(parts: list[Any]) -> Any:
    """The parts one after the other; a long run is one part already."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Recorder:
    """What a run has seen so far: rows of a Path, and the state that each step updates.

    clock (B,), top (B, n) or None before the first step, changed (B, n): as in Path, at the
    present step.
    """

    def __init__(self, start: Path | None) -> None:
        """An empty record, or one that goes on from the end of a path."""
        self.before = start
        self.rows: list[dict[str, Any]] = []
        self.weights: list[Blocks] = []
        self.clock = -np.inf if start is None else start.clock[-1]
        self.top = None if start is None else start.top[-1]
        self.changed = None if start is None else start.changed.copy()

    @property
    def last(self) -> int:
        """The last step that was recorded, −1 without one."""
        return int(self.rows[-1]["steps"][-1]) if self.rows else -1

    def see(self, step: int, top: Any) -> None:
        """Note which top tokens changed."""
        if self.top is None or self.changed is None:
            self.changed = np.zeros(top.shape, np.int64)
        else:
            self.changed = np.where(top != self.top, step, self.changed)
        self.top = top

    def tick(self, clock: Clock | None, lr: Floats, size: Floats) -> None:
        """Advance the plain-flow clock as the optimizer's own says; unknown without one."""
        if clock is None:
            self.clock = np.full(len(lr), np.nan)
            return
        with np.errstate(divide="ignore"):  # η = 0 adds nothing
            self.clock = np.logaddexp(self.clock, clock(np.log(lr), size))

    def add(self, step: int, params: Blocks, found: Evaluation, size: Floats) -> None:
        """Keep one record."""
        top_attention = np.exp(np.take_along_axis(found.logs, found.top[:, :, None], 2))[:, :, 0]
        row = {
            "steps": np.int64(step),
            "loss": found.loss,
            "log_gradient": size,
            "top": found.top,
            "top_attention": top_attention,
            "clock": np.broadcast_to(self.clock, size.shape),
        }
        self.extend(
            {k: np.array(a)[None] for k, a in row.items()},
            {k: a[None].copy() for k, a in params.items()},
        )

    def extend(self, rows: dict[str, Any], weights: Blocks) -> None:
        """Keep several records: each of COLUMNS with a leading axis R, and the blocks likewise."""
        if len(rows["steps"]):
            self.rows.append(rows)
            self.weights.append(weights)

    def path(
        self, config: dict[str, Any], objects: dict[str, Any], state: dict[str, Any], diverged: int
    ) -> Path:
        """The Path of all records, those of the run it goes on from first."""
        rows, weights = list(self.rows), list(self.weights)
        if self.before is not None:
            before = self.before
            # The end of the earlier run stays only if it is on the grid, or nothing follows it.
            keep = np.array([not rows or recorded(int(s), before.records) for s in before.steps])
            rows.insert(0, {name: getattr(before, name)[keep] for name in COLUMNS})
            weights.insert(0, {name: block[keep] for name, block in before.weights.items()})
        if not rows or self.changed is None:
            raise BadTokens(
                "the loss is not finite at the start: scale the tokens or the prediction head"
            )
        column = {name: _concatenated([row[name] for row in rows]) for name in COLUMNS}
        return Path(
            column["steps"],
            {name: _concatenated([part[name] for part in weights]) for name in weights[0]},
            column["loss"],
            column["log_gradient"],
            column["top"],
            column["top_attention"],
            column["clock"],
            self.changed,
            config,
            state,
            diverged,
            objects,
        )


class Kernel(Protocol):
    """Steps of W (B, d, dq), such as `fused.descend`, or of blocks below each other."""

    def __call__(self, steps: StepSizes, state: RunState, log: Log) -> bool:
        """Whether every instance stayed inside the range of floats."""


@dataclass(frozen=True, eq=False)
class FastSteps:
    """The steps of a kernel, at most `most` per call, on instances of `inputs` inputs each.

    lr, normalized, decay: those of `StepSizes`. records: how many are kept per decade of steps.
    anchored: the kernel begins again at every record, so a run goes on from its last record on the
    grid.
    """

    kernel: Kernel
    most: int
    inputs: int
    lr: float
    normalized: bool
    decay: float = 0.0
    records: int = PER_DECADE
    anchored: bool = False

    def __call__(
        self,
        params: Blocks,
        factor: Schedule,
        record: Recorder,
        first: int,
        last: int,
        progress: Progress | None,
    ) -> tuple[Blocks, int]:
        """The parameters and the step that the kernel reached: last + 1 when all is done.

        It stops before the first call in which a number would leave the range of floats.
        """
        B = len(next(iter(params.values())))
        fresh = record.top is None
        state = RunState(
            _joined(params),
            np.array(np.broadcast_to(record.clock, B)),
            np.full((B, self.inputs), -1) if record.top is None else np.array(record.top),
            np.zeros((B, self.inputs), np.int64)
            if record.changed is None
            else np.array(record.changed),
        )
        marks = grid(first if fresh else first + 1, last, self.records)
        if last > first and (len(marks) == 0 or marks[-1] != last):
            marks = np.append(marks, last)
        R = len(marks)
        weights, numbers = np.empty((R, *state.W.shape)), np.empty((R, 3, B))
        tops, top_attention = np.empty((R, B, self.inputs), np.int64), np.empty((R, B, self.inputs))
        step = first
        while step <= last:
            ahead = range(step, min(step + self.most, last + 1))
            lr = np.full(len(ahead), self.lr)
            if factor is not constant:
                lr *= [factor(s) if s < last else np.nan for s in ahead]
            lr[last - step :] = np.nan
            if not (lr[: last - step] >= 0).all():
                break
            these = slice(*np.searchsorted(marks, (step, ahead.stop)).tolist())
            now = Log(
                marks[these] - step,
                weights[these],
                numbers[these],
                tops[these],
                top_attention[these],
            )
            there = RunState(
                state.W.copy(), state.clock.copy(), state.top.copy(), state.changed.copy()
            )
            if not self.kernel(StepSizes(lr, self.normalized, self.decay, step), there, now):
                break
            state = there
            if step == 0 and fresh:
                check_moving(numbers[0, 1])
            _, record.clock, record.top, record.changed = state
            step = ahead.stop
            if progress is not None:
                progress((min(step, last) - first) / max(last - first, 1))
        done = int(np.searchsorted(marks, step))
        record.extend(
            {
                "steps": marks[:done],
                "loss": numbers[:done, 0],
                "log_gradient": numbers[:done, 1],
                "clock": numbers[:done, 2],
                "top": tops[:done],
                "top_attention": top_attention[:done],
            },
            _parted(weights[:done], params),
        )
        return _parted(state.W, params), step


def _joined(params: Blocks) -> Floats:
    """The blocks (B, ·, ·) below each other, in one array of its own; a vector is one column."""
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in params.values()], axis=1)


def _parted(joined: Floats, params: Blocks) -> Blocks:
    """The blocks that `_joined` put below each other, from arrays (..., ·, ·)."""
    out: Blocks = {}
    first = 0
    for name, block in params.items():
        last = first + block.shape[1]
        part = joined if joined.shape[-2] == block.shape[1] else joined[..., first:last, :].copy()
        out[name] = part.reshape(*joined.shape[:-3], *block.shape)
        first = last
    return out


# Bytes that are not worth a look at what is free.
_SMALL = 1e8

Stop = Callable[[int, Blocks, Evaluation], bool]
# (parameters, schedule, record, first step, last step, progress) -> (parameters, step reached).
Ahead = Callable[[Blocks, Schedule, Recorder, int, int, Progress | None], tuple[Blocks, int]]


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """What a loop descends on: `size` instances of `inputs` inputs each.

    shapes: of each block, without the stack axis. begin(init, seed): the first parameters.
    loss_and_grad(params): loss and gradient. graded(params): the same with the gradient's graded
    form, for optimizers that ask for it; None: there is none. infimum(): the infimum of the loss
    (B,), for optimizers that need it. ahead: a kernel that takes the steps it can by itself, or
    None; anchored: see `FastSteps`. facts: model, loss, … as JSON has them. objects: those parts
    that are custom objects. trace: digits that change with the data; None: they are not followed.
    """

    size: int
    inputs: int
    shapes: dict[str, tuple[int, ...]]
    begin: Callable[[str | dict[str, Any], int], Blocks]
    loss_and_grad: Callable[[Blocks], Evaluation]
    graded: Callable[[Blocks], Evaluation] | None
    infimum: Callable[[], Floats]
    ahead: Ahead | None
    facts: dict[str, Any]
    objects: dict[str, Any] = field(default_factory=dict)
    trace: str | None = None
    anchored: bool = False


def run(
    task: TrainingTask,
    descent: OptimizerConfig,
    params: Blocks,
    steps: int,
    *,
    start: Path | None = None,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> Path:
    """The Path of `steps` steps on the task. Its kernel goes ahead of the loop as far as it can."""
    optimizer = descent.optimizer
    first = 0 if start is None else int(start.steps[-1])
    state = optimizer.init(params)
    if start is not None:
        _check_state(state, start.state)
        state = dict(start.state)
    record = Recorder(start)
    if stop is None:
        _require_room(task, first, steps)
    kept = _kept(task, descent, start)
    loss_and_grad = (
        task.graded if optimizer.graded and task.graded is not None else task.loss_and_grad
    )
    reached = first
    if stop is None and task.ahead is not None:
        params, reached = task.ahead(
            params, descent.schedule, record, first, first + steps, progress
        )
        if reached > first + steps:
            return record.path(*kept, state, -1)
    diverged = -1
    infimum = task.infimum() if optimizer.needs_infimum else 0.0
    per_decade = task.facts.get("records", PER_DECADE)
    for step in range(reached, first + steps + 1):
        # A diverging step is reported, not warned about.
        with np.errstate(all="ignore"):
            found = loss_and_grad(params)
            size = log_norm(found.gradient)
        if not bool(np.isfinite(found.loss).all()):
            diverged = step - 1
            _warn(diverged, descent.lr)
            break
        if step == 0:
            check_moving(size)
        record.see(step, found.top)
        last = step == first + steps or (stop is not None and stop(step, params, found))
        if (recorded(step, per_decade) or last) and (start is None or step > first):
            record.add(step, params, found, size)
        if last:
            break
        lr = np.full(task.size, descent.lr * descent.schedule(step))
        with np.errstate(over="ignore", invalid="ignore"):
            moved, state = optimizer.update(
                params, found.gradient, state, lr, found.loss - infimum, step
            )
        if not all(bool(np.isfinite(block).all()) for block in moved.values()):
            diverged = step
            _warn(step, descent.lr)
            if record.last != step:
                record.add(step, params, found, size)
            break
        record.tick(optimizer.clock, lr, size)
        params = moved
        if progress is not None and step % 64 == 0:
            progress((step - first) / max(steps, 1))
    return record.path(*kept, state, diverged)


def _check_state(fresh: State, kept: Mapping[str, Any]) -> None:
    """Raises BadTokens unless the state to go on from has the arrays of a fresh one."""
    for name in dict.fromkeys((*fresh, *kept)):
        if name not in fresh or name not in kept or np.shape(fresh[name]) != np.shape(kept[name]):
            raise BadTokens(
                f"the path to go on from has another state than its optimizer ({name}): it is "
                "damaged, "
                "or of a version that kept less; start the run again"
            )


def _require_room(task: TrainingTask, first: int, steps: int) -> None:
    """Raises TooLarge unless all records of so many steps fit in memory."""
    per_decade, last = task.facts.get("records", PER_DECADE), first + steps
    count = len(grid(first, last, per_decade)) + (not recorded(last, per_decade))
    entries = sum(prod(shape) for shape in task.shapes.values())
    # A record: the blocks, top and top_attention of every input, loss, gradient's norm and clock.
    need = 8.0 * task.size * count * (entries + 2 * task.inputs + 3)
    if need > _SMALL:
        what = f"{count} records of {task.size} instances of {entries} parameters"
        require(need, what, use="fewer instances or steps")


def _kept(
    task: TrainingTask, descent: OptimizerConfig, start: Path | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a path keeps of its run: plain values, and the custom objects.

    The values say which objects there were, so that they are asked for when the run goes on.
    """
    objects = dict(task.objects)
    if descent.own is not None:
        objects["optimizer"] = descent.own
    config = {} if start is None else dict(start.config)
    config |= task.facts | descent.words
    if task.trace is not None:
        config["data"] = task.trace
    if objects:
        config["outside"] = sorted(objects)
    return config, objects


def check_moving(size: Floats) -> None:
    """Raises BadTokens when a gradient of log norm size (B,) is exactly zero."""
    if bool(np.isneginf(size).any()):
        b = int(np.isneginf(size).argmax())
        raise BadTokens(
            f"the gradient of instance {b} is exactly zero at the start: a stationary point; "
            "start from init normal:0.1 or give another starting point (unless nothing can be "
            "learned: one token per input, equal tokens, or a prediction head of zeros)"
        )


def _warn(step: int, lr: float) -> None:
    warnings.warn(
        f"step {step} left the range of floats with lr {lr:g}; the path ends before it. "
        "Try a smaller step size",
        ConvergenceWarning,
        stacklevel=4,
    )
