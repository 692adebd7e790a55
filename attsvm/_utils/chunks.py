"""A stack of instances cut into shares, each worked on by a thread of its own, with its memory.

For kernels that let other threads run beside them. A kernel made parallel by numba takes three
times as long to compile, and its team of threads waits at full speed on a busy machine; the threads
here wait asleep, and stay from one call to the next.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from numba import config

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
