"""How kernels are compiled and run: options, shares of a stack on threads.

Memory is made in Python and handed to kernels: those that make no arrays need not count references
to them, which costs as much as the sums of a small input. A kernel made parallel by numba takes
three times as long to compile, and its team of threads waits at full speed on a busy machine; here
a stack is cut into shares instead, each worked on by the same serial kernel on a thread of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from numba import config

T = TypeVar("T")

# For what Python calls: other threads run beside it.
KERNEL: dict[str, Any] = {"nogil": True, "_nrt": False, "no_cfunc_wrapper": True}
# For what only kernels call: it has no door for Python, which takes time to compile, so a call from
# Python would end the process.
BARE: dict[str, Any] = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# The same, made part of its callers.
HOT: dict[str, Any] = BARE | {"forceinline": True}


def in_shares(work: Callable[[int, int], T], size: int, least: int = 1) -> list[T]:
    """What work(begin, end) gives on each share of range(size), none smaller than `least`.

    As many shares as NUMBA_NUM_THREADS says, or cores.

    >>> in_shares(lambda begin, end: list(range(begin, end)), 2, least=2)
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
