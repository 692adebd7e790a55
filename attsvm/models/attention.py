"""The gradient of one attention layer in the log domain, exact past the point where floats give up.

For one input with logits h_t, top token a, pooled output o and scores γ_t = y x_t·∇h(o), the
gradient of the loss in the logits is ℓ' s_t (γ_t − Σ_u s_u γ_u). In floats the bracket cancels to
rounding noise once the softmax saturates, and a normalized step turns the noise into a full step.
Here, with differences G_t = γ_a − γ_t = y (x_a − x_t)·∇h(o) and log s_t,

    δ = Σ_{t≠a} s_t G_t  (= γ_a − Σ s γ),      dL/dh_t = −ℓ' s_t (G_t − δ)  for t ≠ a,

every term is a number times an exponential whose exponent is kept, and one common factor e^M
leaves the sum. Tokens whose score ties with the top one (G_t = 0 up to rounding) contribute −δ s_t,
with δ in scaled form: it is of second order and would vanish otherwise. A head that bends,
y ∇h(o) = y ∇h(x_a) + c (o − x_a), unties them by G_t = c (x_a − x_t)·(o − x_a), of the order of δ
and scaled likewise. The gradient in W is Σ_i (Σ_t C_it (k_t − k_a)) z_iᵀ; tokens with the key of
the top one and inputs with a zero query add nothing to it, so they have no say in M.

All arrays carry a stack axis: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq).
"""

from __future__ import annotations

import math

import numba
import numpy as np

from attsvm.compiled import njit
from attsvm.tokens import Bools, Floats, Ints

# Score differences below this many units of their own size are ties.
TIED = 8 * 2.0**-52
# Exponents below this give zero.
LEAST = -745.0
# A token found this far above the top one is the top one: beyond it rounding chose wrongly.
ABOVE = 1.0


@njit()
def _dot(x: Floats, y: Floats) -> float:
    """x·y."""
    s = 0.0
    for r in range(len(x)):
        s += x[r] * y[r]
    return s


@njit()
def _ahead(x: Floats, base: Floats, y: Floats) -> float:
    """(x − base)·y."""
    s = 0.0
    for r in range(len(x)):
        s += (x[r] - base[r]) * y[r]
    return s


@njit()
def _same(x: Floats, y: Floats) -> bool:
    """Whether x equals y."""
    r = 0
    while r < len(x) and x[r] == y[r]:
        r += 1
    return r == len(x)


@njit(parallel=True)
def attend(
    keys: Floats, values: Floats, queries: Floats, present: Bools, W: Floats
) -> tuple[Floats, Ints, Floats]:
    """log s (B, n, T), top token (B, n) and pooled output (B, n, e) under logits k_t·W z.

    present (B, n, T): tokens that are there; log s is −inf elsewhere. W (B, d, dq).
    """
    B, n, T, d = keys.shape
    e = values.shape[3]
    logs = np.empty((B, n, T))
    top = np.empty((B, n), np.int64)
    pooled = np.empty((B, n, e))
    for b in numba.prange(B):
        w = np.empty(d)
        mass = np.empty(T)
        for i in range(n):
            z = queries[b, i]
            for r in range(d):
                w[r] = _dot(W[b, r], z)
            a = -1
            best = -np.inf
            for t in range(T):
                if present[b, i, t]:
                    s = _dot(keys[b, i, t], w)
                    if a < 0 or s > best:
                        best = s
                        a = t
            # Differences of logits from differences of keys: near ties would cancel.
            for _ in range(T):
                most = ABOVE
                better = a
                base = keys[b, i, a]
                for t in range(T):
                    s = -np.inf
                    if t == a:
                        s = 0.0
                    elif present[b, i, t]:
                        s = _ahead(keys[b, i, t], base, w)
                        if s > most:
                            most = s
                            better = t
                    logs[b, i, t] = s
                if better == a:
                    break
                a = better
            rest = 0.0
            for t in range(T):
                mass[t] = 0.0
                if t != a and logs[b, i, t] > LEAST:
                    mass[t] = math.exp(logs[b, i, t])
                    rest += mass[t]
            mass[a] = 1.0
            shift = math.log1p(rest)
            o = pooled[b, i]
            for r in range(e):
                o[r] = 0.0
            for t in range(T):
                logs[b, i, t] -= shift
                if mass[t] > 0.0:
                    p = mass[t] / (1.0 + rest)
                    x = values[b, i, t]
                    for r in range(e):
                        o[r] += p * x[r]
            top[b, i] = a
    return logs, top, pooled


