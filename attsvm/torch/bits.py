"""What numba lacks inside kernels: the bits of a float32, products rounded once, far stores.

A far store writes to memory past the caches: a line that is only written need not be read first.
It asks that whole vectors are stored, from a start that is a multiple of `LINE` bytes on.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LINE = 64


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


def _store_far(context: Any, array: Any, i: Any, x: Any) -> Any:
    """array[i] = x past the caches; `drain` comes after the last one."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        start = context.make_array(signature.args[0])(context, builder, given[0]).data
        place = builder.gep(start, [given[1]], inbounds=True)
        # Said of each entry so that vectors of them may be stored; true of every vector's first.
        stored = builder.store(given[2], place, align=LINE)
        one = ir.Constant(ir.IntType(32), 1)
        stored.set_metadata("nontemporal", builder.module.add_metadata([one]))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.float32), generate


def _drain(context: Any) -> Any:
    """Waits until far stores are seen by every thread."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


bits_of: Any = intrinsic(_bits_of)
real_of: Any = intrinsic(_real_of)
fma: Any = intrinsic(_fma)
store_far: Any = intrinsic(_store_far)
drain: Any = intrinsic(_drain)
