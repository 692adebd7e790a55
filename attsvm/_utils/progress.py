"""Progress bars on standard error, silent when it is not a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from typing import Any

# The callback of long work: progress(share done, 0 to 1), with a message as second argument where
# there is one; progress(name, state) from work in named parts; progress(message) for notices.
Progress = Callable[..., None]

# Seconds of work before a late bar shows.
PATIENCE = 2.0

# The spinner that turns now, if one does: bars inside it write their messages there.
_sign: Any = None

# Whether a bar is on the screen: two at once would write over each other.
_drawn = False


@contextmanager
def bar(what: str, *, late: bool = False) -> Iterator[Progress | None]:
    """A progress bar: a function of the share done and a message; None when nobody is watching.

    late: it shows once PATIENCE seconds have passed. Inside `working` it writes to the spinner;
    inside another bar, which shows how far the work is, it is None as well.
    """
    if _drawn or not sys.stderr.isatty():
        yield None
    elif _sign is not None:
        sign = _sign
        yield lambda share, message="": sign.update(f"{_text(what, message)}, {100 * share:.0f} %")
    else:
        shown = _Bar(what, PATIENCE if late else 0.0)
        try:
            yield shown
        finally:
            shown.end()


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner while work of unknown length goes on; nothing when nobody is watching."""
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


class _Bar:
    """A bar that shows at the first report after `patience` seconds, at once for 0."""

    def __init__(self, what: str, patience: float) -> None:
        self.what, self.due = what, time.monotonic() + patience
        self.progress: Any = None
        if patience == 0.0:
            self._show()

    def __call__(self, share: float, message: str = "") -> None:
        if self.progress is None:
            if time.monotonic() < self.due:
                return
            self._show()
        self.progress.update(self.task, completed=share, description=_text(self.what, message))

    def _show(self) -> None:
        global _drawn
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Live

        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self.progress = Live(*columns, console=Console(stderr=True), transient=True)
        self.progress.start()
        _drawn = True
        self.task = self.progress.add_task(self.what, total=1.0)

    def end(self) -> None:
        """Remove the bar."""
        global _drawn
        if self.progress is not None:
            self.progress.stop()
            _drawn = False


def _text(what: str, message: str) -> str:
    return f"{what}: {message}" if message else what


def share_of_gap(first: float, now: float, goal: float) -> float:
    """How much of the way from the gap `first` to `goal` is done, counted in digits.

    >>> share_of_gap(1.0, 1e-2, 1e-4)
    0.5
    """
    if not 0.0 < goal < now < first < float("inf"):
        return 1.0 if now <= goal else 0.0
    return log(first / now) / log(first / goal)
