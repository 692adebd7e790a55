"""What train() is asked for, checked: one clear sentence for what cannot be done."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens

Config = dict[str, Any]


def instances(tokens: Any) -> Tokens | Sequence[Tokens]:
    """The tokens as they are; an error unless they are one instance or a sequence of them."""
    if isinstance(tokens, Tokens):
        return tokens
    listed = list(tokens) if isinstance(tokens, (list, tuple)) else None
    if listed is None or not all(isinstance(t, Tokens) for t in listed):
        raise BadTokens("train needs Tokens, or a list of Tokens of one size: build Tokens(X, …)")
    return listed


def whole(value: Any, name: str, *, least: int) -> int:
    """The value as an int; an error unless it is a whole number of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise Unsupported(f"{name} is {value!r}: it must be a whole number, at least {least}")
    return number


def _real(value: Any, name: str, *, zero: bool) -> float:
    """The value as a float; an error unless it is finite and positive (or zero, where allowed)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (0 <= number < math.inf) or (number == 0 and not zero):
        ask = "not negative" if zero else "positive"
        raise Unsupported(f"{name} is {value}: it must be finite and {ask}")
    return number


def setting(
    *,
    model: str,
    rule: str,
    head: Any,
    loss: str,
    lr: Any,
    seed: Any,
    init: Any,
    width: Any,
    schedule: Any,
    decay: Any,
    options: Any,
) -> Config:
    """The arguments of a run as plain values, which a path can keep."""
    if not isinstance(init, (str, dict)):
        raise Unsupported(f"init is {init!r}: give zero, normal:STD, uniform, or arrays by name")
    if not isinstance(schedule, str) and not callable(schedule):
        raise Unsupported(f"schedule is {schedule!r}: give a name or a function of the step")
    return {
        "model": model, "rule": rule, "loss": loss, "lr": _real(lr, "lr", zero=False),
        "head": head if isinstance(head, str) else None,
        "seed": whole(seed, "seed", least=0),
        "init": init if isinstance(init, str) else "given",
        "width": None if width is None else whole(width, "width", least=1),
        "schedule": schedule if isinstance(schedule, str) else "function",
        "decay": _real(decay, "weight decay", zero=True), "options": _plain(options),
    }  # fmt: skip


def _plain(options: Any) -> dict[str, Any]:
    """The rule's options with NumPy numbers made Python's."""
    if options is None:
        return {}
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise Unsupported("options is a dict of the rule's options, such as {'momentum': 0.9}")
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in options.items()
    }
