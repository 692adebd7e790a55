"""train(): the one training loop, for one instance or a stack of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attsvm.compiled import threads
from attsvm.errors import BadTokens, ConvergenceWarning, Unsupported
from attsvm.heads import Head, head_of
from attsvm.heads.linear import Linear
from attsvm.losses import Loss, loss_of
from attsvm.models import model_of
from attsvm.models.batch import Batch
from attsvm.models.model import Evaluation, Model, evaluate, log_norm
from attsvm.path import Path, recorded
from attsvm.rules import rule_of, schedule_of, with_decay
from attsvm.rules.rule import Blocks
from attsvm.tokens import Floats, Tokens

# Instances that keep one thread busy between two steps.
_SHARE = 16


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
    a Head; left out for the joint models, which train it. init: "zero", "normal:STD", "uniform"
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
    batch = Batch.of(tokens)
    if start is not None:
        config = dict(start.config)
    else:
        config = {
            "model": model, "rule": rule, "loss": loss, "lr": float(lr), "seed": int(seed),
            "init": init if isinstance(init, str) else "given", "width": width,
            "schedule": schedule if isinstance(schedule, str) else "function",
            "decay": float(decay), "options": dict(options or {}), "places": int(batch.keys.shape[2]),
        }  # fmt: skip
    shape = model_of(config["model"])
    read = _head(head, shape, batch)
    if start is None:
        params = initial(shape, batch, init, seed=seed, width=width)
    else:
        params = start.at(len(start.steps) - 1)
    with threads(batch.size // _SHARE):
        return _run(batch, shape, read, config, params, steps, schedule, start, stop, progress)


def _head(head: Any, model: Model, batch: Batch) -> Head | None:
    """The fixed head, None for models that train their own; an error when it is missing."""
    if model.prompt and batch.shape[1] != 1:
        raise Unsupported("a prompt model needs tokens without queries; use a weight model")
    if model.trains_head:
        if head is not None:
            raise Unsupported(f"model {model.name!r} trains its own head: leave head out")
        return None
    if head is None:
        raise BadTokens(f"model {model.name!r} needs a head: give the vector v")
    return head_of(head, batch.values.shape[3])


def initial(
    model: Model, batch: Batch, init: str | dict[str, Any], *, seed: int, width: int | None
) -> Blocks:
    """The first parameters of every instance, each instance from its own stream of the seed."""
    d, dq = batch.shape
    columns = min(d, dq) if width is None else int(width)
    shapes = model.shapes(d, dq, columns, batch.values.shape[3])
    if isinstance(init, dict):
        return _given(init, shapes, batch.size)
    kind, _, size = init.partition(":")
    if kind == "default":
        kind, size = ("normal", "0.1") if model.name == "factored" else ("zero", "")
    out: Blocks = {}
    streams = [np.random.default_rng([seed, b]) for b in range(batch.size)]
    for name, shape in shapes.items():
        if kind == "zero":
            out[name] = np.zeros((batch.size, *shape))
        elif kind == "normal":
            out[name] = _deviation(size) * np.stack([s.standard_normal(shape) for s in streams])
        elif kind == "uniform":
            edge = 1.0 / np.sqrt(shape[0])
            out[name] = np.stack([s.uniform(-edge, edge, shape) for s in streams])
        else:
            raise Unsupported(f"unknown init {init!r}: known are zero, normal:STD, uniform")
    return out


def _deviation(text: str) -> float:
    try:
        value = float(text or "1")
    except ValueError:
        value = np.nan
    if not 0 < value < np.inf:
        raise Unsupported(f"init normal:{text} needs a positive number")
    return value


def _given(init: dict[str, Any], shapes: dict[str, tuple[int, ...]], size: int) -> Blocks:
    out: Blocks = {}
    for name, shape in shapes.items():
        if name not in init:
            raise BadTokens(f"the starting point has no {name}; it needs {', '.join(shapes)}")
        block = np.asarray(init[name], dtype=np.float64)
        if block.shape == shape:
            block = np.broadcast_to(block, (size, *shape))
        if block.shape != (size, *shape) or not np.isfinite(block).all():
            raise BadTokens(f"the starting {name} has shape {block.shape}; it must be {shape}")
        out[name] = block.copy()
    return out


def _run(
    batch: Batch, model: Model, head: Head | None, config: dict[str, Any], params: Blocks,
    steps: int, schedule: str | Callable[[int], float], start: Path | None,
    stop: Callable[[int, Blocks, Evaluation], bool] | None,
    progress: Callable[[float], None] | None,
) -> Path:  # fmt: skip
    """The loop: evaluate, record, step."""
    loss = loss_of(config["loss"])
    rule = rule_of(config["rule"], **config.get("options", {}))
    if config["decay"]:
        rule = with_decay(rule, config["decay"])
    factor = schedule_of(schedule if callable(schedule) else config["schedule"])
    first = 0 if start is None else int(start.steps[-1])
    state = rule.init(params) if start is None else dict(start.state)
    record = _Record(start)
    floor = _floor(batch, head, loss)
    diverged = -1
    for step in range(first, first + steps + 1):
        with np.errstate(all="ignore"):  # a diverging step is reported, not warned about
            found = evaluate(model, params, batch, head, loss)
        if not bool(np.isfinite(found.loss).all()):
            diverged = step - 1
            _warn(diverged, config["lr"])
            break
        size = log_norm(found.gradient)
        if step == 0 and bool(np.isneginf(size).any()):
            b = int(np.isneginf(size).argmax())
            raise BadTokens(
                f"the gradient of instance {b} is exactly zero at the start: a stationary point; "
                "start from init normal:0.1 or give another starting point"
            )
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
            if record.steps[-1:] != [step]:
                record.add(step, params, found, size)
            break
        record.tick(config["rule"], lr, size)
        params = moved
        if progress is not None and step % 64 == 0:
            progress((step - first) / max(steps, 1))
    return record.path(config, state, diverged)


def _floor(batch: Batch, head: Head | None, loss: Loss) -> Floats:
    """The infimum of the loss over attention (B,): every input on its best token.

    Known for a fixed linear head and a decreasing loss; the loss's own floor otherwise.
    """
    if isinstance(head, Linear) and loss.name != "squared":
        scores = np.einsum("bntd,bd->bnt", batch.values, np.broadcast_to(
            head.v, (batch.size, batch.values.shape[3])
        )) * batch.labels[:, :, None]  # fmt: skip
        best = np.where(batch.present, scores, -np.inf).max(axis=2)
        return loss.value(best).mean(axis=1)
    return np.full(batch.size, loss.floor)


def _warn(step: int, lr: float) -> None:
    warnings.warn(
        f"step {step} left the range of floats with lr {lr:g}; the path ends before it. "
        "Try a smaller step size",
        ConvergenceWarning,
        stacklevel=4,
    )


class _Record:
    """What the loop has seen so far."""

    def __init__(self, start: Path | None) -> None:
        self.steps: list[int] = []
        self.rows: list[tuple[Blocks, Evaluation, Floats, Floats]] = []
        self.before = start
        self.clock = -np.inf if start is None else start.clock[-1]
        self.top = None if start is None else start.top[-1]
        self.changed = None if start is None else start.changed.copy()

    def see(self, step: int, top: Any) -> None:
        """Note which top tokens changed."""
        if self.top is None or self.changed is None:
            self.changed = np.zeros(top.shape, np.int64)
        else:
            self.changed = np.where(top != self.top, step, self.changed)
        self.top = top

    def tick(self, rule: str, lr: Floats, size: Floats) -> None:
        """Advance the plain-flow clock: η for gd, η/‖∇L‖ for ngd, unknown otherwise."""
        if rule not in ("gd", "ngd"):
            self.clock = np.full(len(lr), np.nan)
            return
        passed = np.log(lr) if rule == "gd" else np.log(lr) - size
        self.clock = np.logaddexp(self.clock, passed)

    def add(self, step: int, params: Blocks, found: Evaluation, size: Floats) -> None:
        """Keep one record."""
        self.steps.append(step)
        clock = np.broadcast_to(self.clock, size.shape).copy()
        self.rows.append(({k: a.copy() for k, a in params.items()}, found, size, clock))

    def path(self, config: dict[str, Any], state: dict[str, Any], diverged: int) -> Path:
        """The Path of all records, those of the run it goes on from first."""
        founds = [found for _, found, _, _ in self.rows]
        sureness = [
            np.exp(np.take_along_axis(f.logs, f.top[:, :, None], 2))[:, :, 0] for f in founds
        ]
        columns: dict[str, Any] = {
            "steps": np.array(self.steps, np.int64),
            "loss": np.stack([f.loss for f in founds]),
            "log_gradient": np.stack([size for _, _, size, _ in self.rows]),
            "top": np.stack([f.top for f in founds]),
            "sureness": np.stack(sureness),
            "clock": np.stack([clock for _, _, _, clock in self.rows]),
        }
        weights = {k: np.stack([p[k] for p, _, _, _ in self.rows]) for k in self.rows[0][0]}
        if self.before is not None:
            # The end of the earlier run stays only if it is on the grid.
            keep = np.array([recorded(int(s)) for s in self.before.steps])
            columns = {
                k: np.concatenate([getattr(self.before, k)[keep], a]) for k, a in columns.items()
            }
            weights = {
                k: np.concatenate([self.before.weights[k][keep], a]) for k, a in weights.items()
            }
        changed = self.changed if self.changed is not None else np.zeros((0, 0), np.int64)
        return Path(
            columns["steps"], weights, columns["loss"], columns["log_gradient"], columns["top"],
            columns["sureness"], columns["clock"], changed, config, state, diverged,
        )  # fmt: skip
