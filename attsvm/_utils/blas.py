"""One thread for small linear algebra.

OpenBLAS shares out even tiny products and factorizations, those inside SciPy's optimizers among
them, between threads that then wait for each other at full speed: on a busy machine that takes
many times as long as the work.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import scipy

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
