"""The task of training on Tokens, and the fused kernel that takes many of its steps at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from attsvm.heads import Head
from attsvm.heads.linear import Linear
from attsvm.loop import Progress, Task, check_moving
from attsvm.losses import Loss, loss_of
from attsvm.models import fused
from attsvm.models.batch import Batch
from attsvm.models.model import Evaluation, Model, evaluate
from attsvm.record import Record, grid
from attsvm.rules import Schedule
from attsvm.rules.rule import Blocks
from attsvm.rules.schedules import constant
from attsvm.tokens import Floats

# Multiplications of one call of the fused kernel: well below a second, so that a run can be
# interrupted and shows how far it is.
_CALL = 5e8


def token_task(batch: Batch, model: Model, head: Head | None, config: dict[str, Any]) -> Task:
    """The task (1/n) Σ ℓ(y_i h(o_i)) on these instances; head None where the model trains it."""
    loss = loss_of(config["loss"])

    def look(params: Blocks) -> Evaluation:
        return evaluate(model, params, batch, head, loss)

    ahead = None
    if isinstance(head, Linear) and _fusible(model, config):
        ahead = partial(_fused, batch, head, config)
    return Task(batch.size, look, _floor(batch, head, loss), ahead)


def _fusible(model: Model, config: dict[str, Any]) -> bool:
    """Whether the fused kernel takes these steps; the head must be linear as well."""
    return (
        model.name in ("weight", "prompt")
        and config["rule"] in ("gd", "ngd")
        and config["loss"] in fused.CODES
    )


def _fused(
    batch: Batch, head: Linear, config: dict[str, Any], params: Blocks, factor: Schedule,
    record: Record, first: int, last: int, progress: Progress | None,
) -> tuple[Blocks, int]:  # fmt: skip
    """The parameters and the step that the fused kernel reached: last + 1 when all is done.

    It stops before the first call in which a number would leave the range of floats.
    """
    ((name, block),) = params.items()
    B, n, T, d = batch.keys.shape
    dq = batch.queries.shape[2]
    W = np.array(block).reshape(B, d, dq)
    v = np.array(np.broadcast_to(head.v, (B, batch.values.shape[3])))
    clock = np.array(np.broadcast_to(record.clock, B))
    top = np.full((B, n), -1) if record.top is None else np.array(record.top)
    changed = np.zeros((B, n), np.int64) if record.changed is None else np.array(record.changed)
    fresh = record.top is None
    marks = grid(first if fresh else first + 1, last)
    if last > first and (len(marks) == 0 or marks[-1] != last):
        marks = np.append(marks, last)
    most = max(1, int(_CALL / (B * n * d * (4 * T + 3 * dq))))
    R = len(marks)
    weights, numbers = np.empty((R, B, d, dq)), np.empty((R, 3, B))
    tops, sureness = np.empty((R, B, n), np.int64), np.empty((R, B, n))
    step = first
    while step <= last:
        ahead = range(step, min(step + most, last + 1))
        lr = np.full(len(ahead), config["lr"])
        if factor is not constant:
            lr *= [factor(s) if s < last else np.nan for s in ahead]
        lr[last - step :] = np.nan
        if not (lr[: last - step] >= 0).all():
            break
        these = slice(*np.searchsorted(marks, (step, ahead.stop)).tolist())
        new_W, new_clock, new_top, new_changed = W.copy(), clock.copy(), top.copy(), changed.copy()
        fine = fused.descend(
            batch.keys, batch.values, batch.queries, batch.present, batch.labels, v,
            fused.CODES.index(config["loss"]), lr, config["rule"] == "ngd", config["decay"],
            step, marks[these] - step, new_W, new_clock, new_top, new_changed, weights[these],
            numbers[these], tops[these], sureness[these],
        )  # fmt: skip
        if not fine.all():
            break
        if step == 0:
            check_moving(numbers[0, 1])
        W, clock, top, changed = new_W, new_clock, new_top, new_changed
        record.clock, record.top, record.changed = clock, top, changed
        step = ahead.stop
        if progress is not None:
            progress((min(step, last) - first) / max(last - first, 1))
    done = int(np.searchsorted(marks, step))
    record.extend(
        {"steps": marks[:done], "loss": numbers[:done, 0], "log_gradient": numbers[:done, 1],
         "clock": numbers[:done, 2], "top": tops[:done], "sureness": sureness[:done]},
        {name: weights[:done].reshape(done, *block.shape)},
    )  # fmt: skip
    return {name: W.reshape(block.shape)}, step


def _floor(batch: Batch, head: Head | None, loss: Loss) -> Floats:
    """The infimum of the loss over attention (B,): every input on its best token.

    Known for a fixed linear head, whose margins fill the span of the scores; the loss's own floor
    otherwise.
    """
    if isinstance(head, Linear):
        scores = np.einsum("bntd,bd->bnt", batch.values, np.broadcast_to(
            head.v, (batch.size, batch.values.shape[3])
        )) * batch.labels[:, :, None]  # fmt: skip
        best = np.where(batch.present, scores, -np.inf).max(axis=2)
        if loss.name == "squared":  # least at margin 1, or as near to it as attention can get
            best = np.clip(1.0, np.where(batch.present, scores, np.inf).min(axis=2), best)
        return loss.value(best).mean(axis=1)
    return np.full(batch.size, loss.floor)
