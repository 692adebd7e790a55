"""train(): gradient training of one instance of Tokens, or of a stack of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attsvm._utils.expected import function, whole
from attsvm._utils.progress import Progress
from attsvm.errors import BadTokens
from attsvm.problem.tokens import Tokens
from attsvm.training.config import OptimizerConfig, chosen, instances
from attsvm.training.loop import Stop, TrainingTask, run
from attsvm.training.losses import Loss
from attsvm.training.models import Model
from attsvm.training.optimizers import RuleLike
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.path import Path
from attsvm.training.task import TokenSetting, token_task


def train(
    tokens: Tokens | Sequence[Tokens],
    *,
    model: str | Model = "weight",
    optimizer: RuleLike = "ngd",
    head: Any = None,
    loss: str | Loss = "logistic",
    lr: float = 0.1,
    steps: int = 1000,
    seed: int = 0,
    init: str | dict[str, Any] = "default",
    width: int | None = None,
    schedule: str | Callable[[int], float] = "constant",
    decay: float = 0.0,
    options: dict[str, Any] | None = None,
    start: Path | None = None,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> Path:
    """The Path of gradient training on (1/n) Σ ℓ(y_i h(o_i)), exact however far it goes.

    The arguments are those of `attsvm.train`.
    """
    steps = whole(steps, "steps", least=0)
    stop, progress = function(stop, "stop"), function(progress, "progress")
    parts = chosen({"model": model, "optimizer": optimizer, "loss": loss}, start)
    if start is None:
        descent = OptimizerConfig.asked(
            parts["optimizer"],
            lr=lr,
            schedule=schedule,
            decay=decay,
            options=options,
            seed=seed,
            init=init,
        )
        setting = TokenSetting(parts["model"], parts["loss"], head, width)
    else:
        descent = OptimizerConfig.again(start.config, parts["optimizer"], schedule)
        kept = start.config.get("head") if head is None else head
        setting = TokenSetting(parts["model"], parts["loss"], kept, start.config.get("width"))
    task = token_task(instances(tokens), setting, descent)
    first = task.begin(init, descent.seed) if start is None else ending(start, task)
    return run(task, descent, first, steps, start=start, stop=stop, progress=progress)


def ending(start: Path, task: TrainingTask) -> Blocks:
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
    return params
