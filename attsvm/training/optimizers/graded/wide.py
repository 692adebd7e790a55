"""Wide numbers: share × 2^power with an integer power, so that no product or sum leaves the range.

Share and power are arrays of one shape, float64 and int64. A number keeps its sixteen digits at
any size, which a logarithm does not: one near −900 rounds by 1e-13. Zero is the share 0.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import INNER, njit

Wide = tuple[Floats, Ints]

# The power of a zero where powers are compared; sums of several of them still fit an integer.
NONE = -(2**40)
# Shares further apart than this many powers of two do not meet in a sum.
APART = 1100
# log 2, and in two parts: k times the first is exact for |k| < 2^20.
_LOG2 = math.log(2.0)
_HIGH, _LOW = 0.693147180369123816490, 1.90821492927058770002e-10


def of_logs(signed: Floats, logs: Floats) -> Wide:
    """signed · e^logs, zero where logs is −inf; signed and logs of one shape."""
    live = (signed != 0) & (logs > -np.inf)
    logs = np.where(live, logs, 0.0)
    turns = np.floor(logs / _LOG2)
    share, extra = np.frexp(signed * np.exp(logs - turns * _HIGH - turns * _LOW))
    power = turns.astype(np.int64) + extra
    return np.where(live, share, 0.0), np.where(live, power, 0)


@njit(**INNER, forceinline=True)
def of_log(signed: float, log: float) -> tuple[float, int]:
    """signed · e^log for one number that is not zero and a finite log."""
    turns = math.floor(log / _LOG2)
    share, extra = math.frexp(signed * math.exp(log - turns * _HIGH - turns * _LOW))
    return share, turns + extra


def logs_of(share: Floats, power: Ints) -> Floats:
    """log |share 2^power|, −inf at zero."""
    with np.errstate(divide="ignore"):
        return np.log(np.abs(share)) + power * math.log(2.0)


def normal(share: Floats, power: Ints) -> Wide:
    """The same numbers with shares in ±[½, 1)."""
    share, extra = np.frexp(share)
    return share, np.where(share == 0, 0, power + extra)


@njit(**INNER)
def level(given: Floats, vectors: Floats, by: Ints, at: Ints, power: Ints) -> None:
    """Writes the given vectors (p, d), brought to largest entries in [½, 1) by powers of two.

    That is exact. The powers are given to the numbers that multiply them: power (K,), number k has
    vector at_k; by (p,) is room.
    """
    p, d = vectors.shape
    for i in range(p):
        most = 0.0
        for r in range(d):
            most = max(most, abs(given[i, r]))
        by[i] = math.frexp(most)[1]
        for r in range(d):
            vectors[i, r] = math.ldexp(given[i, r], -by[i])
    for k in range(len(at)):
        power[k] += by[at[k]]


@njit(**INNER, forceinline=True)
def shifted(x: float, by: int) -> float:
    """x · 2^by, zero when it is too small; by ≤ 1000."""
    return math.ldexp(x, by) if by > -APART else 0.0
