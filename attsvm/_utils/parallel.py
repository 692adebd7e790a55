"""Threads and processes: small linear algebra, shares of a stack, and guarded scripts.

OpenBLAS shares out even tiny products between threads that then wait for each other at full speed:
on a busy machine that takes many times as long as the work. A kernel that numba makes parallel
takes three times as long to compile, and its threads wait in the same way; the threads of
`map_chunks` wait asleep, and stay from one call to the next.

A fresh process first loads the script that it was started from. Lines that start processes and do
not stand under `if __name__ == '__main__':` are reached there too, and would start more.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

import scipy
from numba import config

from attsvm.errors import Unsupported

# Modules that OpenBLAS was linked to: NumPy's copy, and SciPy's.
_LINKED = ("numpy._core._multiarray_umath", "scipy.linalg.cython_blas")

Switch = tuple[Callable[[], int], Callable[[int], Any]]


@cache
def _switches() -> list[Switch]:
    """How to read and to set the threads of each copy of OpenBLAS; none of another library."""
    _ = scipy.linalg  # loaded now, so that its copy is there to be found
    found = []
    for name in _LINKED:
        try:
            library = ctypes.CDLL(sys.modules[name].__file__)
        except (OSError, KeyError):
            continue
        for prefix in ("scipy_openblas", "openblas"):
            for suffix in ("", "64_"):
                try:
                    read = getattr(library, f"{prefix}_get_num_threads{suffix}")
                    write = getattr(library, f"{prefix}_set_num_threads{suffix}")
                except AttributeError:
                    continue
                found.append((read, write))
    return found


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which linear algebra uses one thread, where that can be set."""
    before = [(read(), write) for read, write in _switches()]
    for _, write in before:
        write(1)
    try:
        yield
    finally:
        for count, write in before:
            write(count)


T = TypeVar("T")


def map_chunks(work: Callable[[int, int], T], size: int, least: int = 1) -> list[T]:
    """What work(begin, end) gives on each share of range(size), none smaller than `least`.

    As many shares as NUMBA_NUM_THREADS says, or cores.

    >>> map_chunks(lambda begin, end: list(range(begin, end)), 2, least=2)
    [[0, 1]]
    """
    most: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    count = max(1, min(most, size // least))
    if count == 1:
        return [work(0, size)]
    edges = [size * k // count for k in range(count + 1)]
    others = [
        _pool(os.getpid(), count - 1).submit(work, *edges[k : k + 2]) for k in range(1, count)
    ]
    return [work(0, edges[1]), *(share.result() for share in others)]


@lru_cache(maxsize=1)
def _pool(process: int, count: int) -> ThreadPoolExecutor:
    """Threads that wait asleep; a process made by forking has none of its parent's."""
    return ThreadPoolExecutor(count)


# What each thread keeps, and the most that the sizes of memory worth keeping add up to: making it
# again would take as long as a small kernel.
_KEPT = threading.local()
_SMALL = 1000


def memory(make: Callable[..., T], *sizes: int) -> T:
    """make(*sizes), or what it made for this thread last time if that has the same small sizes.

    For arrays that a kernel writes before it reads: what is in them is left from another call.

    >>> memory(list) is memory(list)
    True
    """
    kept: dict[Any, Any] = _KEPT.__dict__
    last = kept.get(make)
    if last is not None and last[0] == sizes:
        found: T = last[1]
        return found
    made = make(*sizes)
    if sum(sizes) <= _SMALL:
        kept[make] = sizes, made
    return made


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
