"""Objects: from a user's file, the declarations of plug-ins, and `lazy` properties."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from attsvm.errors import BadTokens, Unsupported

T = TypeVar("T")


class lazy(cached_property[T]):
    """functools.cached_property without the lock that it takes before Python 3.12."""

    if not TYPE_CHECKING:

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


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


# How the names of modules from outside begin.
_PREFIX = "attsvm_outside_"


def is_outside(text: str) -> bool:
    """Whether a name on the command line points into a file: `mine.py:slow`, not `mirror:1.75`."""
    return text.rpartition(":")[0].endswith(".py") or text.endswith(".py")


def load_object(text: str, what: str) -> object:
    """What `FILE.py:NAME` names; `what` (an optimizer, a norm) is for the error."""
    file, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise Unsupported(f"{what} from a file is FILE.py:NAME; this is {text!r}")
    module = load_module(Path(file))
    found = vars(module)
    if name not in found:
        known = [other for other in found if not other.startswith("_")]
        raise Unsupported(f"{file} has no {name}; it has {', '.join(known) or 'nothing'}")
    return found[name]


def load_module(file: Path) -> ModuleType:
    """The module in a file, run once for each path in a process.

    It has a name of its own, so that it hides no installed module, and it is listed among the
    loaded ones, so that its classes can be found again by a process that is handed one of them.
    """
    place = file.resolve()
    name = f"{_PREFIX}{place.stem}_{hashlib.sha256(str(place).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    if not place.is_file():
        raise BadTokens(f"{file} is not there")
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise BadTokens(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        reason = str(error).strip().splitlines()
        raise Unsupported(
            f"{file} does not import: {type(error).__name__}{': ' + reason[0] if reason else ''}"
        ) from error
    return module


def loaded_files() -> list[Path]:
    """The files whose modules `load_module` has loaded in this process."""
    return [
        Path(str(module.__file__))
        for name, module in sys.modules.items()
        if name.startswith(_PREFIX)
    ]


def load_files(files: Iterable[Path]) -> None:
    """Loads these files: a new process does so before it is handed objects that they define."""
    for file in files:
        load_module(file)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence that a name is unknown, with the nearest known one, or all of them.

    >>> unknown("key", "sedes", ["seeds", "grid"])
    "unknown key 'sedes': nearest is seeds; known are seeds, grid"
    """
    names = list(known)
    near = get_close_matches(str(name), names, n=1)
    hint = f"nearest is {near[0]}; " if near else ""
    return f"unknown {what} {name!r}: {hint}known are {', '.join(names)}"
