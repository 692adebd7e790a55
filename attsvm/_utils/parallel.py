"""Threads and processes: small linear algebra, shares of a stack, and guarded scripts.

OpenBLAS shares out even tiny products between threads that then wait for each other at full speed:
on a busy machine that takes many times as long as the work. A kernel that numba makes parallel
takes three times as long to compile, and its threads wait in the same way; the threads of
`map_chunks` wait asleep, and stay from one call to the next.

A fresh process first loads the script that it was started from. Lines that start processes and do
not stand under `if __name__ == '__main__':` are reached there too, and would start more.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any, TypeVar

import scipy
from numba import config
from threadpoolctl import ThreadpoolController

from attsvm.errors import Unsupported


@cache
def _libraries() -> ThreadpoolController:
    """The copies of OpenBLAS in this process; none of another library."""
    _ = scipy.linalg  # loaded now, so that its copy is there to be found
    return ThreadpoolController().select(internal_api="openblas")


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which linear algebra uses one thread, where that can be set."""
    with _libraries().limit(limits=1):
        yield


T = TypeVar("T")

# Threads that `map_chunks` shares work among, where it was said how many.
_ASKED: ContextVar[int | None] = ContextVar("threads", default=None)


@contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """A context in which `map_chunks` has so many threads; None leaves it as it is."""
    if count is None:
        yield
        return
    token = _ASKED.set(count)
    try:
        yield
    finally:
        _ASKED.reset(token)


def map_chunks(work: Callable[[int, int], T], size: int, least: int = 1) -> list[T]:
    """What work(begin, end) gives on each share of range(size), none smaller than `least`.

    As many shares as `using_threads` says, else NUMBA_NUM_THREADS, else cores.

    >>> map_chunks(lambda begin, end: list(range(begin, end)), 2, least=2)
    [[0, 1]]
    """
    most: int = _ASKED.get() or config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
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


GUARD = (
    "processes run the lines of the script that starts them again: put these under "
    "if __name__ == '__main__':, or ask for one process"
)


def leave_unguarded() -> None:
    """Ends the process where it is one that is loading the script it was started from."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)


@contextmanager
def guarded() -> Iterator[None]:
    """A context in which a broken pool is one sentence."""
    try:
        yield
    except BrokenExecutor:
        raise Unsupported(f"a process ended: is there enough memory? Or {GUARD}") from None
