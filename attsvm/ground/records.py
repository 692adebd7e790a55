"""Text files written in one move, and a full disk said in one sentence."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attsvm.errors import BadTokens
from attsvm.ground.files import beside

Say = Callable[[str], None]


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
