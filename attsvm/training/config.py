"""OptimizerConfig: how a task is descended on, checked, with the plain values that a Path keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.expected import expect, positive, shown, whole
from attsvm.errors import Unsupported
from attsvm.training.optimizers import RuleLike, optimizer_of
from attsvm.training.optimizers.optimizer import Optimizer
from attsvm.training.optimizers.steps import Schedule, schedule_of, with_decay
from attsvm.training.path import Path

# The step size of an optimizer that has none of its own.
RATE = 0.1


def rate_of(optimizer: RuleLike, options: Mapping[str, Any]) -> float:
    """The step size where none is given: the optimizer's own, or RATE."""
    if isinstance(optimizer, str):
        return RATE
    made = optimizer_of(optimizer, **({} if isinstance(optimizer, Optimizer) else options))
    return RATE if made.lr is None else made.lr


def plain_options(options: Any) -> dict[str, Any]:
    """The optimizer's options with NumPy numbers made Python's."""
    if options is None:
        return {}
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise Unsupported("options is a dict of the optimizer's options, such as {'momentum': 0.9}")
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in options.items()
    }


def choose_parts(given: Mapping[str, Any], start: Path | None) -> dict[str, Any]:
    """The optimizer, the model and the loss of a run by family: names, or custom objects.

    A continued run keeps its own. Of a custom object a saved path holds the name alone, so the
    object must be given again.
    """
    if start is None:
        return dict(given)
    expect(start, Path, "start", make="train(…) gives one")
    out: dict[str, Any] = {}
    for family, value in given.items():
        name = start.config[family]
        own = None if isinstance(value, str) else value
        if family not in start.config.get("outside", ()):
            out[family] = name
        elif own is not None or family in start.objects:
            out[family] = start.objects[family] if own is None else own
        else:
            raise Unsupported(
                f"this run's {family} {name!r} is a custom object, which is not saved: give "
                f"{family}=… (--{family} FILE.py:NAME)"
            )
        called = getattr(own, "name", None)  # a function that makes an optimizer has none
        if called not in (name, None):
            raise Unsupported(
                f"this run's {family} is {name!r}, not {called!r}: give the one it was trained with"
            )
    return out


# What `words` says of every descent.
WORDS = ("optimizer", "lr", "schedule", "decay", "options", "seed", "init")


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
    def of(
        cls,
        optimizer: RuleLike,
        *,
        lr: Any = None,
        schedule: str | Callable[[int], float] = "constant",
        decay: Any = 0.0,
        options: Any = None,
        seed: Any = 0,
        init: Any = "default",
    ) -> OptimizerConfig:
        """The configuration from these arguments of `train`, checked."""
        if not isinstance(init, (str, dict)):
            raise Unsupported(
                f"init is {shown(init)}: give zero, normal:STD, uniform, or arrays by name"
            )
        if not isinstance(schedule, str) and not callable(schedule):
            raise Unsupported(
                f"schedule is {shown(schedule)}: give a name or a function of the step"
            )
        if isinstance(optimizer, Optimizer):
            optimizer_of(optimizer, **plain_options(options))  # refuses options
        words = {
            "optimizer": optimizer,
            "lr": rate_of(optimizer, plain_options(options)) if lr is None else positive(lr, "lr"),
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
        """The configuration of a path, with its optimizer, and its schedule if a function.

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
