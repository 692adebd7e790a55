"""Arguments of public functions, checked: what was expected, and what was given instead.

Every message names the argument and the type or a short form of the value; a whole array, a long
text or a number of thousands of digits is never printed.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attsvm._utils.memory import require
from attsvm.errors import AttsvmError, BadTokens, TooLarge, Unsupported

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

# Characters of a value that a message shows.
_LONGEST = 60
# Characters of another library's message that are kept.
_WORDS = 500
# Values that are printed; of others the type says enough.
_PLAIN = (str, bytes, int, float, complex, np.generic, type(None))
# No count and no seed is longer than this many bits.
_BITS = 128
# Bytes of a file's name, and of the whole path, that file systems take.
_NAME, _PATH = 255, 4095


def shown(value: Any) -> str:
    """A short form of a value for a message: the value if it is plain and short, else its type."""
    if isinstance(value, np.ndarray):
        return f"an array {value.shape} of {value.dtype}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, int) and value.bit_length() > _BITS:
        return "a whole number of more than 38 digits"
    if isinstance(value, _PLAIN):
        text = repr(value.item() if isinstance(value, np.generic) else value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return _one(type(value))


def escaped(text: str) -> str:
    """The text with escapes for what a terminal would obey or cannot show."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def expect(value: Any, kind: type[T], name: str, *, make: str = "") -> T:
    """The value as it is; raises BadTokens unless it is one of this kind. make: how to get one."""
    if isinstance(value, kind):
        return value
    hint = f": {make}" if make else ""
    raise BadTokens(f"{name} must be {_one(kind)}, this is {shown(value)}{hint}")


def _one(kind: type) -> str:
    """The name of a class with its article."""
    name = kind.__name__
    if name in ("Tokens", "Sentences"):
        return name
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def listed(values: Any, name: str, *, of: str) -> list[Any]:
    """The values as a list; raises BadTokens unless there are several to go through.

    of: what they are, in the plural.
    """
    if isinstance(values, np.ndarray):
        require(64.0 * values.size, name)
    try:
        if isinstance(values, Iterable) and not isinstance(values, str | bytes | type):
            return list(values)
    except TypeError:  # an array without an axis
        pass
    raise BadTokens(f"{name} must be a list of {of}, this is {shown(values)}")


def whole(value: Any, name: str, *, least: int, kind: type[AttsvmError] = Unsupported) -> int:
    """The value as an int; raises `kind` unless it is whole and at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least or number.bit_length() > _BITS:
        raise kind(f"{name} is {shown(value)}: it must be a whole number, at least {least}")
    return number


def place(value: Any, size: int, name: str) -> int:
    """The value as an index; raises BadTokens unless there are more than that, from either end."""
    try:
        index = operator.index(value)
    except TypeError:
        index = size
    if isinstance(value, bool) or not -size <= index < size:
        raise BadTokens(f"{name} is {shown(value)}: it must be a whole number below {size}")
    return index


def whole_instance(instance: Any, size: int) -> int:
    """The number of an instance; raises BadTokens unless there are more than that."""
    try:
        number = operator.index(instance)
    except TypeError:
        number = -1
    if not 0 <= number < size:
        there = "there is one instance, 0" if size == 1 else f"instances run from 0 to {size - 1}"
        raise BadTokens(f"instance is {shown(instance)}: {there}")
    return number


@contextmanager
def places(name: str, size: int) -> Iterator[None]:
    """Around an indexing of `size` rows by what a user gave: raises BadTokens where it fails."""
    try:
        yield
    except (IndexError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise BadTokens(
            f"{name} must be whole numbers below {size}, a slice or booleans"
        ) from error


def number(value: Any) -> float:
    """The value as a float, NaN where it is no number."""
    if isinstance(value, np.ndarray) and value.ndim:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def positive(value: Any, name: str, *, zero: bool = False) -> float:
    """The value as a float; raises Unsupported unless finite and positive (or zero, if allowed)."""
    found = number(value)
    if not (0 <= found < math.inf) or (found == 0 and not zero):
        ask = "not negative" if zero else "positive"
        raise Unsupported(f"{name} is {shown(value)}: it must be finite and {ask}")
    return found


def flag(value: Any, name: str) -> bool:
    """The value as a bool; raises Unsupported unless it is True or False."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise Unsupported(f"{name} is {shown(value)}: it is True or False")


def one_of(value: Any, known: Iterable[str], name: str) -> str:
    """The value as it is; raises Unsupported, with the known names, unless it is one of them."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    raise Unsupported(f"unknown {name} {shown(value)}: known are {', '.join(names)}")


def function(value: Function | None, name: str) -> Function | None:
    """The function as it is, or None; raises Unsupported unless it can be called."""
    if value is None or (callable(value) and not isinstance(value, type)):
        return value
    raise Unsupported(f"{name} must be a function, this is {shown(value)}")


def file_path(value: Any, name: str, kind: type[AttsvmError] = BadTokens) -> Path:
    """The path of a file; raises `kind` unless it is a text or a path that a file can have."""
    try:
        path = os.fspath(value)
    except TypeError:
        path = b""
    if not isinstance(path, str):
        raise kind(f"{name} must be the path of a file, this is {shown(value)}")
    raw = os.fsencode(path)
    longest = max(map(len, raw.split(b"/")))
    if b"\0" in raw:
        raise kind(f"{name} is {shown(path)}: the name of a file holds no zero byte")
    if longest > _NAME or len(raw) > _PATH:
        raise kind(f"{name} is {shown(path)}: File name too long")
    return Path(path)


@contextmanager
def checked_by(kind: type[AttsvmError]) -> Iterator[None]:
    """Around checks of another library: its errors, with their messages, as errors of this one."""
    try:
        yield
    except AttsvmError:
        raise
    except MemoryError as error:
        raise TooLarge(str(error)) from error
    except (TypeError, ValueError, OverflowError) as error:
        text = str(error)
        raise kind(text if len(text) <= _WORDS else f"{text[:_WORDS]}…") from error
