"""What a kernel of many steps is given, what it changes and what it writes down.

B instances of n inputs; W (B, d, dq) is the one block of parameters, or several with one number
of columns, the rows of one below those of another. Kernels take these as they are: `fused` and
`factored_steps` for attention on Tokens, another one for sentences.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import INNER, njit


class Steps(NamedTuple):
    """The steps first, first + 1, … of sizes lr (K,); nan stands for a last look without a step.

    normalized: the gradient is divided by its norm. decay: λ of W ← W − η λ W.
    """

    lr: Floats
    normalized: bool
    decay: float
    first: int


class State(NamedTuple):
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
