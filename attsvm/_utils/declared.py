"""What a plug-in declares of its own functions, and for which functions it was declared."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from attsvm.errors import Unsupported


def keep_declared(thing: Any, functions: tuple[Any, ...], names: tuple[str, ...]) -> None:
    """Sets inherited declarations back to their defaults where a function has been replaced.

    For `__post_init__` of a frozen dataclass with a field `about`, empty by default, which
    `dataclasses.replace` hands on. names: the fields that speak of these functions. A declaration
    that was given anew is kept; `replace(…, about=())` keeps them all.
    """
    about = thing.about
    pair = isinstance(about, tuple) and len(about) == 2 and isinstance(about[1], tuple)
    fits = len(about[1]) == len(names) if pair else isinstance(about, tuple) and not about
    if not fits:
        raise Unsupported("about is set by the library: leave it out")
    if about and about[0] != functions:
        for field, before in zip(names, about[1], strict=True):
            if getattr(thing, field) == before:
                default = next(f.default for f in fields(thing) if f.name == field)
                object.__setattr__(thing, field, default)
    declared = tuple(getattr(thing, field) for field in names)
    object.__setattr__(thing, "about", (functions, declared))
