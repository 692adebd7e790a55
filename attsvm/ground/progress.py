"""Progress bars on standard error, silent when it is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Whether a bar is on the screen: two at once would write over each other.
_drawn = False


@contextmanager
def bar(what: str) -> Iterator[Callable[[float], None] | None]:
    """A function to call with the share done, 0 to 1; None when nobody is watching.

    Inside another bar it is None as well: the outer one tells how far the work is.
    """
    global _drawn
    if _drawn or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    _drawn = True
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(what, total=1.0)
            yield lambda share: progress.update(task, completed=share)
    finally:
        _drawn = False


@contextmanager
def working(what: str) -> Iterator[None]:
    """A turning sign while work of unknown length goes on; nothing when nobody is watching."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
