"""One line on standard error when compiling takes long, once per process.

Kernels are compiled at their first call on a machine, which takes seconds; without a word it looks
like a program that hangs. A kernel that is known to take long says so when it starts, others when
two seconds have gone by. Nothing is said in worker processes, nor when `ATTSVM_QUIET` is set or
`silence` was called.
"""

from __future__ import annotations

import os
import sys
import time
from math import ceil
from multiprocessing import parent_process
from typing import Any

from numba.core import event

# Seconds of compiling that pass without a word.
PATIENCE = 2.0


class Watch(event.Listener):
    """Listens to numba compiling this package's kernels, and speaks at most once."""

    def __init__(self) -> None:
        self.silent = False
        self.expected: dict[Any, float] = {}
        self._depth = 0
        self._start = 0.0
        self._spent = 0.0

    def on_start(self, event: event.Event) -> None:
        """A kernel begins to compile, alone or within another."""
        kernel = event.data["dispatcher"].py_func
        if not _ours(kernel):
            return
        if self._depth == 0:
            self._start = time.monotonic()
        self._depth += 1
        self._consider(self.expected.get(kernel, 0.0))

    def on_end(self, event: event.Event) -> None:
        """A kernel has been compiled."""
        if not _ours(event.data["dispatcher"].py_func):
            return
        self._depth -= 1
        if self._depth == 0:
            self._spent += time.monotonic() - self._start
            self._start = 0.0

    def _consider(self, expected: float) -> None:
        spent = self._spent + time.monotonic() - self._start
        seconds = max(expected, 2 * spent)
        if self.silent or max(expected, spent) <= PATIENCE:
            return
        self.silent = True
        if parent_process() is None and not os.environ.get("ATTSVM_QUIET") and sys.stderr:
            about = f"about {ceil(seconds)} s"
            print(f"attsvm: compiling kernels: once per machine, {about}", file=sys.stderr)


def _ours(kernel: Any) -> bool:
    """Whether a function is one of this package: users compile kernels of their own."""
    return str(kernel.__module__ or "attsvm.").startswith("attsvm.")


_watch = Watch()
event.register("numba:compile", _watch)


def expect(kernel: Any, seconds: float) -> None:
    """Lets a kernel (its plain function) be announced when it starts to compile."""
    _watch.expected[kernel] = seconds


def silence() -> None:
    """From here on nothing is said in this process."""
    _watch.silent = True
