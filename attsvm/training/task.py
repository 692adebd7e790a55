"""The task of training on Tokens, and the fused kernel that takes many of its steps at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from attsvm.ground.arrays import Floats
from attsvm.heads import Head
from attsvm.heads.linear import Linear
from attsvm.losses import Loss, loss_of
from attsvm.models.gradient import fused
from attsvm.models.gradient.batch import Batch
from attsvm.models.model import Evaluation, Model, evaluate
from attsvm.rules.rule import Blocks
from attsvm.training.ahead import go_ahead
from attsvm.training.loop import Ahead, Task

# Multiplications of one call of the fused kernel: well below a second, so that a run can be
# interrupted and shows how far it is.
_CALL = 5e8


def token_task(batch: Batch, model: Model, head: Head | None, config: dict[str, Any]) -> Task:
    """The task (1/n) Σ ℓ(y_i h(o_i)) on these instances; head None where the model trains it."""
    loss = loss_of(config["loss"])

    def look(params: Blocks) -> Evaluation:
        return evaluate(model, params, batch, head, loss)

    def graded(params: Blocks) -> Evaluation:
        return evaluate(model, params, batch, head, loss, graded=True)

    ahead = None
    if isinstance(head, Linear) and _fusible(model, config):
        ahead = _ahead(batch, head, config)
    return Task(batch.size, look, _floor(batch, head, loss), ahead, graded=graded)


def _fusible(model: Model, config: dict[str, Any]) -> bool:
    """Whether the fused kernel takes these steps; the head must be linear as well."""
    return (
        model.name in ("weight", "prompt")
        and config["rule"] in ("gd", "ngd")
        and config["loss"] in fused.CODES
    )


def _ahead(batch: Batch, head: Linear, config: dict[str, Any]) -> Ahead:
    """The fused kernel on these instances."""
    B, n, T, d = batch.keys.shape
    v = np.array(np.broadcast_to(head.v, (B, batch.values.shape[3])))
    code = fused.CODES.index(config["loss"])
    given = fused.Instances(
        batch.keys, batch.values, batch.queries, batch.present, batch.labels, v, code
    )
    most = max(1, int(_CALL / (B * n * d * (4 * T + 3 * batch.queries.shape[2]))))
    return partial(go_ahead, partial(fused.descend, given), most, n, config)


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
