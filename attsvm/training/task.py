"""The task of training on Tokens, and the fused kernel that takes many of its steps at once.

The first parameters of a run are drawn or given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.expected import shown, whole
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.training.config import OptimizerConfig
from attsvm.training.heads import HEADS, Head, Linear, head_of
from attsvm.training.loop import FastSteps, Holder, Kernel, TrainingTask, named, unnamed
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import model_of, with_head, with_heads
from attsvm.training.models.gradient import fused, inputs, lane_rules, lanes
from attsvm.training.models.gradient.batch import Batch, residual, shortfalls
from attsvm.training.models.model import Evaluation, Model, evaluate
from attsvm.training.optimizers.optimizer import Blocks, LaneRule, Optimizer, State


def shapes_of(model: Model, batch: Batch, width: int | None) -> dict[str, tuple[int, ...]]:
    """The shape of each block; width: columns of the factors, min(d, dq) unless given."""
    d, dq = batch.shape
    return model.shapes(d, dq, min(d, dq) if width is None else width, batch.values.shape[3])


def initial(
    model: Model, batch: Batch, init: str | dict[str, Any], *, seed: int, width: int | None
) -> Blocks:
    """The first parameters of every instance, each instance from its own stream of the seed."""
    shapes = shapes_of(model, batch, width)
    if isinstance(init, dict):
        _check_width(model, batch, init, width)
    if init != "default":
        first = begin(shapes, batch.size, init, seed=seed)
        return _began(model, batch, init, first)
    out = begin(shapes, batch.size, model.start, seed=seed)
    if "V" in shapes:  # no unit of a zero network is active
        drawn = begin({"V": shapes["V"]}, batch.size, "normal:0.1", seed=seed)
        out = {name: drawn.get(name, block) for name, block in out.items()}
    return _began(model, batch, init, out)


def _began(model: Model, batch: Batch, init: str | dict[str, Any], first: Blocks) -> Blocks:
    """The first parameters of a layer: blocks that no init draws at their number; checked."""
    layer = model.layer
    if layer is None:
        return first
    if not isinstance(init, dict):
        first |= {name: np.full_like(first[name], x) for name, x in layer.begin.items()}
    layer.vectors(first, batch.queries)
    return first


def _check_width(model: Model, batch: Batch, init: dict[str, Any], width: int | None) -> None:
    """Raises BadTokens when the given blocks are those of another width, and names it."""
    given = {name: x.shape for name, x in init.items() if isinstance(x, np.ndarray) and x.ndim}

    def fits(shapes: dict[str, tuple[int, ...]]) -> bool:
        return all(given.get(name) in (s, (batch.size, *s)) for name, s in shapes.items())

    for name, shape in given.items():
        if not fits(shapes_of(model, batch, width)) and fits(shapes_of(model, batch, shape[-1])):
            raise BadTokens(
                f"start {name} has shape {shape}: pass width={shape[-1]} "
                f"(on the command line --width {shape[-1]})"
            )


def begin(
    shapes: dict[str, tuple[int, ...]], count: int, init: str | dict[str, Any], *, seed: int
) -> Blocks:
    """The blocks of these shapes for `count` instances: zero, normal:STD, uniform, or given."""
    if isinstance(init, dict):
        return _given(init, shapes, count)
    kind, _, size = init.partition(":")
    out: Blocks = {}
    streams = [np.random.default_rng([seed, b]) for b in range(count)]
    for name, shape in shapes.items():
        if kind == "zero":
            out[name] = np.zeros((count, *shape))
        elif kind == "normal":
            out[name] = _deviation(size) * np.stack([s.standard_normal(shape) for s in streams])
        elif kind == "uniform":
            edge = 1.0 / np.sqrt(shape[0])
            out[name] = np.stack([s.uniform(-edge, edge, shape) for s in streams])
        else:
            raise Unsupported(f"unknown init {shown(init)}: known are zero, normal:STD, uniform")
    return out


def _deviation(text: str) -> float:
    try:
        value = float(text or "1")
    except ValueError:
        value = np.nan
    if not 0 < value < np.inf:
        raise Unsupported(f"init normal:{text[:20]} needs a positive number")
    return value


def _given(init: dict[str, Any], shapes: dict[str, tuple[int, ...]], size: int) -> Blocks:
    out: Blocks = {}
    for name, shape in shapes.items():
        if name not in init:
            raise BadTokens(f"the start has no array {name}; it needs {', '.join(shapes)}")
        try:
            block = np.asarray(init[name], dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadTokens(f"start {name} is not an array of numbers") from error
        if block.shape == shape:
            block = np.broadcast_to(block, (size, *shape))
        if block.shape != (size, *shape):
            raise BadTokens(f"start {name} has shape {block.shape}; it must be {shape}")
        if not np.isfinite(block).all():
            raise BadTokens(f"start {name} has an entry that is not finite")
        out[name] = block.copy()
    return out


# Multiplications of one call of the fused kernel: well below a second, so that a run can be
# interrupted and shows how far it is.
_CALL = 4e9


def token_task(
    tokens: Tokens | Sequence[Tokens],
    given_model: str | Model,
    given_loss: str | Loss,
    given_head: Any,
    width: int | None,
    heads: int | None,
    config: OptimizerConfig,
) -> TrainingTask:
    """The task (1/n) Σ ℓ(y_i h(o_i)); given_head: a fixed one, or the name of one to train."""
    model, loss = with_heads(model_of(given_model), heads), loss_of(given_loss)
    width = None if width is None else whole(width, "width", least=1)
    batch = Batch.of(prepared(model, tokens))
    head = _head(given_head, model, batch)
    named = given_head if isinstance(given_head, str) else None
    facts = {
        "model": model.name,
        "loss": loss.name,
        "head": named,
        "width": width,
        "places": int(batch.keys.shape[2]),
    }
    if heads is not None:
        facts["heads"] = heads
    if model.trains_head:
        model = with_head(model, named or "linear")

    def evaluate_at(params: Blocks, *, graded: bool = False) -> Evaluation:
        return evaluate(model, params, batch, head, loss, graded=graded)

    given = {"model": given_model, "loss": given_loss}
    ahead = _fused(batch, model, loss, head, config)
    return TrainingTask(
        size=batch.size,
        inputs=int(batch.keys.shape[1]) * heads_of(model),
        shapes=shapes_of(model, batch, width),
        begin=lambda init, seed: initial(model, batch, init, seed=seed, width=width),
        loss_and_grad=evaluate_at,
        graded=partial(evaluate_at, graded=True),
        infimum=lambda: _infimum(batch, head, loss),
        ahead=ahead,
        anchored=ahead is not None and ahead.anchored,
        facts=facts,
        objects={family: part for family, part in given.items() if not isinstance(part, str)},
    )


def heads_of(model: Model) -> int:
    """How many attention heads the model has."""
    return 1 if model.layer is None else model.layer.heads


def prepared(model: Model, tokens: Tokens | Sequence[Tokens]) -> list[Tokens]:
    """The tokens as the model reads them."""
    listed = [tokens] if isinstance(tokens, Tokens) else list(tokens)
    return listed if model.layer is None else [model.layer.prepare(t) for t in listed]


def _head(head: Any, model: Model, batch: Batch) -> Head | None:
    """The fixed prediction head, None for models that train their own; BadTokens without one."""
    if model.prompt and batch.shape[1] != 1:
        raise Unsupported("a prompt model needs tokens without queries; use a weight model")
    if model.trains_head:
        if head is not None and not isinstance(head, str):
            raise Unsupported(
                f"model {model.name!r} trains its own prediction head: leave head out, or name it "
                "(relu)"
            )
        return None
    if head is None:
        raise BadTokens(f"model {model.name!r} needs a prediction head: pass head=v, a vector")
    return head_for(head, model, batch.values.shape[3], batch.size)


def head_for(head: Any, model: Model, e: int, size: int) -> Head:
    """The prediction head of outputs of e features for `size` instances, checked.

    Of H attention heads it reads the H e features of them all: a vector (e,) reads each alike,
    (H, e) has a row for each, (B, H, e) those of every instance.
    """
    H = heads_of(model)
    if H == 1 or isinstance(head, Head):
        own = getattr(head, head.block) if H > 1 and type(head) in HEADS.values() else None
        if own is not None and own.shape[1] != H * e:
            raise BadTokens(
                f"the prediction head reads {own.shape[1]} features; {H} attention heads of {e} "
                f"features have {H * e}"
            )
        return head_of(head, H * e, size=size)
    wanted = f"it must be ({e},), one for all {H} attention heads, or ({H}, {e}), one for each"
    try:
        v = np.asarray(head, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        widths = [np.size(row) for row in head] if isinstance(head, list | tuple) else []
        said = f"has rows of widths {widths}" if len(set(widths)) > 1 else f"is {shown(head)}"
        raise BadTokens(f"the prediction head {said}; {wanted}") from error
    if v.shape not in ((e,), (H, e), (size, H, e)):
        raise BadTokens(f"the prediction head has shape {v.shape}; {wanted}")
    rows = size if v.ndim == 3 else 1
    return head_of(np.broadcast_to(v, (rows, H, e)).reshape(rows, H * e), H * e, size=size)


def _fused(
    batch: Batch, model: Model, loss: Loss, head: Head | None, config: OptimizerConfig
) -> FastSteps | None:
    """The fused kernel, where model, optimizer, loss and head are ones that it takes."""
    if type(head) is not Linear or not (model.fused or model.paired):
        return None
    optimizer = config.optimizer
    rule = optimizer.fused if isinstance(optimizer.fused, LaneRule) else None
    if optimizer.fused is None or loss.code is None or (rule is not None and model.paired):
        return None
    if config.optimizer.ridge and not model.paired:
        return None
    B, n, T, d = batch.keys.shape
    dq = batch.queries.shape[2]
    v = np.array(np.broadcast_to(head.v, (B, batch.values.shape[3])), order="C")
    squared = loss.code == fused.SQUARED
    short = shortfalls(batch, v, loss.best) if squared else np.empty((0, 0, 0))
    given = fused.Instances(
        batch.keys, batch.values, batch.queries, batch.present, batch.labels, v, loss.code, short
    )
    small = not model.paired and lanes.fits(given, whole=rule is not None)
    if rule is not None and not (small and lane_rules.fits(given, rule)):
        return None
    anchored = small and rule is None
    holder: Holder | None = None
    if model.paired:
        kernel: Kernel = partial(inputs.descend_factors, given, config.optimizer.ridge)
        work = 4 * T * d + 4 * min(d, dq) * (d + dq)
    else:
        kernel, work = partial(inputs.descend, given), d * (4 * T + 3 * dq)
        if anchored:
            kernel = lanes.LaneDescent(given)
        if rule is not None:
            outside = partial(_outside, batch, model, loss, v, optimizer)
            floor = _infimum(batch, head, loss) if optimizer.needs_infimum else np.zeros(B)
            kernel = holder = lane_rules.LaneSteps(given, rule, outside, floor)
    return FastSteps(
        kernel,
        max(1, int(_CALL / (B * n * work))),
        n,
        lr=config.lr,
        normalized=optimizer.fused == "ngd",
        decay=config.decay,
        anchored=anchored,
        holder=holder,
    )


def _outside(
    batch: Batch, model: Model, loss: Loss, v: Floats, optimizer: Optimizer,
    index: Ints, W: Floats, state: State, lr: Floats, step: int,
) -> tuple[Floats, State]:  # fmt: skip
    """One step of the optimizer itself on some instances: W and its state, names without a block's.

    Only for optimizers that do without the loss.
    """
    part = Batch(*(getattr(batch, f.name)[index] for f in fields(batch)))
    name, shape = next(iter(shapes_of(model, batch, None).items()))
    params = {name: W.reshape(len(index), *shape)}
    with np.errstate(all="ignore"):
        found = evaluate(model, params, part, Linear(v[index]), loss, graded=optimizer.graded)
        moved, after = optimizer.update(
            params, found.gradient, named(state, params), lr, found.loss, step
        )
    return moved[name].reshape(W.shape), unnamed(after, params)


def _infimum(batch: Batch, head: Head | None, loss: Loss) -> Floats:
    """The infimum of the loss over attention (B,): every input on its best token.

    Known for a fixed linear head, whose margins fill the span of the scores; the loss's own infimum
    otherwise.
    """
    v = None if head is None else head.vector
    if v is None:
        return np.full(batch.size, loss.infimum)
    H = v.shape[-1] // batch.values.shape[3]
    if loss.from_best is not None and H == 1:  # as near to its best as attention can get
        short = shortfalls(batch, v, loss.best)
        least = np.where(batch.present, short, np.inf).min(axis=2, keepdims=True)
        most = np.where(batch.present, short, -np.inf).max(axis=2, keepdims=True)
        r = residual(np.clip(0.0, least, most), np.zeros(least.shape))
        return loss.from_best(*r)[0].mean(axis=1)
    # The margins of attention heads add up, and each is on its own best token.
    v = np.broadcast_to(v, (batch.size, v.shape[-1])).reshape(batch.size, H, -1)
    scores = np.einsum("bnte,bhe->bhnt", batch.values, v) * batch.labels[:, None, :, None]
    best = np.where(batch.present[:, None], scores, -np.inf).max(axis=3).sum(axis=1)
    if np.isfinite(loss.best):  # least at this margin, or as near to it as attention can get
        least = np.where(batch.present[:, None], scores, np.inf).min(axis=3).sum(axis=1)
        best = np.clip(loss.best, least, best)
    return loss.value(best).mean(axis=1)
