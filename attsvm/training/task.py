"""The task of training on Tokens, and the fused kernel that takes many of its steps at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import whole
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.training.config import OptimizerConfig
from attsvm.training.fused import FastSteps, Kernel
from attsvm.training.heads import Head, head_of
from attsvm.training.heads.linear import Linear
from attsvm.training.loop import Ahead, Task
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient import factored_steps, fused
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.gradient.shortfall import residual, shortfalls
from attsvm.training.models.joint import with_head
from attsvm.training.models.model import Evaluation, Model, evaluate
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.start import initial, shapes_of

# Multiplications of one call of the fused kernel: well below a second, so that a run can be
# interrupted and shows how far it is.
_CALL = 5e8


class TokenSetting(NamedTuple):
    """What is trained on tokens: names or objects; head: fixed, or the name of one to train."""

    model: str | Model
    loss: str | Loss
    head: Any = None
    width: int | None = None


def token_task(
    tokens: Tokens | Sequence[Tokens], setting: TokenSetting, descent: OptimizerConfig
) -> Task:
    """The task (1/n) Σ ℓ(y_i h(o_i)) on these instances."""
    model, loss = model_of(setting.model), loss_of(setting.loss)
    width = None if setting.width is None else whole(setting.width, "width", least=1)
    batch = Batch.of(tokens)
    head = _head(setting.head, model, batch)
    named = setting.head if isinstance(setting.head, str) else None
    facts = {
        "model": model.name,
        "loss": loss.name,
        "head": named,
        "width": width,
        "places": int(batch.keys.shape[2]),
    }
    if model.trains_head:
        model = with_head(model, named or "linear")

    def begin(init: str | dict[str, Any], seed: int) -> Blocks:
        return initial(model, batch, init, seed=seed, width=width)

    def loss_and_grad(params: Blocks) -> Evaluation:
        return evaluate(model, params, batch, head, loss)

    def graded(params: Blocks) -> Evaluation:
        return evaluate(model, params, batch, head, loss, graded=True)

    given = {"model": setting.model, "loss": setting.loss}
    return Task(
        size=batch.size,
        inputs=int(batch.keys.shape[1]),
        shapes=shapes_of(model, batch, width),
        begin=begin,
        loss_and_grad=loss_and_grad,
        graded=graded,
        infimum=lambda: _infimum(batch, head, loss),
        ahead=_fused(batch, model, loss, head, descent),
        facts=facts,
        objects={family: part for family, part in given.items() if not isinstance(part, str)},
    )


def _head(head: Any, model: Model, batch: Batch) -> Head | None:
    """The fixed head, None for models that train their own; raises BadTokens without one."""
    if model.prompt and batch.shape[1] != 1:
        raise Unsupported("a prompt model needs tokens without queries; use a weight model")
    if model.trains_head:
        if head is not None and not isinstance(head, str):
            raise Unsupported(
                f"model {model.name!r} trains its own head: leave head out, or name it (relu)"
            )
        return None
    if head is None:
        raise BadTokens(f"model {model.name!r} needs a head: give the vector v")
    return head_of(head, batch.values.shape[3], size=batch.size)


def _fused(
    batch: Batch, model: Model, loss: Loss, head: Head | None, descent: OptimizerConfig
) -> Ahead | None:
    """The fused kernel, where model, optimizer, loss and head are ones that it takes."""
    if type(head) is not Linear or not (model.fused or model.paired):
        return None
    if descent.optimizer.fused is None or loss.code is None:
        return None
    if descent.optimizer.ridge and not model.paired:
        return None
    B, n, T, d = batch.keys.shape
    dq = batch.queries.shape[2]
    v = np.array(np.broadcast_to(head.v, (B, batch.values.shape[3])), order="C")
    squared = loss.code == fused.SQUARED
    short = shortfalls(batch, v, loss.best) if squared else np.empty((0, 0, 0))
    given = fused.Instances(
        batch.keys, batch.values, batch.queries, batch.present, batch.labels, v, loss.code, short
    )
    if model.paired:
        kernel: Kernel = partial(factored_steps.descend, given, descent.optimizer.ridge)
        work = 4 * T * d + 4 * min(d, dq) * (d + dq)
    else:
        kernel, work = partial(fused.descend, given), d * (4 * T + 3 * dq)
    return FastSteps(
        kernel,
        max(1, int(_CALL / (B * n * work))),
        n,
        lr=descent.lr,
        normalized=descent.optimizer.fused == "ngd",
        decay=descent.decay,
    )


def _infimum(batch: Batch, head: Head | None, loss: Loss) -> Floats:
    """The infimum of the loss over attention (B,): every input on its best token.

    Known for a fixed linear head, whose margins fill the span of the scores; the loss's own infimum
    otherwise.
    """
    v = None if head is None else head.vector
    if v is None:
        return np.full(batch.size, loss.infimum)
    if loss.from_best is not None:  # as near to its best as attention can get
        short = shortfalls(batch, v, loss.best)
        least = np.where(batch.present, short, np.inf).min(axis=2, keepdims=True)
        most = np.where(batch.present, short, -np.inf).max(axis=2, keepdims=True)
        r = residual(np.clip(0.0, least, most), np.zeros(least.shape))
        return loss.from_best(*r)[0].mean(axis=1)
    v = np.broadcast_to(v, (batch.size, batch.values.shape[3]))
    scores = np.einsum("bntd,bd->bnt", batch.values, v) * batch.labels[:, :, None]
    best = np.where(batch.present, scores, -np.inf).max(axis=2)
    if np.isfinite(loss.best):  # least at this margin, or as near to it as attention can get
        best = np.clip(loss.best, np.where(batch.present, scores, np.inf).min(axis=2), best)
    return loss.value(best).mean(axis=1)
