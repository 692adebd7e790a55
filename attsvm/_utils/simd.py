"""Vectors of eight floats in compiled kernels, one register wide where the processor has such.

A loop over a stack of eight instances, or over eight neighbouring entries, becomes one operation
per step. LLVM lowers it to what the processor has: one register of 512 bits, two of 256, four of
128. The results are the same bits wherever fused multiply-add is exact, which IEEE 754 asks for.

    from attsvm._utils.simd import fma, load, splat, store
    total = splat(0.0)
    for k in range(n):  # A, x: arrays whose last axis has length 8
        total = fma(load(A, 8 * k), load(x, 8 * k), total)
    store(out, 0, total)

Offsets are those of the flat array, which must be contiguous. They are not checked.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from attsvm._utils.arrays import Floats
from attsvm._utils.compiled import njit

LANES = 8
# Below this, exp is 0.
LOWEST = -708.0
# Above this, floats are normal.
_LEAST = 2.2250738585072014e-308
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(64), LANES)
_BITS = ir.IntType(LANES)
# The bits of √½.
_HALF_ROOT = 0x3FE6A09E667F3BCD


class Lanes(types.Type):
    """The numba type of eight floats."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


_LANES = Lanes()


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """Eight floats are one LLVM vector."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)


def _intrinsic(build: Any) -> Any:
    """`numba.extending.intrinsic`, whose first argument callers do not give."""
    return intrinsic(build)


def _place(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _DOUBLES.as_pointer())


def _call(builder: Any, name: str, args: Any) -> Any:
    """The call of an LLVM intrinsic on vectors."""
    found = builder.module.globals.get(name)
    if found is None:
        found = ir.Function(builder.module, ir.FunctionType(_DOUBLES, [_DOUBLES] * len(args)), name)
    return builder.call(found, args)


def _operation(count: int, build: Any) -> Any:
    """The intrinsic of `count` vectors that `build(builder, args)` makes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return build(builder, args)

    if count == 1:
        return _intrinsic(lambda typing, x: (_LANES(_LANES), generate))
    if count == 2:
        return _intrinsic(lambda typing, x, y: (_LANES(_LANES, _LANES), generate))
    if count == 3:
        return _intrinsic(lambda typing, x, y, z: (_LANES(_LANES, _LANES, _LANES), generate))
    return _intrinsic(lambda typing, x, y, a, b: (_LANES(_LANES, _LANES, _LANES, _LANES), generate))


def aligned(shape: tuple[int, ...]) -> Floats:
    """Zeros that begin where a line of the cache does: no vector in them lies on two."""
    size = prod(shape)
    raw = np.zeros(size + LANES)
    first = -raw.ctypes.data // raw.itemsize % LANES
    return raw[first : first + size].reshape(shape)


add = _operation(2, lambda builder, args: builder.fadd(*args))
sub = _operation(2, lambda builder, args: builder.fsub(*args))
mul = _operation(2, lambda builder, args: builder.fmul(*args))
div = _operation(2, lambda builder, args: builder.fdiv(*args))
fma = _operation(3, lambda builder, args: _call(builder, "llvm.fma.v8f64", args))
minus = _operation(1, lambda builder, args: builder.fneg(*args))
absolute = _operation(1, lambda builder, args: _call(builder, "llvm.fabs.v8f64", args))
sqrt = _operation(1, lambda builder, args: _call(builder, "llvm.sqrt.v8f64", args))


