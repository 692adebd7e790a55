"""One input of an attention layer: its top token, its softmax and the slope of its logits.

The formulas are those of `attention`. Every function here is compiled and takes the arrays of one
instance with the number i of the input: keys (n, T, d), values (n, T, e), present (n, T). Key
differences D_t = k_t − k_a from the top token a are in an array (·, T, d) of their own, at place j,
because a run of many steps keeps them while the top token stays.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm.ground.arrays import Bools, Floats
from attsvm.ground.compiled import njit
from attsvm.models.gradient.sums import BARE, HOT, against, combine

# Score differences below this many units of their own size are ties.
TIED = 8 * 2.0**-52
# Exponents below this give zero.
LEAST = -745.0
# A token found this far above the top one is the top one: beyond it rounding chose wrongly.
ABOVE = 1.0


@njit(**BARE)
def differences(keys: Floats, present: Bools, i: int, a: int, D: Floats, j: int) -> None:
    """Writes D_t = k_t − k_a, zero for tokens that are not there."""
    T, d = D.shape[1], D.shape[2]
    for t in range(T):
        if present[i, t]:
            for r in range(d):
                D[j, t, r] = keys[i, t, r] - keys[i, a, r]
        else:
            D[j, t] = 0.0


@njit(**BARE)
def top_token(
    keys: Floats, present: Bools, i: int, w: Floats, D: Floats, j: int, ahead: Floats
) -> int:
    """The top token a under logits k_t·w, w (1, d); writes D_t = k_t − k_a and ahead_t = D_t·w.

    ahead (T,) is 0 for a and −inf for tokens that are not there. Differences of logits come from
    differences of keys: near ties would cancel.
    """
    T = keys.shape[1]
    against(keys, i, w, 0, ahead)
    a = -1
    for t in range(T):
        if present[i, t] and (a < 0 or ahead[t] > ahead[a]):
            a = t
    for _ in range(T):
        differences(keys, present, i, a, D, j)
        against(D, j, w, 0, ahead)
        better = a
        most = ABOVE
        for t in range(T):
            if not present[i, t]:
                ahead[t] = -np.inf
            elif ahead[t] > most:
                most = ahead[t]
                better = t
        ahead[a] = 0.0
        if better == a:
            break
        a = better
    return a


@njit(**HOT)
def soften(logs: Floats, a: int, mass: Floats) -> tuple[float, float]:
    """(lead, Σ mass): lead is the largest log s_t of t ≠ a; writes mass_t = e^(log s_t − lead).

    logs (T,) may carry any constant. mass (T,) is 0 for a; lead is −inf when a is alone.
    """
    own = logs[a]
    logs[a] = -np.inf  # out of the way; put back below
    lead = -np.inf
    for t in range(len(logs)):
        lead = max(lead, logs[t])
    total = 0.0
    for t in range(len(logs)):
        f = logs[t] - lead
        mass[t] = math.exp(f) if f > LEAST else 0.0
        total += mass[t]
    logs[a] = own
    return lead, total


@njit(**BARE)
def gaps(
    values: Floats, present: Bools, i: int, a: int, slope: Floats, bend: float, logs: Floats,
    near: Floats, gap: Floats, order: Floats, j: int,
) -> bool:  # fmt: skip
    """Whether all tokens have scores apart from the top one's; writes G_t = gap_t e^order_t.

    gap (·, T) at place j: y (x_a − x_t)·∇h, 0 for ties. order (·, T): 0 but for tokens that only
    a bent head unties. slope (e,): y ∇h; bend: c of the bent head, 0 for a linear one, which needs
    neither logs (T,) nor near (e,), room for o − x_a.
    """
    T, e = values.shape[1], values.shape[2]
    # o − x_a = e^first · near.
    first = -np.inf
    if bend != 0.0:
        first = _to_pooled(values, present, i, a, logs, near)
    length = 0.0
    for r in range(e):
        length += slope[r] * slope[r]
    apart = True
    for t in range(T):
        gap[j, t] = 0.0
        order[j, t] = 0.0
        if t == a or not present[i, t]:
            continue
        g = 0.0
        far = 0.0
        turn = 0.0
        for r in range(e):
            u = values[i, a, r] - values[i, t, r]
            g += u * slope[r]
            far += u * u
        tie = TIED * math.sqrt(far * length)
        if bend != 0.0:
            for r in range(e):
                turn += (values[i, a, r] - values[i, t, r]) * near[r]
            turn *= bend
            if abs(g - math.exp(first) * turn) <= tie:
                g = turn
                tie = 0.0
                order[j, t] = first
                apart = False
        if abs(g) > tie:
            gap[j, t] = g
        else:
            apart = False
    return apart


@njit(**BARE)
def _to_pooled(values: Floats, present: Bools, i: int, a: int, logs: Floats, near: Floats) -> float:
    """The exponent of o − x_a = e^first · near, −inf when it is zero; writes near (e,)."""
    T, e = values.shape[1], values.shape[2]
    first = -np.inf
    for t in range(T):
        if t != a and present[i, t] and logs[t] > first:
            for r in range(e):
                if values[i, t, r] != values[i, a, r]:
                    first = logs[t]
                    break
    near[:] = 0.0
    for t in range(T):
        # Above `first` are only values equal to the top one: they add nothing.
        f = logs[t] - first
        if t != a and present[i, t] and LEAST < f <= 0.0:
            f = math.exp(f)
            for r in range(e):
                near[r] += f * (values[i, t, r] - values[i, a, r])
    return first


@njit(**BARE)
def distinct(D: Floats, j: int, present: Bools, i: int, a: int) -> bool:
    """Whether no other token has the key of the top one."""
    found = True
    for t in range(D.shape[1]):
        found = found and (t == a or not present[i, t] or not _zero(D, j, t))
    return found


@njit(**BARE)
def _zero(D: Floats, j: int, t: int) -> bool:
    """Whether D_t = 0."""
    r = 0
    while r < D.shape[2] and D[j, t, r] == 0.0:
        r += 1
    return r == D.shape[2]


@njit(**HOT)
def tilt(
    D: Floats, gap: Floats, j: int, mass: Floats, lead: float, delta: float, part: Floats, i: int
) -> float:
    """The height of what the input adds: Σ_t s_t (G_t − δ) D_t = part · e^height, without ties.

    No token may tie with the top one in score or key: then every term has the factor e^lead.
    mass (T,), lead: those of `soften`, mass is used up; height has the constant that lead has.
    delta: δ = Σ s_t G_t. Writes part (n, d) at place i. −inf: the terms that lead are zero, and
    `untie` must be asked.
    """
    height = -np.inf
    for t in range(D.shape[1]):
        f = gap[j, t] - delta
        if mass[t] == 1.0 and f != 0.0:
            height = lead
        mass[t] *= f
    if height > -np.inf:
        combine(mass, D, j, part, i)
    return height


@njit(**BARE)
def untie(
    D: Floats, gap: Floats, order: Floats, j: int, logs: Floats, shift: float, term: Floats,
    height: Floats, part: Floats, i: int,
) -> float:  # fmt: skip
    """The height of `tilt` with ties, where each term has an exponent of its own; −inf for zero.

    log s_t = logs_t − shift; term and height (T,) are room. Writes part (n, d) at place i.
    """
    peak = grade(D, gap, order, j, logs, shift, term, height)
    if peak == -np.inf:
        return peak
    for t in range(len(term)):
        f = height[t] - peak
        term[t] = term[t] * math.exp(f) if f > LEAST else 0.0
    combine(term, D, j, part, i)
    return peak


@njit(**BARE)
def grade(
    D: Floats, gap: Floats, order: Floats, j: int, logs: Floats, shift: float, term: Floats,
    height: Floats,
) -> float:  # fmt: skip
    """The largest height of the terms s_t (G_t − δ) = term_t e^height_t, −inf when all are zero.

    log s_t = logs_t − shift. Writes term and height (T,): 0 and −inf for the top token, those with
    its key and those that are not there.
    """
    T = D.shape[1]
    term[:] = 0.0
    height[:] = -np.inf
    second = -np.inf
    for t in range(T):
        if gap[j, t] != 0.0:
            second = max(second, logs[t] - shift + order[j, t])
    if second == -np.inf:
        return second
    # δ = e^second · scaled, without cancellation.
    scaled = 0.0
    for t in range(T):
        if gap[j, t] != 0.0:
            f = logs[t] - shift + order[j, t] - second
            if f > LEAST:
                scaled += math.exp(f) * gap[j, t]
    peak = -np.inf
    for t in range(T):
        # The top token and those that are not there have D = 0 as well.
        if _zero(D, j, t):
            continue
        extra = 0.0
        if gap[j, t] == 0.0:
            f = -scaled
            extra = second
        elif order[j, t] == 0.0:
            f = gap[j, t] - math.exp(second) * scaled
        else:
            extra = max(order[j, t], second)
            f = math.exp(order[j, t] - extra) * gap[j, t] - math.exp(second - extra) * scaled
        if f != 0.0:
            term[t] = f
            height[t] = logs[t] - shift + extra
            peak = max(peak, height[t])
    return peak
