"""train(): the one training loop, for one instance or a stack of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attsvm.arguments import instances, setting, whole
from attsvm.compiled import threads
from attsvm.errors import BadTokens, ConvergenceWarning, Unsupported
from attsvm.heads import Head, head_of
from attsvm.heads.linear import Linear
from attsvm.losses import Loss, loss_of
from attsvm.models import fused, model_of
from attsvm.models.batch import Batch
from attsvm.models.joint import with_head
from attsvm.models.model import Evaluation, Model, evaluate, log_norm
from attsvm.path import Path, recorded
from attsvm.record import Record, grid
from attsvm.rules import Schedule, rule_of, schedule_of, with_decay
from attsvm.rules.rule import Blocks
from attsvm.rules.schedules import constant
from attsvm.starting import initial
from attsvm.tokens import Floats, Tokens

# Instances that keep one thread busy between two steps.
_SHARE = 16
# Multiplications of one call of the fused kernel: well below a second, so that a run can be
# interrupted and shows how far it is.
_CALL = 5e8


def train(
    tokens: Tokens | Sequence[Tokens],
    *,
    model: str = "weight",
    rule: str = "ngd",
    head: Any = None,
    loss: str = "logistic",
    lr: float = 0.1,
    steps: int = 1000,
    seed: int = 0,
    init: str | dict[str, Any] = "default",
    width: int | None = None,
    schedule: str | Callable[[int], float] = "constant",
    decay: float = 0.0,
    options: dict[str, Any] | None = None,
    start: Path | None = None,
    stop: Callable[[int, Blocks, Evaluation], bool] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Path:
    """The Path of gradient training on (1/n) Σ ℓ(y_i h(o_i)), exact however far it goes.

    tokens: one instance or several of one size, with labels. head: a vector v, a stack (B, d), or
    a Head; the joint models train it, a linear one, or a ReLU network of `width` units with
    head="relu". init: "zero", "normal:STD", "uniform"
    (±1/√rows), or arrays by block name; the default is zero, and normal:0.1 for factors, where
    zero is a stationary point. width: columns of the factors (min(d, dq) without it). schedule:
    "constant", "sqrt" (1/√(t+1)) or a function of the step. options: those of the rule, such as
    {"momentum": 0.9} for muon or {"eps": 1e-8} for adam. start: a saved Path to go on from,
    with its own model, rule and step size. stop(step, params, evaluation): ends the run.

    >>> import attsvm
    >>> from attsvm.data import EXAMPLES
    >>> a = EXAMPLES["single-input-global"]()
    >>> tokens = attsvm.Tokens(a["X"], keys=a["keys"], labels=a["y"])
    >>> path = attsvm.train(tokens, model="prompt", head=a["v"], steps=2000)
    >>> path.selection
    array([[0]])
    """
    batch = Batch.of(instances(tokens))
    steps = whole(steps, "steps", least=0)
    if start is not None:
        config = dict(start.config)
    else:
        config = setting(
            model=model, rule=rule, head=head, loss=loss, lr=lr, seed=seed, init=init, width=width,
            schedule=schedule, decay=decay, options=options,
        )  # fmt: skip
        config["places"] = int(batch.keys.shape[2])
    shape = model_of(config["model"])
    read = _head(head, shape, batch)
    if shape.trains_head:
        shape = with_head(shape, config.get("head") or "linear")
    if start is None:
        params = initial(shape, batch, init, seed=config["seed"], width=config["width"])
    else:
        params = _ending(start, shape, batch)
    return _run(batch, shape, read, config, params, steps, schedule, start, stop, progress)


def _head(head: Any, model: Model, batch: Batch) -> Head | None:
    """The fixed head, None for models that train their own; an error when it is missing."""
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


def _ending(start: Path, model: Model, batch: Batch) -> Blocks:
    """The parameters at the end of a path; an error when they do not fit the tokens."""
    if start.diverged >= 0:
        raise BadTokens(
            f"the path to go on from diverged at step {start.diverged}: start again with a smaller "
            "step size"
        )
    params = start.at(len(start.steps) - 1)
    d, dq = batch.shape
    width = next((params[name].shape[2] for name in ("K", "V") if name in params), 0)
    shapes = model.shapes(d, dq, width, batch.values.shape[3])
    fits = start.top.shape[1:] == batch.keys.shape[:2] and all(
        name in params and params[name].shape == (batch.size, *shape)
        for name, shape in shapes.items()
    )
    if not fits:
        raise BadTokens("the path to go on from is of tokens of another size")
    return params


def _run(
    batch: Batch, model: Model, head: Head | None, config: dict[str, Any], params: Blocks,
    steps: int, schedule: str | Callable[[int], float], start: Path | None,
    stop: Callable[[int, Blocks, Evaluation], bool] | None,
    progress: Callable[[float], None] | None,
) -> Path:  # fmt: skip
    """The loop: evaluate, record, step. The fused kernel goes ahead of it as far as it can."""
    loss = loss_of(config["loss"])
    rule = rule_of(config["rule"], **config.get("options", {}))
    if config["decay"]:
        rule = with_decay(rule, config["decay"])
    factor = schedule_of(schedule if callable(schedule) else config["schedule"])
    first = 0 if start is None else int(start.steps[-1])
    state = rule.init(params) if start is None else dict(start.state)
    record = Record(start)
    reached = first
    if stop is None and isinstance(head, Linear) and _fusible(model, config):
        params, reached = _fused(
            batch, head, config, params, factor, record, first, first + steps, progress
        )
        if reached > first + steps:
            return record.path(config, state, -1)
    floor = _floor(batch, head, loss)
    diverged = -1
    for step in range(reached, first + steps + 1):
        # A diverging step is reported, not warned about.
        with np.errstate(all="ignore"), threads(batch.size // _SHARE):
            found = evaluate(model, params, batch, head, loss)
            size = log_norm(found.gradient)
        if not bool(np.isfinite(found.loss).all()):
            diverged = step - 1
            _warn(diverged, config["lr"])
            break
        if step == 0:
            _check_moving(size)
        record.see(step, found.top)
        last = step == first + steps or (stop is not None and stop(step, params, found))
        if (recorded(step) or last) and (start is None or step > first):
            record.add(step, params, found, size)
        if last:
            break
        lr = np.full(batch.size, config["lr"] * factor(step))
        above = found.loss - floor
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


def _fusible(model: Model, config: dict[str, Any]) -> bool:
    """Whether the fused kernel takes these steps; the head must be linear as well."""
    return (
        model.name in ("weight", "prompt")
        and config["rule"] in ("gd", "ngd")
        and config["loss"] in fused.CODES
    )


def _fused(
    batch: Batch, head: Linear, config: dict[str, Any], params: Blocks, factor: Schedule,
    record: Record, first: int, last: int, progress: Callable[[float], None] | None,
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
            _check_moving(numbers[0, 1])
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


def _check_moving(size: Floats) -> None:
    """An error when a gradient of log norm size (B,) is exactly zero."""
    if bool(np.isneginf(size).any()):
        b = int(np.isneginf(size).argmax())
        raise BadTokens(
            f"the gradient of instance {b} is exactly zero at the start: a stationary point; "
            "start from init normal:0.1 or give another starting point (unless nothing can be "
            "learned: one token an input, equal tokens, or a head of zeros)"
        )


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


def _warn(step: int, lr: float) -> None:
    warnings.warn(
        f"step {step} left the range of floats with lr {lr:g}; the path ends before it. "
        "Try a smaller step size",
        ConvergenceWarning,
        stacklevel=4,
    )
