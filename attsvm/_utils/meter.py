"""How long this process has spent compiling kernels and loading compiled ones, so far.

What is measured of a run leaves it out: it is paid once per machine, or once per process, and says
nothing of the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from numba.core import event


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock and of the processor."""

    wall: float
    cpu: float

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.wall - other.wall, self.cpu - other.cpu)


def _now() -> Spent:
    return Spent(time.perf_counter(), time.process_time())


class Meter(event.Listener):
    """Adds up the times in which some thread holds numba's lock, or waits for it.

    The lock is taken to compile a kernel and to load a compiled one, and for nothing else.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._depth = 0
        self._since = Spent(0.0, 0.0)
        self._spent = Spent(0.0, 0.0)

    def on_start(self, event: event.Event) -> None:
        """A thread asks for the lock."""
        with self._guard:
            if self._depth == 0:
                self._since = _now()
            self._depth += 1

    def on_end(self, event: event.Event) -> None:
        """A thread has given the lock back."""
        with self._guard:
            self._depth -= 1
            if self._depth == 0:
                spell = _now() - self._since
                self._spent = Spent(self._spent.wall + spell.wall, self._spent.cpu + spell.cpu)

    @property
    def spent(self) -> Spent:
        """What the finished spells took together."""
        with self._guard:
            return self._spent


_meter = Meter()
event.register("numba:compiler_lock", _meter)


class Stopwatch:
    """What a piece of work took: `run` without compiling, `compiling` alone."""

    def __init__(self) -> None:
        self.run = self.compiling = Spent(0.0, 0.0)


@contextmanager
def timed() -> Iterator[Stopwatch]:
    """A context whose Stopwatch tells, once it is left, what the work inside took.

    >>> with timed() as took:
    ...     total = sum(range(1000))
    >>> took.run.wall > 0, took.compiling.wall
    (True, 0.0)
    """
    watch = Stopwatch()
    start, before = _now(), _meter.spent
    try:
        yield watch
    finally:
        watch.compiling = _meter.spent - before
        watch.run = _now() - start - watch.compiling
