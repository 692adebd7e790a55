"""What train() is asked for, checked: one clear sentence for what cannot be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attsvm._utils.expected import expect
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.training.path import Path


def instances(tokens: Any) -> Tokens | Sequence[Tokens]:
    """The tokens as they are; raises BadTokens unless they are one instance or several."""
    if isinstance(tokens, Tokens):
        return tokens
    listed = list(tokens) if isinstance(tokens, (list, tuple)) else None
    if listed is None or not all(isinstance(t, Tokens) for t in listed):
        raise BadTokens("train needs Tokens, or a list of Tokens of one size: build Tokens(X, …)")
    return listed


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


def chosen(given: Mapping[str, Any], start: Path | None) -> dict[str, Any]:
    """The optimizer, the model and the loss of a run by family: names, or objects of one's own.

    A run that goes on keeps its own. Of what was an object its path holds the name alone once it
    has been saved, so the object is asked for again.
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
                f"this run's {family} {name!r} is not at hand: give {family}=… "
                f"(--{family} FILE.py:NAME)"
            )
        if own is not None and (called := name_of(own)) not in (name, None):
            raise Unsupported(
                f"this run's {family} is {name!r}, not {called!r}: give the one it was trained with"
            )
    return out


def name_of(thing: Any) -> str | None:
    """The name of an object of one's own; None for a function that makes one."""
    return getattr(thing, "name", None)
