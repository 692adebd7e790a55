"""The one training loop: evaluate, record, step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.memory import require
from attsvm._utils.progress import Progress
from attsvm.errors import BadTokens, ConvergenceWarning
from attsvm.training.config import OptimizerConfig
from attsvm.training.models.model import Evaluation, log_norm
from attsvm.training.optimizers import Schedule
from attsvm.training.optimizers.optimizer import Blocks, State
from attsvm.training.path import PER_DECADE, Path, recorded
from attsvm.training.record import Record, grid

# Bytes that are not worth a look at what is free.
_SMALL = 1e8

Stop = Callable[[int, Blocks, Evaluation], bool]
# (parameters, schedule, record, first step, last step, progress) -> (parameters, step reached).
Ahead = Callable[[Blocks, Schedule, Record, int, int, Progress | None], tuple[Blocks, int]]


@dataclass(frozen=True, eq=False)
class Task:
    """What a loop descends on: `size` instances of `inputs` inputs each.

    shapes: of each block, without the stack axis. begin(init, seed): the first parameters.
    loss_and_grad(params): loss and gradient. graded(params): the same with the gradient's graded
    form, for optimizers that ask for it; None: there is none. infimum(): the infimum of the loss
    (B,), for optimizers that need it. ahead: a kernel that takes the steps it can by itself, or
    None. facts: model, loss, … as JSON has them. objects: those parts that are objects of one's
    own. trace: digits that change with the data; None: they are not followed.
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


def run(
    task: Task,
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
    record = Record(start)
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


def _require_room(task: Task, first: int, steps: int) -> None:
    """Raises TooLarge unless all records of so many steps fit in memory."""
    per_decade, last = task.facts.get("records", PER_DECADE), first + steps
    count = len(grid(first, last, per_decade)) + (not recorded(last, per_decade))
    entries = sum(prod(shape) for shape in task.shapes.values())
    # A record: the blocks, top and top_attention of every input, loss, gradient's norm and clock.
    need = 8.0 * task.size * count * (entries + 2 * task.inputs + 3)
    if need > _SMALL:
        told = f"{count} records of {task.size} instances of {entries} parameters"
        require(need, told, use="fewer instances or steps")


def _kept(
    task: Task, descent: OptimizerConfig, start: Path | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a path keeps of its run: plain values, and the objects that have no name of the house's.

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
            "learned: one token per input, equal tokens, or a head of zeros)"
        )


def _warn(step: int, lr: float) -> None:
    warnings.warn(
        f"step {step} left the range of floats with lr {lr:g}; the path ends before it. "
        "Try a smaller step size",
        ConvergenceWarning,
        stacklevel=4,
    )
