"""Compiled kernels: `njit`, cached on disk where that is possible, one notice, and their time.

Kernels are kept beside the source, or else in the user's cache folder, so that only the first call
on a machine pays for compiling. Where neither can be written (a read-only install run by an account
without a home) `numba.njit(cache=True)` refuses to define the function at all; here the kernel is
then compiled in memory, once per process.

Compiling takes seconds. A kernel that is known to take long says so on standard error when it
starts, others when two seconds have passed, once per process; worker processes give no notice, nor
does any when `ATTSVM_QUIET` is set or `silence` was called. `timed` measures work without this
time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from multiprocessing import parent_process
from typing import Any, TypeVar

import numba
from numba.core import event

# Seconds of compiling that pass without a notice.
PATIENCE = 2.0


class CompileWatch(event.Listener):
    """Listens to numba compiling this package's kernels, and gives at most one notice."""

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


_watch = CompileWatch()
event.register("numba:compile", _watch)


def silence() -> None:
    """No notice is given in this process from here on."""
    _watch.silent = True


F = TypeVar("F", bound=Callable[..., Any])

# Every kernel of the package that has been defined.
KERNELS: list[Any] = []

# Options of a kernel that Python calls and that asks for no memory of its own: it may run beside
# others, and only the way in from Python is compiled.
ENTRY = {"_nrt": False, "no_cfunc_wrapper": True, "nogil": True}
# The same for a kernel with a matrix product in it, which numba gives only with memory.
DOT_ENTRY = {"no_cfunc_wrapper": True, "nogil": True}
# Options of a kernel that only other kernels call: no way in from Python is compiled.
INNER = {"_nrt": False, "no_cfunc_wrapper": True, "no_cpython_wrapper": True}


def njit(*, cache: bool = True, seconds: float = 0.0, **options: Any) -> Callable[[F], F]:
    """Decorator that compiles a function with numba, cached where a cache can be written.

    Rounding is that of the source: fast-math stays off, so sums are never reordered.

    Args:
        cache: keep the compiled kernel on disk when a folder for it can be written.
        seconds: about how long it takes to compile, where a notice should come first.
        options: what `numba.njit` takes, such as `parallel=True`.

    >>> from attsvm._utils.compiled import njit
    >>> @njit()
    ... def half(x):
    ...     return x / 2
    >>> half(1.0)
    0.5
    """
    if options.get("fastmath"):
        raise ValueError("fastmath reorders sums and breaks rounding bounds; leave it out")

    def compile_kernel(function: F) -> F:
        try:
            kernel: F = numba.njit(cache=cache, **options)(function)
        except RuntimeError:
            # No place to keep compiled code. Any other cause is raised again by the line below.
            kernel = numba.njit(**options)(function)
        KERNELS.append(kernel)
        if seconds:
            _watch.expected[function] = seconds
        return kernel

    return compile_kernel


@dataclass
class Stopwatch:
    """Seconds that a piece of work took: `run` without compiling, `compiling` alone."""

    run: float = 0.0
    compiling: float = 0.0


@contextmanager
def timed() -> Iterator[Stopwatch]:
    """A context whose Stopwatch holds, once it is left, what the work inside took.

    Compiling is the time in which some thread holds numba's lock, or waits for it: the lock is
    taken to compile a kernel and to load a compiled one, and for nothing else.

    >>> with timed() as took:
    ...     total = sum(range(1000))
    >>> took.run > 0, took.compiling
    (True, 0.0)
    """
    watch, meter, start = Stopwatch(), event.TimingListener(), time.perf_counter()
    try:
        with event.install_listener("numba:compiler_lock", meter):
            yield watch
    finally:
        watch.compiling = meter.duration if meter.done else 0.0
        watch.run = time.perf_counter() - start - watch.compiling
