"""Gradient training: the run of any task, and of Tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attsvm._utils.expected import function, whole
from attsvm._utils.parallel import using_threads
from attsvm._utils.progress import Progress
from attsvm.errors import BadTokens
from attsvm.problem.tokens import Tokens
from attsvm.training.config import OptimizerConfig, choose_parts
from attsvm.training.loop import Stop, TrainingTask, run
from attsvm.training.losses import Loss
from attsvm.training.models import Model
from attsvm.training.optimizers import RuleLike
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.path import Path, recorded
from attsvm.training.task import token_task

# A run evaluated again at its end gives the recorded loss but for rounding.
_SAME = 1e-9


def train_tokens(
    tokens: Tokens | Sequence[Tokens],
    *,
    model: str | Model = "weight",
    head: Any = None,
    loss: str | Loss = "logistic",
    width: int | None = None,
    heads: int | None = None,
    threads: int | None = None,
    start: Path | None = None,
    **how: Any,
) -> Path:
    """The Path of training on Tokens; how: the options of `descend`."""
    several = tokens if isinstance(tokens, (list, tuple)) else (tokens,)
    if not all(isinstance(t, Tokens) for t in several):
        raise BadTokens("train needs Tokens, or a list of Tokens of one size: build Tokens(X, …)")

    def task(config: OptimizerConfig, parts: dict[str, Any]) -> TrainingTask:
        before = {} if start is None else start.config
        kept = before.get("head") if head is None else head
        columns, count = (width, heads) if start is None else map(before.get, ("width", "heads"))
        return token_task(tokens, parts["model"], parts["loss"], kept, columns, count, config)

    with using_threads(None if threads is None else whole(threads, "threads", least=1)):
        return descend(task, {"model": model, "loss": loss}, start=start, **how)


def descend(
    task_of: Callable[[OptimizerConfig, dict[str, Any]], TrainingTask],
    parts: dict[str, Any],
    *,
    optimizer: RuleLike = "ngd",
    steps: int = 1000,
    init: str | dict[str, Any] = "default",
    schedule: str | Callable[[int], float] = "constant",
    start: Path | None = None,
    stop: Stop | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Path:
    """The Path of a run, from the start that `init` names or from the end of the path `start`.

    task_of: the task from the optimizer's configuration and the parts (model, loss) of the run.
    how: lr, decay, options and seed, as in `attsvm.train`; a continued run keeps its own.
    """
    steps = whole(steps, "steps", least=0)
    stop, progress = function(stop, "stop"), function(progress, "progress")
    parts = choose_parts({**parts, "optimizer": optimizer}, start)
    if start is None:
        config = OptimizerConfig.of(parts["optimizer"], init=init, schedule=schedule, **how)
    else:
        config = OptimizerConfig.again(start.config, parts["optimizer"], schedule)
    task = task_of(config, parts)
    if start is not None and task.anchored:
        again = _on_grid(start)
        start, steps = again, steps + int(start.steps[-1] - again.steps[-1])
    first = task.begin(init, config.seed) if start is None else _last(start, task)
    return run(task, config, first, steps, start=start, stop=stop, progress=progress)


def _on_grid(start: Path) -> Path:
    """The path up to its last record on the grid."""
    end = 1 + max(r for r, step in enumerate(start.steps) if recorded(int(step), start.records))
    names = ("steps", "loss", "log_gradient", "top", "top_attention", "clock")
    rows = {name: getattr(start, name)[:end] for name in names}
    return replace(start, weights={k: block[:end] for k, block in start.weights.items()}, **rows)


def _last(start: Path, task: TrainingTask) -> Blocks:
    """The parameters at the end of a path; raises BadTokens unless they fit the task."""
    if task.trace is not None and start.config.get("data", task.trace) != task.trace:
        raise BadTokens(
            "the path to go on from was trained on other sentences, or with another embedding or "
            "decoder: give the same ones"
        )
    if start.diverged >= 0:
        raise BadTokens(
            f"the path to go on from diverged at step {start.diverged}: start again with a smaller "
            "step size"
        )
    params = start.at(len(start.steps) - 1)
    fits = start.top.shape[1:] == (task.size, task.inputs) and all(
        name in params and params[name].shape == (task.size, *shape)
        for name, shape in task.shapes.items()
    )
    if not fits:
        raise BadTokens(
            "the path to go on from is a run on data of another size: give it the data it came from"
        )
    if task.trace is None:
        _check_end(start, task, params)
    return params


def _check_end(start: Path, task: TrainingTask, params: Blocks) -> None:
    """Raises BadTokens unless the end of the path, evaluated again, is what it recorded."""
    found = task.loss_and_grad(params)
    same = np.allclose(found.loss, start.loss[-1], rtol=_SAME, atol=0, equal_nan=True)
    if not (same and np.array_equal(found.top, start.top[-1])):
        raise BadTokens(
            "the path to go on from is a run on other tokens, labels or prediction head: give it "
            "the data it came from"
        )
