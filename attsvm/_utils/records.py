"""Text files read with care and written in one move, and a full disk said in one sentence."""

from __future__ import annotations

import errno
import json
import math
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attsvm._utils.files import beside
from attsvm.errors import BadTokens

# Digits of a whole number in a file, and how deep its tables may lie inside each other.
_DIGITS, _DEPTH = 40, 40


def parsed_json(text: str) -> Any:
    """What a text of JSON says; raises ValueError, whatever is wrong with it."""
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parsed_toml(text: str) -> dict[str, Any]:
    """What a text of TOML says; raises ValueError, whatever is wrong with it."""
    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    _check_depth(found, _DEPTH)
    return found


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a whole number has {len(text)} digits, {_DIGITS} at most are read")
    return int(text)


def _check_depth(value: Any, most: int) -> None:
    """Raises ValueError for lists and tables nested too deeply, and for huge whole numbers."""
    if isinstance(value, dict | list):
        if not most:
            raise ValueError("it is nested too deeply")
        for inner in value.values() if isinstance(value, dict) else value:
            _check_depth(inner, most - 1)
    elif isinstance(value, int) and abs(value) >= 10**_DIGITS:
        raise ValueError(f"a whole number has more than {_DIGITS} digits")


@contextmanager
def disk_space(folder: Path) -> Iterator[None]:
    """A context in which a full disk becomes one sentence."""
    try:
        yield
    except OSError as error:
        if full(error):
            raise no_space(folder) from error
        raise


def full(error: BaseException) -> bool:
    """Whether the error says that no space is left."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def no_space(folder: Path) -> BadTokens:
    """The error of a full disk."""
    return BadTokens(
        f"no space is left in {folder}: what was finished is kept; make room and run it again"
    )


def write_json(file: Path, content: Any, *, indent: int | None = 1) -> None:
    """Write the file in one move; numbers that are not finite become null."""
    text = json.dumps(finite(content), indent=indent, ensure_ascii=False, allow_nan=False)
    write_text(file, text + "\n")


def write_text(file: Path, text: str) -> None:
    """Write the file in one move: a whole file appears, or none."""
    with beside(file) as target:
        target.write_text(text, encoding="utf-8")


def finite(value: Any) -> Any:
    """Nested plain data with None for every infinity and NaN."""
    if isinstance(value, dict):
        return {str(key): finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