def _larger(builder: Any, args: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", *args), *args)


def _smaller(builder: Any, args: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", *args), *args)


def _choose(builder: Any, args: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", *args[:2]), *args[2:])


def _turns(builder: Any, args: Any) -> Any:
    """k of x = m 2^k, √½ ≤ m < √2, as an integer."""
    bits = builder.bitcast(args[0], _INTEGERS)
    bits = builder.sub(bits, ir.Constant(_INTEGERS, [_HALF_ROOT] * LANES))
    return builder.ashr(bits, ir.Constant(_INTEGERS, [52] * LANES))


def _exponent(builder: Any, args: Any) -> Any:
    return builder.sitofp(_turns(builder, args), _DOUBLES)


def _mantissa(builder: Any, args: Any) -> Any:
    turns = builder.shl(_turns(builder, args), ir.Constant(_INTEGERS, [52] * LANES))
    return builder.bitcast(builder.sub(builder.bitcast(args[0], _INTEGERS), turns), _DOUBLES)


def _power(builder: Any, args: Any) -> Any:
    bits = builder.shl(builder.bitcast(args[0], _INTEGERS), ir.Constant(_INTEGERS, [52] * LANES))
    bits = builder.add(bits, ir.Constant(_INTEGERS, [1023 << 52] * LANES))
    return builder.bitcast(bits, _DOUBLES)


def _above(builder: Any, args: Any) -> Any:
    inside = builder.fcmp_ordered(">", args[0], ir.Constant(_DOUBLES, [LOWEST] * LANES))
    return builder.select(inside, args[1], ir.Constant(_DOUBLES, [0.0] * LANES))


larger = _operation(2, _larger)  # the second where one is NaN
smaller = _operation(2, _smaller)
choose = _operation(4, _choose)  # the third where the first is below the second, else the fourth
_exponent_of = _operation(1, _exponent)
_mantissa_of = _operation(1, _mantissa)
_two_to = _operation(1, _power)  # 2^k of k + _ROUND
_kept = _operation(2, _above)  # the second where the first is above LOWEST, else 0


@_intrinsic
def load(typing: Any, array: Any, offset: Any) -> Any:
    """Eight entries of the flat array from the offset on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_place(context, builder, signature.args[0], *args))
        found.align = 8
        return found

    return _LANES(array, types.intp), generate


@_intrinsic
def store(typing: Any, array: Any, offset: Any, x: Any) -> Any:
    """Writes eight entries of the flat array from the offset on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], place).align = 8
        return context.get_dummy_value()

    return types.none(array, types.intp, _LANES), generate


@_intrinsic
def repeat(typing: Any, array: Any, offset: Any) -> Any:
    """One entry of the flat array eight times."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return _splat(builder, builder.load(builder.gep(data, [args[1]])))

    return _LANES(array, types.intp), generate


def _splat(builder: Any, x: Any) -> Any:
    """The vector of one number."""
    none = ir.Constant(_DOUBLES, ir.Undefined)
    one = builder.insert_element(none, x, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, none, _places([0] * LANES))


def _places(order: list[int]) -> Any:
    """Places of entries in two vectors one after the other."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)


# Eight vectors become their transpose in three rounds: each pairs vectors a distance apart, and
# exchanges the blocks of that many entries.
_ROUNDS = (
    (1, [0, 8, 2, 10, 4, 12, 6, 14], [1, 9, 3, 11, 5, 13, 7, 15]),
    (2, [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]),
    (4, [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]),
)


@_intrinsic
def store_turned(
    typing: Any, source: Any, first: Any, step: Any, array: Any, offset: Any, row: Any
) -> Any:
    """Writes the transpose of eight vectors of a flat array, `step` entries apart from `first` on,
    to another one: eight entries at the offset, the next eight `row` entries further."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, first, step, array, offset, row = args
        rows = []
        for _ in range(LANES):
            found = builder.load(_place(context, builder, signature.args[0], source, first))
            found.align = 8
            first = builder.add(first, step)
            rows.append(found)
        for apart, low, high in _ROUNDS:
            for k in (k for k in range(LANES) if not k & apart):
                pair = rows[k], rows[k + apart]
                rows[k] = builder.shuffle_vector(*pair, _places(low))
                rows[k + apart] = builder.shuffle_vector(*pair, _places(high))
        for found in rows:
            place = _place(context, builder, signature.args[3], array, offset)
            builder.store(found, place).align = 8
            offset = builder.add(offset, row)
        return context.get_dummy_value()

    kinds = source, types.intp, types.intp, array, types.intp, types.intp
    return types.none(*kinds), generate


@_intrinsic
def splat(typing: Any, x: Any) -> Any:
    """The same number eight times."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splat(builder, args[0])

    return _LANES(types.float64), generate


@_intrinsic
def below(typing: Any, x: Any, y: Any) -> Any:
    """An integer whose bit k says whether x_k < y_k; 255: all are."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(builder.fcmp_ordered("<", *args), _BITS)
        return builder.zext(bits, ir.IntType(64))

    return types.int64(_LANES, _LANES), generate


@_intrinsic
def _first(typing: Any, x: Any) -> Any:
    """The first of the eight numbers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], ir.Constant(ir.IntType(32), 0))

    return types.float64(_LANES), generate