@njit(parallel=True)
def pull(
    keys: Floats, values: Floats, queries: Floats, present: Bools, logs: Floats, top: Ints,
    slopes: Floats, sign: Floats, log_slope: Floats, bend: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """The gradient in W as (G (B, d, dq), M (B,)): it is e^M G, and M = −inf when it is zero.

    slopes (B, n, e): y ∇h(o); sign, log_slope (B, n): the loss's slope at the margin; bend (B, n):
    c with y ∇h(o) = y ∇h(x) + c (o − x), 0 for a head that is linear near o. The mean over inputs
    is in M. The largest entry of G lies in [½, 1).
    """
    B, n, T, d = keys.shape
    e = values.shape[3]
    dq = queries.shape[2]
    out = np.zeros((B, d, dq))
    scale = np.full(B, -np.inf)
    for b in numba.prange(B):
        # dL/dh_t = factor · e^height;  G_t = gap · e^order.
        height = np.empty((n, T))
        factor = np.empty((n, T))
        gap = np.empty(T)
        order = np.empty(T)
        part = np.empty(d)
        near = np.empty(e)
        peak = -np.inf
        for i in range(n):
            for t in range(T):
                height[i, t] = -np.inf
            live = False
            for c in range(dq):
                live = live or queries[b, i, c] != 0.0
            if not live or log_slope[b, i] == -np.inf:
                continue
            a = top[b, i]
            slope = slopes[b, i]
            xa = values[b, i, a]
            ka = keys[b, i, a]
            curve = bend[b, i]
            # o − x_a = e^first · near.
            first = -np.inf
            if curve != 0.0:
                for t in range(T):
                    if t != a and present[b, i, t] and not _same(values[b, i, t], xa):
                        first = max(first, logs[b, i, t])
                for r in range(e):
                    near[r] = 0.0
                if first > -np.inf:
                    for t in range(T):
                        # Above `first` are only values equal to the top one: they add nothing.
                        f = logs[b, i, t] - first
                        if t != a and present[b, i, t] and LEAST < f <= 0.0:
                            f = math.exp(f)
                            x = values[b, i, t]
                            for r in range(e):
                                near[r] += f * (x[r] - xa[r])
            length = _dot(slope, slope)
            second = -np.inf
            for t in range(T):
                gap[t] = 0.0
                order[t] = 0.0
                if t == a or not present[b, i, t]:
                    continue
                x = values[b, i, t]
                g = 0.0
                far = 0.0
                for r in range(e):
                    u = xa[r] - x[r]
                    g += u * slope[r]
                    far += u * u
                tie = TIED * math.sqrt(far * length)
                if curve != 0.0:
                    turn = -curve * _ahead(x, xa, near)  # c (x_a − x_t)·near
                    if abs(g - math.exp(first) * turn) <= tie:
                        g = turn
                        tie = 0.0
                        order[t] = first
                if abs(g) > tie:
                    gap[t] = g
                    second = max(second, logs[b, i, t] + order[t])
            if second == -np.inf:
                continue
            # δ = e^second · scaled, without cancellation.
            scaled = 0.0
            for t in range(T):
                if gap[t] != 0.0:
                    f = logs[b, i, t] + order[t] - second
                    if f > LEAST:
                        scaled += math.exp(f) * gap[t]
            delta = math.exp(second) * scaled
            for t in range(T):
                if t == a or not present[b, i, t] or _same(keys[b, i, t], ka):
                    continue
                if gap[t] == 0.0:
                    f = -scaled
                    extra = second
                elif order[t] == 0.0:
                    f = gap[t] - delta
                    extra = 0.0
                else:
                    extra = max(order[t], second)
                    f = math.exp(order[t] - extra) * gap[t] - math.exp(second - extra) * scaled
                if f != 0.0:
                    factor[i, t] = -sign[b, i] * f
                    height[i, t] = logs[b, i, t] + log_slope[b, i] + extra
                    if height[i, t] > peak:
                        peak = height[i, t]
        if peak == -np.inf:
            continue
        most = 0.0
        for i in range(n):
            ka = keys[b, i, top[b, i]]
            moved = False
            for r in range(d):
                part[r] = 0.0
            for t in range(T):
                if height[i, t] - peak > LEAST:
                    f = factor[i, t] * math.exp(height[i, t] - peak)
                    moved = True
                    k = keys[b, i, t]
                    for r in range(d):
                        part[r] += f * (k[r] - ka[r])
            if moved:
                z = queries[b, i]
                for r in range(d):
                    f = part[r]
                    for c in range(dq):
                        out[b, r, c] += f * z[c]
        for r in range(d):
            for c in range(dq):
                if abs(out[b, r, c]) > most:
                    most = abs(out[b, r, c])
        if most > 0.0:
            power = math.frexp(most)[1]
            shrink = math.ldexp(1.0, -power)
            for r in range(d):
                for c in range(dq):
                    out[b, r, c] *= shrink
            scale[b] = peak + power * math.log(2.0) - math.log(n)
    return out, scale
