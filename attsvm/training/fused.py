"""Steps taken by a kernel ahead of the loop: cut into calls, each kept only if it stayed finite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.progress import Progress
from attsvm.training.loop import check_moving
from attsvm.training.models.gradient.steps import Log, State, Steps
from attsvm.training.optimizers import Schedule
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.optimizers.steps.schedules import constant
from attsvm.training.path import PER_DECADE
from attsvm.training.record import Record, grid


class Kernel(Protocol):
    """Steps of W (B, d, dq), such as `fused.descend`, or of blocks below each other."""

    def __call__(self, steps: Steps, state: State, log: Log) -> bool:
        """Whether every instance stayed inside the range of floats."""


@dataclass(frozen=True, eq=False)
class FastSteps:
    """The steps of a kernel, at most `most` per call, on instances of `inputs` inputs each.

    lr, normalized, decay: those of `Steps`. records: how many are kept per decade of steps.
    """

    kernel: Kernel
    most: int
    inputs: int
    lr: float
    normalized: bool
    decay: float = 0.0
    records: int = PER_DECADE

    def __call__(
        self,
        params: Blocks,
        factor: Schedule,
        record: Record,
        first: int,
        last: int,
        progress: Progress | None,
    ) -> tuple[Blocks, int]:
        """The parameters and the step that the kernel reached: last + 1 when all is done.

        It stops before the first call in which a number would leave the range of floats.
        """
        B = len(next(iter(params.values())))
        fresh = record.top is None
        state = State(
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
            there = State(
                state.W.copy(), state.clock.copy(), state.top.copy(), state.changed.copy()
            )
            if not self.kernel(Steps(lr, self.normalized, self.decay, step), there, now):
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
