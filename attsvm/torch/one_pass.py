"""One pass over dual variable, gradient and weight: u ← s u − η g, w ← sign(u)|u|^e.

For float32 arrays in the memory of the processor. The exponent e = 1/(P − 1) decides how:

whole    e = 1, 2, …, 64 (P = 1 + 1/e): at most six multiplications, chosen by the bits of e − 1
root     e = ½ (P = 3): a square root
power    any other e: |u|^e = 2^(e log2|u|) by polynomials, within 4e-7 of the value

Streams of memory are the cost, and every way looks in its one pass whether g is finite:

near      u and w in place, for what stays in the caches
far       u in place; w is only written, so it goes past the caches and is never fetched
beside    the new u beside the old one, both past the caches: the old u is the way back

`twin` does the same with NumPy alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm.ground.compiled import ENTRY, INNER, njit
from attsvm.torch.bits import LINE, bits_of, drain, fma, real_of, store_far

Singles = NDArray[np.float32]
F, I = np.float32, np.int32

NEAR, FAR, BESIDE = 0, 1, 2
# The largest whole exponent that is done by multiplications.
MOST = 64
# The least float32 with a full mantissa; |u| below it counts as zero in a power.
LEAST = F(1.1754944e-38)
# The bits of an infinite or not defined float32 that a finite one never has all of.
_EXPONENT = I(0x7F800000)
_SIGN = I(-0x80000000)

# log2(1 + t) = (t − t²/2 + t³ L(t)) / ln 2 for 1 + t in [√½, √2].
_L0, _L1, _L2 = F(7.0376836292e-2), F(-1.1514610310e-1), F(1.1676998740e-1)
_L3, _L4, _L5 = F(-1.2420140846e-1), F(1.4249322787e-1), F(-1.6668057665e-1)
_L6, _L7, _L8 = F(2.0000714765e-1), F(-2.4999993993e-1), F(3.3333331174e-1)
_OVER_LN2 = F(1.4426950408889634)
# 2^f = 1 + f (E5 + f (E4 + …)) for |f| ≤ ½.
_E0, _E1, _E2 = F(1.535336188319500e-4), F(1.339887440266574e-3), F(9.618437357674640e-3)
_E3, _E4, _E5 = F(5.550332471162809e-2), F(2.402264791363012e-1), F(6.931472028550421e-1)
# Adding and subtracting it rounds a float32 below 2²² to a whole number.
_ROUND = F(12582912.0)
# The bits of 1/√2 rounded: below it an exponent is counted one lower.
_ROOT_HALF = I(0x3F3504F3)
_ONE, _HALF = F(1.0), F(0.5)


@njit(**INNER, forceinline=True)
def _not_finite(x: Any) -> Any:
    """1 for an infinity or NaN, 0 otherwise."""
    return I(I(bits_of(x) & _EXPONENT) == _EXPONENT)


@njit(**INNER, forceinline=True)
def _times(x: Any, b0: bool, b1: bool, b2: bool, b3: bool, b4: bool, b5: bool) -> Any:
    """x |x|^k for k with these bits."""
    a, out = abs(x), x
    out *= a if b0 else _ONE
    a = a * a
    out *= a if b1 else _ONE
    a = a * a
    out *= a if b2 else _ONE
    a = a * a
    out *= a if b3 else _ONE
    a = a * a
    out *= a if b4 else _ONE
    a = a * a
    out *= a if b5 else _ONE
    return out


@njit(**INNER, forceinline=True)
def _put(i: int, x: Any, y: Any, u: Singles, new: Singles, w: Singles, way: int) -> None:
    """Entry i of the dual variable and of w, as `way` says."""
    if way == BESIDE:
        store_far(new, i, x)
        store_far(w, i, y)
    elif way == FAR:
        u[i] = x
        store_far(w, i, y)
    else:
        u[i] = x
        w[i] = y


@njit(**INNER, forceinline=True)
def _whole_by(
    u: Singles, g: Singles, new: Singles, w: Singles, lr: Any, shrink: Any, way: int, k: int
) -> bool:
    """The step with w = u |u|^k; whether g is finite."""
    b0, b1, b2 = (k & 1) > 0, (k & 2) > 0, (k & 4) > 0
    b3, b4, b5 = (k & 8) > 0, (k & 16) > 0, (k & 32) > 0
    found = I(0)
    for i in range(u.size):
        x = u[i] * shrink - lr * g[i]
        found = I(found | _not_finite(g[i]))
        _put(i, x, _times(x, b0, b1, b2, b3, b4, b5), u, new, w, way)
    return bool(found == I(0))


@njit(**ENTRY)
def whole(
    u: Singles, g: Singles, new: Singles, w: Singles, lr: Any, shrink: Any, way: int, k: int
) -> bool:
    """The step with w = u |u|^k; whether g is finite."""
    if way == NEAR:
        return _whole_by(u, g, u, w, lr, shrink, NEAR, k)
    if way == FAR:
        fine = _whole_by(u, g, u, w, lr, shrink, FAR, k)
    else:
        fine = _whole_by(u, g, new, w, lr, shrink, BESIDE, k)
    drain()
    return fine


@njit(**INNER, forceinline=True)
def _root(x: Any) -> Any:
    """sign(x) √|x|."""
    return real_of(I(bits_of(F(np.sqrt(abs(x)))) | I(bits_of(x) & _SIGN)))


@njit(**INNER, forceinline=True)
def _root_by(
    u: Singles, g: Singles, new: Singles, w: Singles, lr: Any, shrink: Any, way: int
) -> bool:
    """The step with w = sign(u) √|u|; whether g is finite."""
    found = I(0)
    for i in range(u.size):
        x = u[i] * shrink - lr * g[i]
        found = I(found | _not_finite(g[i]))
        _put(i, x, _root(x), u, new, w, way)
    return bool(found == I(0))


@njit(**ENTRY)
def root(u: Singles, g: Singles, new: Singles, w: Singles, lr: Any, shrink: Any, way: int) -> bool:
    """The step with w = sign(u) √|u|; whether g is finite."""
    if way == NEAR:
        return _root_by(u, g, u, w, lr, shrink, NEAR)
    if way == FAR:
        fine = _root_by(u, g, u, w, lr, shrink, FAR)
    else:
        fine = _root_by(u, g, new, w, lr, shrink, BESIDE)
    drain()
    return fine


@njit(**INNER, forceinline=True)
def _power(a: Any, high: Any, low: Any, e: Any) -> Any:
    """a^e for a ≥ LEAST, e = high + low where high has few bits.

    e log2 a = e·(exponent of a) + e·log2(mantissa); the first is exact in `high`, and its whole
    part goes straight into the exponent of the result.
    """
    bits = bits_of(a)
    of_two = I(I(bits - _ROOT_HALF) >> I(23))
    t = real_of(I(bits - I(of_two << I(23)))) - _ONE
    square = t * t
    fourth = square * square
    # The polynomial by pairs of pairs, so that no product waits for all others.
    top = fma(fma(_L0, t, _L1), square, fma(_L2, t, _L3))
    bottom = fma(fma(_L5, t, _L6), square, fma(_L7, t, _L8))
    L = fma(fma(top, t, _L4), fourth, bottom)
    log2 = fma(L, square * t, fma(-_HALF, square, t)) * _OVER_LN2
    count = F(of_two)
    product = high * count
    first = (product + _ROUND) - _ROUND
    rest = (product - first) + fma(low, count, e * log2)
    second = (rest + _ROUND) - _ROUND
    f = rest - second
    upper = fma(fma(_E0, f, _E1), f * f, fma(_E2, f, _E3))
    E = fma(upper, f * f * f, fma(fma(_E4, f, _E5), f, _ONE))
    exponent = first + second
    exponent = exponent if exponent > F(-252.0) else F(-252.0)
    exponent = exponent if exponent < F(254.0) else F(254.0)
    whole_part = I(exponent)
    half = I(whole_part >> I(1))
    one = real_of(I(I(half + I(127)) << I(23)))
    other = real_of(I(I(I(whole_part - half) + I(127)) << I(23)))
    return E * one * other


@njit(**INNER, forceinline=True)
def _signed(x: Any, high: Any, low: Any, e: Any) -> Any:
    """sign(x)|x|^e."""
    a = abs(x)
    r = _power(a, high, low, e)
    r = r if a >= LEAST else F(0.0)
    return real_of(I(bits_of(r) | I(bits_of(x) & _SIGN)))


@njit(**INNER, forceinline=True)
def _power_by(
    u: Singles, g: Singles, new: Singles, w: Singles, lr: Any, shrink: Any, way: int, parts: Any
) -> bool:
    """The step with w = sign(u)|u|^e, parts = (high, low, e = high + low); whether g is finite."""
    high, low, e = parts
    found = I(0)
    for i in range(u.size):
        x = u[i] * shrink - lr * g[i]
        found = I(found | _not_finite(g[i]))
        _put(i, x, _signed(x, high, low, e), u, new, w, way)
    return bool(found == I(0))


@njit(**ENTRY)
def power(
    u: Singles, g: Singles, new: Singles, w: Singles, lr: Any, shrink: Any, way: int, parts: Any
) -> bool:
    """The step with w = sign(u)|u|^e, parts = (high, low, e = high + low); whether g is finite."""
    if way == NEAR:
        return _power_by(u, g, u, w, lr, shrink, NEAR, parts)
    if way == FAR:
        fine = _power_by(u, g, u, w, lr, shrink, FAR, parts)
    else:
        fine = _power_by(u, g, new, w, lr, shrink, BESIDE, parts)
    drain()
    return fine


@njit(**ENTRY)
def all_finite(bits: NDArray[np.int32]) -> bool:
    """Whether the float32 numbers with these bits are finite; four streams at once."""
    n = bits.size // 4
    a, b, c, d = bits[:n], bits[n : 2 * n], bits[2 * n : 3 * n], bits[3 * n :]
    found = I(0)
    for i in range(n):
        bad = I(a[i] & _EXPONENT) == _EXPONENT
        bad |= I(b[i] & _EXPONENT) == _EXPONENT
        bad |= I(c[i] & _EXPONENT) == _EXPONENT
        bad |= I(d[i] & _EXPONENT) == _EXPONENT
        found = I(found | I(bad))
    for i in range(n, d.size):
        found = I(found | I(I(d[i] & _EXPONENT) == _EXPONENT))
    return bool(found == I(0))


def step(
    u: Singles,
    g: Singles,
    w: Singles,
    *,
    lr: float,
    shrink: float,
    p: float,
    far: bool = False,
) -> bool:
    """The step in place on flat arrays; whether g is finite. Where it is not, u and w are not.

    far: w is written past the caches, where it begins at a multiple of bits.LINE bytes.
    """
    kernel, numbers = _kernel(p)
    way = FAR if far and _on_lines(w) else NEAR
    return bool(kernel(u, g, u, w, F(lr), F(shrink), way, *numbers))


def step_beside(
    u: Singles, g: Singles, new: Singles, w: Singles, *, lr: float, shrink: float, p: float
) -> bool:
    """The step on flat arrays, u left as it is and the new one in `new`; whether g is finite.

    `step` with lr = 0 and shrink = 1 gives the w of u again, bit by bit. Raises ValueError unless
    new and w begin at multiples of bits.LINE bytes.
    """
    if not _on_lines(new, w):
        raise ValueError(f"new and w must begin at multiples of {LINE} bytes")
    kernel, numbers = _kernel(p)
    return bool(kernel(u, g, new, w, F(lr), F(shrink), BESIDE, *numbers))


def _on_lines(*arrays: Singles) -> bool:
    """Whether all of them begin where far stores may."""
    return all(x.size == 0 or x.ctypes.data % LINE == 0 for x in arrays)


@cache
def _kernel(p: float) -> tuple[Any, tuple[Any, ...]]:
    """The kernel for an exponent, and the numbers it asks for last."""
    e = 1 / (p - 1)
    near = round(e)
    if 1 <= near <= MOST and abs(e - near) < 1e-12 * e:
        return whole, (near - 1,)
    if e == 0.5:
        return root, ()
    high = np.round(e * 256) / 256
    return power, ((F(high), F(e - high), F(e)),)


def twin(u: Singles, g: Singles, w: Singles, *, lr: float, shrink: float, p: float) -> None:
    """What `step` does, with NumPy and in double precision, rounded once."""
    x = u * F(shrink) - F(lr) * g
    u[...] = x
    with np.errstate(over="ignore", under="ignore"):
        w[...] = np.sign(x) * np.abs(x.astype(np.float64)) ** (1 / (p - 1))
