"""One look at W: the margin of one input and what it adds to the gradient, for the fused kernel.

What depends on the top token alone (key differences, score differences, ties) is kept from step to
step and made again when that token changes. The head is linear and fixed, so nothing is pooled:
y v·o = y v·x_a − δ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm.ground.arrays import Bools, Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.models.gradient.one_input import distinct, gaps, soften, tilt, top_token, untie
from attsvm.models.gradient.sums import BARE, HOT, against, combine

# The losses the kernel knows, by their place.
CODES = ("logistic", "exponential", "linear", "squared")
# Matrices and margins beyond this are left to the loop that tells where floats end.
FAR = 1e150
# Exponential losses are floats for margins above this, and e^x for x below it with the sign turned.
LOWEST = -700.0
# Rounding of a logit, in units of d · max |key| · Σ |w|.
ROUND = 8 * 2.0**-52
# Up to this margin 1 + e^x is a float with room to spare.
MODERATE = 100.0


class Instance(NamedTuple):
    """One instance: keys (n, T, d), values (n, T, e), queries (n, dq), present (n, T), labels (n,),
    head v (e,), and code, the place of its loss in CODES."""

    keys: Floats
    values: Floats
    queries: Floats
    present: Bools
    labels: Floats
    v: Floats
    code: int


class Known(NamedTuple):
    """What is known of each input while its top token a stays: held (n,) = a, −1 for not yet;
    D (n, T, d), gap, order (n, T): see `one_input`; simple (n,): no ties; score (n,) = y v·x_a.

    And for good: rounding (n,): of a logit, in units of the largest entry of W; whole (n,): every
    token is there; live (n,): the query is not zero.
    """

    held: Ints
    D: Floats
    gap: Floats
    order: Floats
    simple: Bools
    score: Floats
    rounding: Floats
    whole: Bools
    live: Bools


class Seen(NamedTuple):
    """What one look at W gives: part (n, d), height, slope (n,): the gradient, see `assemble`;
    margin, sure (n,): y v·o and the attention of the top token. The others are room:
    w (1, d), ahead, mass, rises (T,), shares (n,), line (e,)."""

    part: Floats
    height: Floats
    slope: Floats
    margin: Floats
    sure: Floats
    w: Floats
    ahead: Floats
    mass: Floats
    rises: Floats
    shares: Floats
    line: Floats


@njit(**BARE)
def _softplus(x: float) -> float:
    """log(1 + e^x)."""
    return x + math.log1p(math.exp(-x)) if x > 0.0 else math.log1p(math.exp(x))


@njit(**BARE)
def value_of(code: int, x: float) -> float:
    """ℓ(x) of the loss with this code."""
    if code == 0:
        return _softplus(-x)
    if code == 1:
        return math.exp(-x)
    if code == 2:
        return -x
    return 0.5 * (1.0 - x) ** 2


@njit(**HOT)
def slope_of(code: int, x: float) -> tuple[float, float]:
    """(f, g) with ℓ'(x) = f e^g of the loss with this code; f is 0 or within e^±MODERATE."""
    if code == 0:
        if abs(x) <= MODERATE:
            return -1.0 / (1.0 + math.exp(x)), 0.0
        return -1.0, -_softplus(x)
    if code == 1:
        return -1.0, -x
    if code == 2:
        return -1.0, 0.0
    return x - 1.0, 0.0


@njit()
def know(one: Instance) -> Known:
    """What is known before the first look."""
    n, T, d = one.keys.shape
    rounding = np.zeros(n)
    whole = np.ones(n, np.bool_)
    live = np.zeros(n, np.bool_)
    for i in range(n):
        key = query = 0.0
        for t in range(T):
            whole[i] = whole[i] and one.present[i, t]
            for r in range(d):
                key = max(key, abs(one.keys[i, t, r]))
        for c in range(one.queries.shape[1]):
            query += abs(one.queries[i, c])
        rounding[i] = ROUND * (d + 2) * d * key * query
        live[i] = query > 0.0
    return Known(
        np.full(n, -1), np.empty((n, T, d)), np.empty((n, T)), np.zeros((n, T)),
        np.zeros(n, np.bool_), np.zeros(n), rounding, whole, live,
    )  # fmt: skip


@njit(**BARE)
def _turn(one: Instance, known: Known, seen: Seen, i: int, a: int) -> None:
    """Learn what depends on the top token a of input i; D is there already."""
    score = 0.0
    for r in range(len(one.v)):
        seen.line[r] = one.labels[i] * one.v[r]
        score += seen.line[r] * one.values[i, a, r]
    apart = gaps(
        one.values, one.present, i, a, seen.line, 0.0, seen.ahead, seen.line, known.gap,
        known.order, i,
    )  # fmt: skip
    known.held[i] = a
    known.score[i] = score
    known.simple[i] = apart and distinct(known.D, i, one.present, i, a)


@njit(**HOT)
def look(one: Instance, known: Known, seen: Seen, U: Floats, reach: float, i: int) -> bool:
    """Whether all numbers of input i are well inside the floats; writes what is seen at W.

    U (1, dq, d) is Wᵀ, and no entry of it is above reach. A top token that no rounding could have
    made the wrong one is kept without asking again.
    """
    ahead, mass, w = seen.ahead, seen.mass, seen.w
    combine(one.queries[i], U, 0, w, 0)
    a = known.held[i]
    lead = total = 0.0
    if a >= 0:
        against(known.D, i, w, 0, ahead)
        if not known.whole[i]:
            for t in range(len(ahead)):
                if not one.present[i, t]:
                    ahead[t] = -np.inf
        lead, total = soften(ahead, a, mass)
    if a < 0 or not lead < -known.rounding[i] * reach:
        a = top_token(one.keys, one.present, i, w, known.D, i, ahead)
        lead, total = soften(ahead, a, mass)
        if a != known.held[i]:
            _turn(one, known, seen, i, a)
    front = math.exp(lead)
    sure = 1.0 / (1.0 + front * total)
    delta = 0.0
    for t in range(len(mass)):
        delta += mass[t] * known.gap[i, t]
    delta *= front * sure
    x = known.score[i] - delta
    if not (x >= LOWEST if one.code == 1 else abs(x) <= FAR):
        return False
    slope, height = slope_of(one.code, x)
    rise = -np.inf
    if known.live[i] and slope != 0.0:
        if known.simple[i]:
            # log s_t = ahead_t + log sure, whose second part is small: a factor of the slope.
            rise = tilt(known.D, known.gap, i, mass, lead, delta, seen.part, i)
            slope *= sure
        if rise == -np.inf:
            slope = slope_of(one.code, x)[0]
            shift = math.log1p(front * total)
            rise = untie(
                known.D, known.gap, known.order, i, ahead, shift, mass, seen.rises, seen.part, i
            )
    seen.height[i] = rise + height
    seen.slope[i] = slope
    seen.margin[i] = x
    seen.sure[i] = sure
    return True
