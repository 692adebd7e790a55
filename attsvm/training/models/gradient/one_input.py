"""One input of an attention layer: its top token, its softmax and the slope of its logits.

The formulas are those of `attention`. Every function here is compiled and takes the arrays of one
input: keys (T, d), values (T, e), present (T,), which tokens are there. Key differences
D_t = k_t − k_a from the top token a are in an array (T, d) of their own, because a run of many
steps keeps them while the top token stays.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm._utils.compiled import INNER, njit

# Score differences below this many units of their own size are ties.
TIED = 8 * 2.0**-52
# Exponents below this give zero.
LEAST = -745.0
# A token found this far above the top one is the top one: beyond it rounding chose wrongly.
ABOVE = 1.0


@njit(**INNER)
def against(D: Floats, w: Floats, out: Floats) -> None:
    """Writes D_t·w to out (T,), from D (T, d) and w (d,).

    Four tokens at a time, so that no sum waits for the one before.
    """
    T, d = D.shape
    for t in range(0, T - 3, 4):
        s0 = s1 = s2 = s3 = 0.0
        for r in range(d):
            s0 += D[t, r] * w[r]
            s1 += D[t + 1, r] * w[r]
            s2 += D[t + 2, r] * w[r]
            s3 += D[t + 3, r] * w[r]
        out[t], out[t + 1], out[t + 2], out[t + 3] = s0, s1, s2, s3
    for t in range(T - T % 4, T):
        s0 = 0.0
        for r in range(d):
            s0 += D[t, r] * w[r]
        out[t] = s0


@njit(**INNER)
def combine(f: Floats, D: Floats, out: Floats) -> None:
    """Writes Σ_t f_t D_t to out (d,), from f (T,) and D (T, d).

    Four tokens at a time: each entry of the sum is then fetched once for four of them.
    """
    T, d = D.shape
    if T < 4:
        for r in range(d):
            out[r] = f[0] * D[0, r]
        for t in range(1, T):
            for r in range(d):
                out[r] += f[t] * D[t, r]
        return
    for t in range(0, T - 3, 4):
        f0, f1, f2, f3 = f[t], f[t + 1], f[t + 2], f[t + 3]
        if t == 0:
            for r in range(d):
                out[r] = (f0 * D[t, r] + f1 * D[t + 1, r]) + (f2 * D[t + 2, r] + f3 * D[t + 3, r])
        elif f0 != 0.0 or f1 != 0.0 or f2 != 0.0 or f3 != 0.0:
            for r in range(d):
                out[r] += (f0 * D[t, r] + f1 * D[t + 1, r]) + (f2 * D[t + 2, r] + f3 * D[t + 3, r])
    for t in range(T - T % 4, T):
        if f[t] != 0.0:
            for r in range(d):
                out[r] += f[t] * D[t, r]


@njit(**INNER)
def differences(keys: Floats, present: Bools, a: int, D: Floats) -> None:
    """Writes D_t = k_t − k_a, zero for tokens that are not there."""
    T, d = D.shape
    for t in range(T):
        for r in range(d):
            D[t, r] = keys[t, r] - keys[a, r] if present[t] else 0.0


@njit(**INNER)
def top_token(keys: Floats, present: Bools, w: Floats, D: Floats, ahead: Floats) -> int:
    """The top token a under logits k_t·w, w (d,); writes D_t = k_t − k_a and ahead_t = D_t·w.

    ahead (T,) is 0 for a and −inf for tokens that are not there. Differences of logits come from
    differences of keys: near ties would cancel.
    """
    T = len(keys)
    against(keys, w, ahead)
    a = T  # none yet
    for t in range(T):
        if present[t] and (a == T or ahead[t] > ahead[a]):
            a = t
    for _ in range(T):
        differences(keys, present, a, D)
        against(D, w, ahead)
        better = a
        most = ABOVE
        for t in range(T):
            if not present[t]:
                ahead[t] = -np.inf
            elif ahead[t] > most:
                most = ahead[t]
                better = t
        ahead[a] = 0.0
        if better == a:
            break
        a = better
    return a


@njit(**INNER, forceinline=True)
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


@njit(**INNER)
def slope_at(short: Floats, b: int, i: int, logs: Floats, sure: float) -> tuple[float, float]:
    """(f, g) with ℓ' = −Σ_t s_t short_t = f e^g for the squared loss; (0, 0) when all is zero.

    short (B, n, T): that of `shortfall`, whose row [b, i] counts. log s_t = logs_t + log sure.
    """
    peak = -np.inf
    for t in range(len(logs)):
        if short[b, i, t] != 0.0:
            peak = max(peak, logs[t])
    f = 0.0
    for t in range(len(logs)):
        if short[b, i, t] != 0.0 and logs[t] - peak > LEAST:
            f += math.exp(logs[t] - peak) * short[b, i, t]
    return -f * sure, peak if f != 0.0 else 0.0


@njit(**INNER)
def gaps(
    values: Floats,
    present: Bools,
    a: int,
    slope: Floats,
    bent: tuple[float, float],
    near: Floats,
    gap: Floats,
    order: Floats,
) -> bool:
    """Whether all tokens have scores apart from the top one's; writes G_t = gap_t e^order_t.

    gap (T,): y (x_a − x_t)·∇h, 0 for ties. order (T,): 0 but for tokens that only a bent head
    unties. slope (e,): y ∇h. bent: (c, first) with the c of the bent head, 0 for a linear one, and
    o − x_a = e^first near, which a linear one does not need.
    """
    T, e = values.shape
    curvature, first = bent
    length = 0.0
    for r in range(e):
        length += slope[r] * slope[r]
    apart = True
    for t in range(T):
        gap[t] = 0.0
        order[t] = 0.0
        if t == a or not present[t]:
            continue
        g = 0.0
        far = 0.0
        turn = 0.0
        for r in range(e):
            u = values[a, r] - values[t, r]
            g += u * slope[r]
            far += u * u
        tie = TIED * math.sqrt(far * length)
        if curvature != 0.0:
            for r in range(e):
                turn += (values[a, r] - values[t, r]) * near[r]
            turn *= curvature
            if abs(g - math.exp(first) * turn) <= tie:
                g = turn
                tie = 0.0
                order[t] = first
                apart = False
        if abs(g) > tie:
            gap[t] = g
        else:
            apart = False
    return apart


@njit(**INNER)
def to_pooled(values: Floats, present: Bools, a: int, logs: Floats, near: Floats) -> float:
    """The exponent of o − x_a = e^first · near, −inf when it is zero; writes near (e,)."""
    T, e = values.shape
    first = -np.inf
    for t in range(T):
        if t != a and present[t] and logs[t] > first:
            for r in range(e):
                if values[t, r] != values[a, r]:
                    first = logs[t]
                    break
    for r in range(e):
        near[r] = 0.0
    for t in range(T):
        # Above `first` are only values equal to the top one: they add nothing.
        f = logs[t] - first
        if t != a and present[t] and LEAST < f <= 0.0:
            f = math.exp(f)
            for r in range(e):
                near[r] += f * (values[t, r] - values[a, r])
    return first


@njit(**INNER)
def distinct(D: Floats, present: Bools, a: int) -> bool:
    """Whether no other token has the key of the top one."""
    T, d = D.shape
    for t in range(T):
        if t != a and present[t]:
            r = 0
            while r < d and D[t, r] == 0.0:
                r += 1
            if r == d:
                return False
    return True


@njit(**INNER, forceinline=True)
def tilt(gap: Floats, mass: Floats, lead: float, delta: float) -> float:
    """The height of what the input adds: Σ_t s_t (G_t − δ) D_t = e^height Σ_t f_t D_t, no ties.

    No token may tie with the top one in score or key: then every term has the factor e^lead.
    mass (T,), lead: those of `soften`, and mass becomes f; height has the constant that lead has.
    delta: δ = Σ s_t G_t. −inf: the terms that lead are zero, and `untie` must be asked.
    """
    height = -np.inf
    for t in range(len(gap)):
        f = gap[t] - delta
        if mass[t] == 1.0 and f != 0.0:
            height = lead
        mass[t] *= f
    return height


@njit(**INNER)
def untie(term: Floats, height: Floats, peak: float) -> None:
    """Turns the terms of `grade`, at most e^peak in size, into f_t = term_t e^(height_t − peak)."""
    for t in range(len(term)):
        f = height[t] - peak
        term[t] = term[t] * math.exp(f) if f > LEAST else 0.0


@njit(**INNER)
def grade(
    D: Floats, gap: Floats, order: Floats, logs: Floats, shift: float, term: Floats, height: Floats
) -> float:
    """The largest height of the terms s_t (G_t − δ) = term_t e^height_t, −inf when all are zero.

    Each term has an exponent of its own, ties or not. log s_t = logs_t − shift. Writes term and
    height (T,): 0 and −inf for the top token, those with its key and those that are not there.
    """
    T, d = D.shape
    second = -np.inf
    for t in range(T):
        term[t] = 0.0
        height[t] = -np.inf
        if gap[t] != 0.0:
            second = max(second, logs[t] - shift + order[t])
    if second == -np.inf:
        return second
    # δ = e^second · scaled, without cancellation.
    scaled = 0.0
    for t in range(T):
        if gap[t] != 0.0:
            f = logs[t] - shift + order[t] - second
            if f > LEAST:
                scaled += math.exp(f) * gap[t]
    peak = -np.inf
    for t in range(T):
        # The top token and those that are not there have D = 0 as well.
        r = 0
        while r < d and D[t, r] == 0.0:
            r += 1
        if r == d:
            continue
        extra = 0.0
        if gap[t] == 0.0:
            f = -scaled
            extra = second
        elif order[t] == 0.0:
            f = gap[t] - math.exp(second) * scaled
        else:
            extra = max(order[t], second)
            f = math.exp(order[t] - extra) * gap[t] - math.exp(second - extra) * scaled
        if f != 0.0:
            term[t] = f
            height[t] = logs[t] - shift + extra
            peak = max(peak, height[t])
    return peak
