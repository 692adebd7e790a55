"""What the kernels that take many steps in one call have in common: their arguments, the losses.

The model has a fixed linear head, so nothing is pooled: y v·o = y v·x_a − δ. The gradient is that
of `attention`. What depends on the top token alone (key differences, score differences, ties) is
kept from step to step and made again when that token changes. Their twin is `train`'s own loop,
which evaluates and steps with whole arrays.

B instances of n inputs; W (B, d, dq) is the one block of parameters, or several with one number
of columns, the rows of one below those of another. Every kernel of many steps, that for sentences
as well, takes `StepSizes`, `RunState` and `Log`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.compiled import INNER, njit


class StepSizes(NamedTuple):
    """The steps first, first + 1, … of sizes lr (K,); nan stands for a last look without a step.

    normalized: the gradient is divided by its norm. decay: λ of W ← W − η λ W.
    """

    lr: Floats
    normalized: bool
    decay: float
    first: int


class RunState(NamedTuple):
    """Where a run stands, changed in place: W (B, d, dq), clock (B,), top (B, n): the top tokens,
    −1 before the first step, and changed (B, n): the steps at which they changed last."""

    W: Floats
    clock: Floats
    top: Ints
    changed: Ints


class Log(NamedTuple):
    """The records of a run, written: weights (R, B, d, dq), columns (R, 3, B) with loss, log ‖g‖
    and clock, tops and top_attention (R, B, n). at (R,): which steps they are of, counted from the
    first one of the call."""

    at: Ints
    weights: Floats
    columns: Floats
    tops: Ints
    top_attention: Floats


@njit(**INNER, forceinline=True)
def log_add(x: float, y: float) -> float:
    """log(e^x + e^y)."""
    if x == y:
        return x + math.log(2.0)
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


# The losses the kernel knows, by their place.
CODES = ("logistic", "exponential", "linear", "squared")
SQUARED = 3
# Matrices and margins beyond this are left to the loop that tells where floats end.
FAR = 1e150
# Exponential losses are floats for margins above this, and e^x for x below it with the sign turned.
LOWEST = -700.0
# Rounding of a logit, in units of d · max |key| · Σ |w|.
ROUND = 8 * 2.0**-52
# Up to this margin 1 + e^x is a float with room to spare.
MODERATE = 100.0


class Instances(NamedTuple):
    """B instances: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq), present (B, n, T),
    labels (B, n), heads v (B, e), code, the place of their loss in CODES, and short (B, n, T) of
    `shortfall` for the squared loss."""

    keys: Floats
    values: Floats
    queries: Floats
    present: Bools
    labels: Floats
    v: Floats
    code: int
    short: Floats


@njit(_nrt=False, forceinline=True)
def _softplus(x: float) -> float:
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(_nrt=False, forceinline=True)
def value_of(code: int, x: float) -> float:
    """ℓ(x) of the loss with this code; for the squared loss x is less by 1, see `Looked`."""
    if code == 0:
        return _softplus(-x)
    if code == 1:
        return math.exp(-x)
    if code == 2:
        return -x
    return 0.5 * (x * x)


@njit(_nrt=False, forceinline=True)
def slope_of(code: int, x: float) -> tuple[float, float]:
    """(f, g) with ℓ'(x) = f e^g of the loss with this code, not the squared one; f is within
    e^±MODERATE."""
    if code == 0:
        if abs(x) <= MODERATE:
            return -1.0 / (1.0 + math.exp(x)), 0.0
        return -1.0, -_softplus(x)
    if code == 1:
        return -1.0, -x
    return -1.0, 0.0
