"""Progress bars on standard error, silent when it is not a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# The callback of long work: progress(share done, 0 to 1), with a message as second argument where
# there is one; progress(name, state) from work in named parts; progress(message) for notices.
Progress = Callable[..., None]

# Seconds of work before a late bar shows.
PATIENCE = 2.0


@contextmanager
def bar(what: str, *, late: bool = False, total: float | None = 1.0) -> Iterator[Progress | None]:
    """A progress bar: a function of the share done and a message; None when nobody is watching.

    late: it shows once PATIENCE seconds have passed. total: None for work of unknown length, of
    which the message alone is shown. Bars inside one another are lines of one display.
    """
    if not sys.stderr.isatty():
        yield None
        return
    display = _display()
    due, line = time.monotonic() + PATIENCE, None if late else display.add_task(what, total=total)

    def show(share: float, message: str = "") -> None:
        nonlocal line
        if line is None and time.monotonic() >= due:
            line = display.add_task(what, total=total)
        if line is not None:
            said = f"{what}: {message}" if message else what
            display.update(line, completed=share, description=said)
            display.start()

    if line is not None:
        display.start()
    try:
        yield show
    finally:
        if line is not None:
            display.remove_task(line)
        if not display.task_ids:
            display.stop()


@contextmanager
def working(what: str) -> Iterator[None]:
    """A moving bar while work of unknown length goes on; nothing when nobody is watching."""
    with bar(what, total=None):
        yield


@cache
def _display() -> Any:
    """What shows the lines of all bars; rich is loaded when there is one."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TimeRemainingColumn(),
    )
    return progress.Progress(*columns, console=Console(stderr=True), transient=True)
