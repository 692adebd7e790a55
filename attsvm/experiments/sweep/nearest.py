"""Words that are not known, answered with the nearest one that is."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence that a name is unknown, with the nearest known one, or all of them.

    >>> unknown("key", "sedes", ["seeds", "grid"])
    "unknown key 'sedes': nearest is seeds; known are seeds, grid"
    """
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"nearest is {near[0]}; " if near else ""
    return f"unknown {what} {name!r}: {hint}known are {', '.join(names)}"
