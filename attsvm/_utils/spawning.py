"""Processes that a script starts: each runs the script's own lines again, unless they are guarded.

A fresh process first loads the script that it was started from. Lines that start processes and do
not stand under `if __name__ == '__main__':` are reached there too, and would start more.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

from attsvm.errors import Unsupported

# The exit code of a process that was about to start others while it loads the script.
_UNGUARDED = 97
# Seconds in which the exit code of a process that is ending can be read.
_PATIENCE = 5.0
GUARD = (
    "processes run the lines of the script that starts them again: put these under "
    "if __name__ == '__main__':, or ask for one process"
)


def leave_unguarded() -> None:
    """Ends the process where it is one that is loading the script it was started from."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(_UNGUARDED)


def unguarded(workers: Mapping[int, BaseProcess]) -> bool:
    """Whether one of these processes, which are ending, ended for want of a guard."""
    return any(_exit_code(process) == _UNGUARDED for process in workers.values())


def _exit_code(process: BaseProcess) -> int | None:
    """The exit code of a process that is ending.

    The pool's own thread may be the one that collects it, a moment before it can be read here.
    """
    deadline = time.monotonic() + _PATIENCE
    while process.exitcode is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return process.exitcode


@contextmanager
def guarded(executor: Executor) -> Iterator[None]:
    """A context in which a pool that breaks for want of a guard says so."""
    try:
        yield
    except BrokenExecutor:
        if unguarded(dict(getattr(executor, "_processes", None) or {})):
            raise Unsupported(GUARD) from None
        raise
