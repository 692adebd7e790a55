"""Descent: how a task is descended on, and the same in plain values, which a Path keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attsvm._utils.expected import positive, shown, whole
from attsvm.errors import Unsupported
from attsvm.training.arguments import plain_options
from attsvm.training.optimizers import RuleLike, optimizer_of
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps.decay import with_decay
from attsvm.training.optimizers.steps.schedules import Schedule, schedule_of

# What `words` says of every descent.
WORDS = ("optimizer", "lr", "schedule", "decay", "options", "seed", "init")


def pulled_back(config: Mapping[str, Any]) -> float | None:
    """The decay or the ridge of a run from its config, 0 without either, None if nothing is known.

    Either keeps the norm from growing.
    """
    decay = config.get("decay")
    return decay or float(config.get("options", {}).get("ridge", 0.0)) or decay


@dataclass(frozen=True, eq=False)
class OptimizerConfig:
    """An optimizer with its step size η · schedule(t), its decay, and the seed of the start.

    optimizer: as it moves, its decay included. own: the optimizer as it was given, where it is an
    object and not a name. words: optimizer, lr, schedule, decay, options, seed and init as JSON has
    them.
    """

    optimizer: Optimizer
    lr: float
    schedule: Schedule
    decay: float
    seed: int
    own: RuleLike | None
    words: dict[str, Any]

    @classmethod
    def asked(
        cls,
        optimizer: RuleLike,
        *,
        lr: Any = 0.1,
        schedule: str | Callable[[int], float] = "constant",
        decay: Any = 0.0,
        options: Any = None,
        seed: Any = 0,
        init: Any = "default",
    ) -> OptimizerConfig:
        """The descent of these arguments of `train`, checked."""
        if not isinstance(init, (str, dict)):
            raise Unsupported(
                f"init is {shown(init)}: give zero, normal:STD, uniform, or arrays by name"
            )
        if not isinstance(schedule, str) and not callable(schedule):
            raise Unsupported(
                f"schedule is {shown(schedule)}: give a name or a function of the step"
            )
        if isinstance(optimizer, Optimizer):
            optimizer_of(
                optimizer, **plain_options(options)
            )  # an optimizer that is made takes none
        words = {
            "optimizer": optimizer,
            "lr": positive(lr, "lr"),
            "schedule": schedule if isinstance(schedule, str) else "function",
            "decay": positive(decay, "weight decay", zero=True),
            "options": plain_options(options),
            "seed": whole(seed, "seed", least=0),
            "init": init if isinstance(init, str) else "given",
        }
        return cls.again(words, optimizer, schedule)

    @classmethod
    def again(
        cls, words: Mapping[str, Any], optimizer: RuleLike, schedule: str | Callable[[int], float]
    ) -> OptimizerConfig:
        """The descent of a path's config, with its optimizer, and its schedule if a function.

        optimizer: the name in the config, or the object of that name.
        """
        options = words.get("options", {})
        made = optimizer_of(optimizer, **({} if isinstance(optimizer, Optimizer) else options))
        kept = {key: words[key] for key in WORDS if key in words}
        kept["optimizer"] = optimizer if isinstance(optimizer, str) else made.name
        if not isinstance(optimizer, str):
            kept["limit"] = made.limit
        decay = float(words["decay"])
        return cls(
            with_decay(made, decay) if decay else made,
            float(words["lr"]),
            schedule_of(schedule if callable(schedule) else words["schedule"]),
            decay,
            int(words["seed"]),
            None if isinstance(optimizer, str) else made,
            kept,
        )
