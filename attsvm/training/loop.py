"""The one training loop: evaluate, record, step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm.errors import BadTokens, ConvergenceWarning
from attsvm.ground.arrays import Floats
from attsvm.ground.compiled import threads
from attsvm.models.model import Evaluation, log_norm
from attsvm.rules import Schedule, rule_of, schedule_of, with_decay
from attsvm.rules.rule import Blocks
from attsvm.training.path import PER_DECADE, Path, recorded
from attsvm.training.record import Record

# Instances that keep one thread busy between two steps.
_SHARE = 16

Stop = Callable[[int, Blocks, Evaluation], bool]
Progress = Callable[[float], None]
# (parameters, schedule, record, first step, last step, progress) -> (parameters, step reached).
Ahead = Callable[[Blocks, Schedule, Record, int, int, "Progress | None"], tuple[Blocks, int]]


@dataclass(frozen=True, eq=False)
class Task:
    """What a loop descends on: `size` instances, look(params) their loss and gradient.

    floor (B,): the infimum of the loss, for rules that need it. ahead: a kernel that takes the
    steps it can by itself, or None. inputs: n, where a run that goes on is checked against it here.
    graded: look with the gradient's graded form, for rules that ask for it; None: there is none.
    """

    size: int
    look: Callable[[Blocks], Evaluation]
    floor: Floats
    ahead: Ahead | None = None
    inputs: int | None = None
    graded: Callable[[Blocks], Evaluation] | None = None


def run(
    task: Task, config: dict[str, Any], params: Blocks, steps: int, *,
    schedule: str | Callable[[int], float], start: Path | None, stop: Stop | None,
    progress: Progress | None,
) -> Path:  # fmt: skip
    """The Path of `steps` steps on the task. Its kernel goes ahead of the loop as far as it can."""
    rule = rule_of(config["rule"], **config.get("options", {}))
    if config["decay"]:
        rule = with_decay(rule, config["decay"])
    factor = schedule_of(schedule if callable(schedule) else config["schedule"])
    first = 0 if start is None else int(start.steps[-1])
    state = rule.init(params) if start is None else dict(start.state)
    if start is not None and task.inputs not in (None, start.top.shape[2]):
        raise BadTokens(
            f"the path to go on from is a run on {start.top.shape[2]} inputs, not {task.inputs}: "
            "give it the data it came from"
        )
    record = Record(start)
    look = task.graded if rule.graded and task.graded is not None else task.look
    reached = first
    if stop is None and task.ahead is not None:
        params, reached = task.ahead(params, factor, record, first, first + steps, progress)
        if reached > first + steps:
            return record.path(config, state, -1)
    diverged = -1
    per_decade = config.get("records", PER_DECADE)
    for step in range(reached, first + steps + 1):
        # A diverging step is reported, not warned about.
        with np.errstate(all="ignore"), threads(task.size // _SHARE):
            found = look(params)
            size = log_norm(found.gradient)
        if not bool(np.isfinite(found.loss).all()):
            diverged = step - 1
            _warn(diverged, config["lr"])
            break
        if step == 0:
            check_moving(size)
        record.see(step, found.top)
        last = step == first + steps or (stop is not None and stop(step, params, found))
        if (recorded(step, per_decade) or last) and (start is None or step > first):
            record.add(step, params, found, size)
        if last:
            break
        lr = np.full(task.size, config["lr"] * factor(step))
        above = found.loss - task.floor
        with np.errstate(over="ignore", invalid="ignore"):
            moved, state = rule.update(params, found.gradient, state, lr, above, step)
        if not all(bool(np.isfinite(block).all()) for block in moved.values()):
            diverged = step
            _warn(step, config["lr"])
            if record.last != step:
                record.add(step, params, found, size)
            break
        record.tick(config["rule"], lr, size)
        params = moved
        if progress is not None and step % 64 == 0:
            progress((step - first) / max(steps, 1))
    return record.path(config, state, diverged)


def check_moving(size: Floats) -> None:
    """An error when a gradient of log norm size (B,) is exactly zero."""
    if bool(np.isneginf(size).any()):
        b = int(np.isneginf(size).argmax())
        raise BadTokens(
            f"the gradient of instance {b} is exactly zero at the start: a stationary point; "
            "start from init normal:0.1 or give another starting point (unless nothing can be "
            "learned: one token an input, equal tokens, or a head of zeros)"
        )


def _warn(step: int, lr: float) -> None:
    warnings.warn(
        f"step {step} left the range of floats with lr {lr:g}; the path ends before it. "
        "Try a smaller step size",
        ConvergenceWarning,
        stacklevel=4,
    )
