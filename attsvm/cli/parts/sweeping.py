"""How far a sweep is: a live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

if TYPE_CHECKING:
    from attsvm.experiments.sweep.runs import SweepState

# Seconds between two lines where nobody watches.
_QUIET = 60.0


class Meter:
    """The state of a sweep, and what follows from it by the clock."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.state: SweepState | None = None

    @property
    def rate(self) -> float:
        """Instances per second, of those that were not there before."""
        if self.state is None:
            return 0.0
        done = self.state.done - self.state.before
        return done / max(time.monotonic() - self.start, 1e-9)

    @property
    def remaining(self) -> str:
        """The time that is left at this rate."""
        if self.state is None or not self.rate:
            return "–"
        left = self.state.total - self.state.done - self.state.failed
        return spell(left / self.rate)

    def __rich__(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for head in ("instances", "of", "on file before", "per second", "remaining", "failed"):
            table.add_column(head, justify="right", no_wrap=True)
        s = self.state
        if s is not None:
            table.add_row(
                str(s.done), str(s.total), str(s.before), f"{self.rate:.1f}", self.remaining,
                f"[bold red]{s.failed}[/]" if s.failed else "0",
            )  # fmt: skip
        return table

    def __str__(self) -> str:
        s = self.state
        if s is None:
            return ""
        bad = f", {s.failed} failed" if s.failed else ""
        return f"{s.done} of {s.total} instances, {self.rate:.1f}/s, {self.remaining} left{bad}"


def spell(seconds: float) -> str:
    """A time in words that fit a table.

    >>> spell(95), spell(8000), spell(2.5e5)
    ('1 min 35 s', '2 h 13 min', '2 d 21 h')
    """
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60} s"
    if s < 86400:
        return f"{s // 3600} h {s % 3600 // 60} min"
    return f"{s // 86400} d {s % 86400 // 3600} h"


@contextmanager
def followed() -> Iterator[tuple[Callable[[SweepState], None], Callable[[str], None]]]:
    """What to tell of the state and what to say sentences with, on standard error."""
    meter = Meter()
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(state: SweepState) -> None:
            nonlocal last
            meter.state = state
            if time.monotonic() - last >= _QUIET:
                last = time.monotonic()
                print(meter, file=sys.stderr, flush=True)

        yield line, lambda sentence: print(f"attsvm: {sentence}", file=sys.stderr, flush=True)
        return
    console = Console(stderr=True, highlight=False)

    def keep(state: SweepState) -> None:
        meter.state = state

    with Live(meter, console=console, refresh_per_second=4, transient=True):
        yield keep, lambda sentence: console.print(f"attsvm: {sentence}", markup=False)