def _folded(combine: Any) -> Any:
    """The intrinsic that combines the halves of a vector until one number is left."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found, width = args[0], LANES // 2
        while width:
            none = ir.Constant(found.type, ir.Undefined)
            kind = ir.VectorType(ir.IntType(32), width)
            halves = [
                builder.shuffle_vector(found, none, ir.Constant(kind, list(range(k, k + width))))
                for k in (0, width)
            ]
            found = combine(builder, halves)
            width //= 2
        return builder.extract_element(found, ir.Constant(ir.IntType(32), 0))

    return _intrinsic(lambda typing, x: (types.float64(_LANES), generate))


sum_of = _folded(lambda builder, halves: builder.fadd(*halves))
largest_of = _folded(_larger)


# x = k log 2 + r: adding 1.5 · 2^52 rounds to the whole number k; log 2 in two parts.
_ROUND, _LOG2E = 1.5 * 2.0**52, 1 / math.log(2)
_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_C13, _C12, _C11, _C10, _C9, _C8 = (1 / math.factorial(k) for k in range(13, 7, -1))
_C7, _C6, _C5, _C4, _C3, _C2 = (1 / math.factorial(k) for k in range(7, 1, -1))


@njit(inline="always")
def exp(x: Any) -> Any:
    """e^x of x ≤ 700, within one unit in the last place; 0 below LOWEST."""
    inside = larger(x, splat(LOWEST))
    k = fma(inside, splat(_LOG2E), splat(_ROUND))
    whole = sub(k, splat(_ROUND))
    r = fma(whole, splat(-_LOG2_LOW), fma(whole, splat(-_LOG2_HIGH), inside))
    p = fma(splat(_C13), r, splat(_C12))
    p = fma(p, r, splat(_C11))
    p = fma(p, r, splat(_C10))
    p = fma(p, r, splat(_C9))
    p = fma(p, r, splat(_C8))
    p = fma(p, r, splat(_C7))
    p = fma(p, r, splat(_C6))
    p = fma(p, r, splat(_C5))
    p = fma(p, r, splat(_C4))
    p = fma(p, r, splat(_C3))
    p = fma(p, r, splat(_C2))
    p = fma(mul(p, r), r, r)
    scale = _two_to(k)
    return _kept(x, fma(p, scale, scale))


@njit(inline="always")
def exp_of(x: float) -> float:
    """e^x as `exp` gives it."""
    return _first(exp(splat(x)))


# log(1 + f) = f − f²/2 + s (f²/2 + R), s = f/(2 + f), R a polynomial in s².
_R7, _R6 = 1.479819860511658591e-01, 1.531383769920937332e-01
_R5, _R4 = 1.818357216161805012e-01, 2.222219843214978396e-01
_R3, _R2, _R1 = 2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01


@njit(inline="always")
def _log_parts(x: Any) -> Any:
    """log x = high + low of normal x > 0, high rounded from a sum whose error is in low."""
    k = _exponent_of(x)
    f = sub(_mantissa_of(x), splat(1.0))
    s = div(f, add(f, splat(2.0)))
    z = mul(s, s)
    p = fma(splat(_R7), z, splat(_R6))
    p = fma(p, z, splat(_R5))
    p = fma(p, z, splat(_R4))
    p = fma(p, z, splat(_R3))
    p = fma(p, z, splat(_R2))
    p = fma(p, z, splat(_R1))
    half = mul(mul(f, f), splat(0.5))
    whole = mul(k, splat(_LOG2_HIGH))
    high = add(whole, f)
    lost = add(sub(whole, high), f)
    low = fma(s, fma(p, z, half), mul(k, splat(_LOG2_LOW)))
    return high, add(lost, sub(low, half))


@njit(inline="always")
def log(x: Any) -> Any:
    """log x of normal x > 0, within two units in the last place."""
    high, low = _log_parts(x)
    return add(high, low)


@njit(inline="always")
def power(x: Any, exponent: Any) -> Any:
    """x^exponent of x ≥ 0 where it is at most e^700, within a few units in the last place; 0 where
    x is below the normal floats or the power below e^LOWEST."""
    high, low = _log_parts(x)
    logs = add(high, low)
    low = add(sub(high, logs), low)
    whole = mul(exponent, logs)
    rest = fma(exponent, low, fma(exponent, logs, minus(whole)))
    p = exp(whole)
    return choose(splat(_LEAST), x, fma(p, rest, p), splat(0.0))
