"""The one door to numba: `njit`, cached on disk where that is possible.

Compiled kernels are kept beside the source, or else in the user's cache folder, so that only the
first call on a machine pays for compiling. Where neither can be written (a read-only install run
by an account without a home) `numba.njit(cache=True)` refuses to define the function at all; here
the kernel is then compiled in memory, once per process.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numpy.typing import NDArray

from attsvm._utils.waiting import expect

F = TypeVar("F", bound=Callable[..., Any])
A = TypeVar("A", bound=NDArray[Any])

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
        seconds: about how long it takes to compile, where that is worth a word beforehand.
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
            expect(function, seconds)
        return kernel

    return compile_kernel


def plain(array: A) -> A:
    """The array itself when it is contiguous and can be written to, a copy of it otherwise.

    A kernel is compiled once for each kind of array it meets: this is the door that leaves one.
    """
    return array if array.flags.carray else array.copy()
