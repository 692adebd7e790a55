"""The bits of a float32 inside kernels, and products that are rounded once."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


def _bits_of(context: Any, x: Any) -> Any:
    """The bits of a float32 as an int32."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], context.get_value_type(types.int32))

    return types.int32(types.float32), generate


def _real_of(context: Any, x: Any) -> Any:
    """The float32 of these bits."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], context.get_value_type(types.float32))

    return types.float32(types.int32), generate


def _fma(context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.fma(*given)

    single = types.float32
    return single(single, single, single), generate


bits_of: Any = intrinsic(_bits_of)
real_of: Any = intrinsic(_real_of)
fma: Any = intrinsic(_fma)
