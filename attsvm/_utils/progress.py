"""Progress bars on standard error, silent when it is not a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from typing import Any

# Seconds of work that pass without a word.
PATIENCE = 2.0

# The sign that turns now, if one does: what goes on inside tells its news there.
_sign: Any = None

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

    global _sign
    with Console(stderr=True).status(what) as sign:
        before, _sign = _sign, sign
        try:
            yield
        finally:
            _sign = before


# Called with the share done, 0 to 1, and how things stand.
Tell = Callable[[float, str], None]


@contextmanager
def telling(what: str) -> Iterator[Tell | None]:
    """A function to call with the share done and how things stand; None when nobody is watching.

    A bar shows once two seconds have gone by. Inside `working` the words go to its sign; inside
    another bar, which tells how far the work is, it is None as well.
    """
    if _drawn or not sys.stderr.isatty():
        yield None
        return
    if _sign is not None:
        sign = _sign
        yield lambda share, said: sign.update(f"{what}: {said}, {100 * share:.0f} %")
        return
    late = _Late(what)
    try:
        yield late
    finally:
        late.end()


class _Late:
    """A bar that begins when it is told something after PATIENCE seconds."""

    def __init__(self, what: str) -> None:
        self.what, self.start = what, time.monotonic()
        self.progress: Any = None

    def __call__(self, share: float, said: str) -> None:
        global _drawn
        if self.progress is None:
            if time.monotonic() - self.start < PATIENCE:
                return
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
            self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self.progress.start()
            _drawn = True
            self.task = self.progress.add_task(self.what, total=1.0)
        self.progress.update(self.task, completed=share, description=f"{self.what}: {said}")

    def end(self) -> None:
        """Takes the bar away."""
        global _drawn
        if self.progress is not None:
            self.progress.stop()
            _drawn = False


def share_of_gap(first: float, now: float, goal: float) -> float:
    """How much of the way from the gap `first` to `goal` is done, counted in digits.

    >>> share_of_gap(1.0, 1e-2, 1e-4)
    0.5
    """
    if not 0.0 < goal < now < first < float("inf"):
        return 1.0 if now <= goal else 0.0
    return log(first / now) / log(first / goal)
