"""One loop over dual variable, gradient and weight: u ← s u − η g, w ← sign(u)|u|^e, in float32.

The exponent e = 1/(P − 1) decides how |u|^e is computed:

whole    e = 2, …, 64 (P = 1 + 1/e): multiplications
root     e = ½ (P = 3): a square root
power    any other e: 2^(e log2|u|) by polynomials, within 6e-7 of the value
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.compiled import ENTRY, INNER, njit

Singles = NDArray[np.float32]
Step = Callable[[Singles, Singles, Singles, float, float], None]
F, I = np.float32, np.int32
# The largest exponent that is computed by multiplications.
MOST = 64
# The least float32 with a full mantissa; |u| below it counts as zero in a power.
LEAST = F(1.1754944e-38)
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
# The bits of √½: an exponent of two is counted from there.
_ROOT_HALF = I(0x3F3504F3)
_ONE, _HALF, _INFINITY = F(1.0), F(0.5), F(np.inf)


@njit(**ENTRY)
def _whole(u: Singles, g: Singles, w: Singles, lr: Any, shrink: Any, k: int) -> None:
    """The step with w = u |u|^k, |u|^k by the binary digits of k."""
    b0, b1, b2 = (k & 1) > 0, (k & 2) > 0, (k & 4) > 0
    b3, b4, b5 = (k & 8) > 0, (k & 16) > 0, (k & 32) > 0
    for i in range(u.size):
        x = u[i] * shrink - lr * g[i]
        u[i] = x
        a = abs(x)
        x *= a if b0 else _ONE
        a *= a
        x *= a if b1 else _ONE
        a *= a
        x *= a if b2 else _ONE
        a *= a
        x *= a if b3 else _ONE
        a *= a
        x *= a if b4 else _ONE
        a *= a
        x *= a if b5 else _ONE
        w[i] = x


@njit(**ENTRY)
def _root(u: Singles, g: Singles, w: Singles, lr: Any, shrink: Any) -> None:
    """The step with w = sign(u) √|u|."""
    for i in range(u.size):
        x = u[i] * shrink - lr * g[i]
        u[i] = x
        w[i] = np.copysign(np.sqrt(abs(x)), x)


@njit(**INNER, forceinline=True)
def _two_to(n: Any) -> Any:
    """2^n for −126 ≤ n ≤ 127."""
    return I(I(n + I(127)) << I(23)).view(F)


@njit(**INNER, forceinline=True)
def _power_of(a: Any, high: Any, low: Any, e: Any) -> Any:
    """a^e for a ≥ LEAST, e = high + low, where high has so few bits that its product is exact."""
    bits = F(a).view(I)
    of_two = I(I(bits - _ROOT_HALF) >> I(23))
    t = I(bits - I(of_two << I(23))).view(F) - _ONE
    L = (((_L0 * t + _L1) * t + _L2) * t + _L3) * t + _L4
    L = (((L * t + _L5) * t + _L6) * t + _L7) * t + _L8
    log2 = (L * (t * t * t) + (t - _HALF * (t * t))) * _OVER_LN2
    count = F(of_two)
    product = high * count
    first = (product + _ROUND) - _ROUND
    rest = (product - first) + (low * count + e * log2)
    second = (rest + _ROUND) - _ROUND
    f = rest - second
    E = ((_E0 * f + _E1) * f + _E2) * f + _E3
    E = ((E * f + _E4) * f + _E5) * f + _ONE
    n = I(min(max(first + second, F(-252.0)), F(254.0)))
    half = I(n >> I(1))
    return E * _two_to(half) * _two_to(I(n - half))


@njit(**ENTRY)
def _power(u: Singles, g: Singles, w: Singles, lr: Any, shrink: Any, parts: Any) -> None:
    """The step with w = sign(u)|u|^e, parts = (high, low, e)."""
    high, low, e = parts
    for i in range(u.size):
        x = u[i] * shrink - lr * g[i]
        u[i] = x
        a = abs(x)
        y = _power_of(a, high, low, e)
        y = y if a >= LEAST else F(0.0)
        y = y if a < _INFINITY else a  # also where a is NaN
        w[i] = np.copysign(y, x)


@cache
def step_of(p: float) -> Step:
    """step(u, g, w, lr, shrink) in place on flat arrays."""
    e = 1 / (p - 1)
    k = round(e)
    if 2 <= k <= MOST and abs(e - k) < 1e-12 * e:
        return lambda u, g, w, lr, shrink: _whole(u, g, w, F(lr), F(shrink), k - 1)
    if e == 0.5:
        return lambda u, g, w, lr, shrink: _root(u, g, w, F(lr), F(shrink))
    high = np.round(e * 256) / 256
    parts = (F(high), F(e - high), F(e))
    return lambda u, g, w, lr, shrink: _power(u, g, w, F(lr), F(shrink), parts)
