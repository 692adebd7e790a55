"""Arrays from outside, checked: numbers, whole numbers, and a range that squares can bear."""

from __future__ import annotations

import math
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.memory import require
from attsvm.errors import AttsvmError, BadTokens

A = TypeVar("A", bound=NDArray[Any])

Floats = NDArray[np.float64]

Bools = NDArray[np.bool_]

Ints = NDArray[np.int64]

# A whole number of a compiled loop. There a bare 0 is a type of its own, np.int64(0) is not.
Int = int | np.int64

Bool = bool | np.bool_

# Entries beyond this overflow in the product of four factors that the Gram needs.
LARGEST = 1e75
# An array without an entry as large as this underflows there, and a row of it would pass for zero.
SMALLEST = 1e-75
# Values checked at once: a boolean copy of a whole memory map would not be free.
BLOCK = 1 << 24


def rectangular(array: Any, name: str, kind: type[AttsvmError] = BadTokens) -> NDArray[Any]:
    """The array as it is; `kind` is the error for lists of unequal lengths."""
    try:
        return _there(np.asarray(array), name)
    except (ValueError, TypeError, OverflowError) as error:
        raise kind(f"{name} is not a rectangular array ({error})") from error


def _there(values: NDArray[Any], name: str) -> NDArray[Any]:
    """The array as it is; raises TooLarge for a broadcast one too large to be written out."""
    if values.nbytes > BLOCK and 0 in values.strides:
        require(values.nbytes, name)
    return values


@runtime_checkable
class Tensor(Protocol):
    """What other libraries keep arrays in, on some device and with a gradient perhaps."""

    def detach(self) -> Any: ...
    def cpu(self) -> Any: ...


def detached(array: Any) -> Any:
    """A tensor as an array on this machine; anything else as it is."""
    if not isinstance(array, Tensor):
        return array
    held = array.detach().cpu()
    try:
        return held.numpy()
    except TypeError:  # a type of float that NumPy does not have
        return held.float().numpy()


def numbers(array: Any, name: str) -> NDArray[Any]:
    """The array as float64 (float32 stays), of real numbers; NaN and infinities pass."""
    if type(array) is np.ndarray and array.dtype == np.float64:
        return _there(array, name)
    if isinstance(array, np.ma.MaskedArray):
        raise BadTokens(f"{name} is a masked array; fill it, and give absent tokens as mask")
    values = rectangular(array, name)
    if values.dtype == np.float64 or values.dtype == np.float32:
        return values
    if values.dtype.kind not in "iufb":
        raise BadTokens(f"{name} has type {values.dtype}; it must hold real numbers")
    with np.errstate(over="ignore"):  # a wider float beyond float64 becomes inf
        return values.astype(np.float64)


def floats(array: Any, name: str) -> NDArray[Any]:
    """The array as float64 (float32 stays), every entry finite and not too large."""
    values = numbers(array, name)
    flat = values.reshape(-1) if values.flags.c_contiguous else values
    step = BLOCK if flat.ndim == 1 else len(flat)
    size = 0.0  # the root of the sum of squares of a block bounds its entries, in one pass
    for start in range(0, flat.size and len(flat), step):
        block = flat[start : start + step]
        # Unlike dot, vdot does not warn of an overflow, which only means: look closer.
        square = float(np.vdot(block, block)) if block.ndim == 1 else np.inf
        if square <= LARGEST**2:
            size = max(size, math.sqrt(square))
            continue
        # NaN passes through min and max, and comparisons with it are False.
        high, low = float(block.max()), float(block.min())
        size = max(size, high, -low)
        if not (high <= LARGEST and low >= -LARGEST):
            wrong = ~(np.abs(block.astype(np.float64)) <= LARGEST)
            place = start + int(wrong.argmax())
            index = tuple(int(i) for i in np.unravel_index(place, values.shape))
            raise BadTokens(
                f"{name}[{', '.join(map(str, index))}] is {values[index]}: "
                f"entries must be finite and below {LARGEST:g}"
            )
    if size < SMALLEST and bool(values.any()):
        raise BadTokens(f"{name} has no entry above {SMALLEST:g}: multiply it by a constant")
    return values


def whole(array: Any, name: str, kind: type[AttsvmError] = BadTokens) -> NDArray[Any]:
    """The array of whole numbers, in the type it came in; `kind` is the error to raise."""
    values = rectangular(array, name, kind)
    if values.dtype.kind not in "iu" and not (
        values.dtype.kind == "f"
        and bool(np.isfinite(values).all())
        and bool((values == np.round(values)).all())
    ):
        raise kind(f"{name} must hold whole numbers, not {_sample(values)}")
    return values


def _sample(values: NDArray[Any]) -> str:
    """What an array holds instead of whole numbers."""
    if values.dtype.kind != "f":
        return f"type {values.dtype}"
    wrong = ~np.isfinite(values) | (values != np.round(values))
    return str(values[wrong][0])


def vector(v: Any, d: int) -> Floats:
    """A head's vector (d,), checked."""
    head = floats(v, "v").astype(np.float64, copy=False)
    if head.shape != (d,):
        raise BadTokens(f"v has shape {head.shape}; it must be ({d},) like the tokens' features")
    return head


# Splits a float into two halves of 26 digits, whose products are exact.
_SPLIT = 2.0**27 + 1.0


def exact_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """x y as the nearest float and the rest, also a float; the rest is not finite out of range."""
    high = x * y
    with np.errstate(over="ignore", invalid="ignore"):
        (x, dx), (y, dy) = _halves(x), _halves(y)
        return high, ((x * y - high) + x * dy + dx * y) + dx * dy


def _halves(x: Floats) -> tuple[Floats, Floats]:
    wide = _SPLIT * x
    top = wide - (wide - x)
    return top, x - top


def plain(array: A) -> A:
    """The array itself when it is contiguous and can be written to, a copy of it otherwise.

    A kernel is compiled once for each kind of array it meets: this leaves one.
    """
    return array if array.flags.carray else array.copy()
