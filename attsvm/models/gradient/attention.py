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

All arrays carry a stack axis: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq). What is
done for one input is in `one_input`, shared with the kernel that takes many steps at once.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from attsvm.ground.arrays import Bools, Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.models.gradient.one_input import (
    HOT,
    LEAST,
    combine,
    differences,
    distinct,
    gaps,
    grade,
    soften,
    tilt,
    to_pooled,
    top_token,
    untie,
)


@njit(**HOT)
def assemble(
    part: Floats, height: Floats, slope: Floats, queries: Floats, shares: Floats, G: Floats
) -> float:
    """The exponent of the sum −Σ_i slope_i e^height_i part_i z_iᵀ over inputs; writes G (dq, d).

    The sum is Gᵀ e^exponent. part (n, d), all finite; height (n,) is −inf for inputs that add
    nothing; slope (n,): that of the loss, up to what is in height; queries (n, dq); shares (n,)
    is room.
    """
    n, d = part.shape
    dq = queries.shape[1]
    peak = -np.inf
    for i in range(n):
        peak = max(peak, height[i])
    for i in range(n):
        f = height[i] - peak
        shares[i] = -slope[i] * math.exp(f) if f > LEAST else 0.0
    # Four inputs at a time: each entry of G is then fetched once for four of them.
    for i in range(0, n - 3, 4):
        f0, f1, f2, f3 = shares[i], shares[i + 1], shares[i + 2], shares[i + 3]
        if i > 0 and f0 == 0.0 and f1 == 0.0 and f2 == 0.0 and f3 == 0.0:
            continue
        for c in range(dq):
            q0, q1 = f0 * queries[i, c], f1 * queries[i + 1, c]
            q2, q3 = f2 * queries[i + 2, c], f3 * queries[i + 3, c]
            if i == 0:
                for r in range(d):
                    G[c, r] = (q0 * part[i, r] + q1 * part[i + 1, r]) + (
                        q2 * part[i + 2, r] + q3 * part[i + 3, r]
                    )
            else:
                for r in range(d):
                    G[c, r] += (q0 * part[i, r] + q1 * part[i + 1, r]) + (
                        q2 * part[i + 2, r] + q3 * part[i + 3, r]
                    )
    if n < 4:
        for c in range(dq):
            for r in range(d):
                G[c, r] = 0.0
    for i in range(n - n % 4, n):
        if shares[i] != 0.0:
            for c in range(dq):
                f = shares[i] * queries[i, c]
                for r in range(d):
                    G[c, r] += f * part[i, r]
    return peak


@njit(parallel=True)
def attend(
    keys: Floats, values: Floats, queries: Floats, present: Bools, W: Floats
) -> tuple[Floats, Ints, Floats]:
    """log s (B, n, T), top token (B, n) and pooled output (B, n, e) under logits k_t·W z.

    present (B, n, T): tokens that are there; log s is −inf elsewhere. W (B, d, dq).
    """
    B, n, T, d = keys.shape
    e = values.shape[3]
    dq = queries.shape[2]
    logs = np.empty((B, n, T))
    top = np.empty((B, n), np.int64)
    pooled = np.zeros((B, n, e))
    for b in numba.prange(B):
        w = np.empty(d)
        mass = np.empty(T)
        D = np.empty((T, d))
        for i in range(n):
            for r in range(d):
                s = 0.0
                for c in range(dq):
                    s += W[b, r, c] * queries[b, i, c]
                w[r] = s
            line = logs[b, i]
            a = top_token(keys[b, i], present[b, i], w, D, line)
            lead, total = soften(line, a, mass)
            front = math.exp(lead)
            rest = front * total
            shift = math.log1p(rest)
            mass[a] = 1.0
            for t in range(T):
                line[t] -= shift
                if mass[t] > 0.0:
                    p = mass[t] / (1.0 + rest)
                    if t != a:
                        p *= front
                    for r in range(e):
                        pooled[b, i, r] += p * values[b, i, t, r]
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
        D = np.empty((T, d))
        gap = np.empty(T)
        order = np.empty(T)
        mass = np.empty(T)
        rises = np.empty(T)
        near = np.empty(e)
        part = np.zeros((n, d))
        height = np.full(n, -np.inf)
        shares = np.empty(n)
        G = np.empty((dq, d))
        for i in range(n):
            live = False
            for c in range(dq):
                live = live or queries[b, i, c] != 0.0
            if not live or log_slope[b, i] == -np.inf:
                continue
            a = top[b, i]
            line = logs[b, i]
            differences(keys[b, i], present[b, i], a, D)
            first = -np.inf
            if bend[b, i] != 0.0:
                first = to_pooled(values[b, i], present[b, i], a, line, near)
            apart = gaps(
                values[b, i], present[b, i], a, slopes[b, i], (bend[b, i], first), near, gap, order
            )
            lead, _ = soften(line, a, mass)
            delta = 0.0
            for t in range(T):
                delta += mass[t] * gap[t]
            delta *= math.exp(lead)
            rise = -np.inf
            if apart and distinct(D, present[b, i], a):
                rise = tilt(gap, mass, lead, delta)
            if rise == -np.inf:
                rise = grade(D, gap, order, line, 0.0, mass, rises)
                untie(mass, rises, rise)
            if rise > -np.inf:
                combine(mass, D, part[i])
            height[i] = rise + log_slope[b, i]
        peak = assemble(part, height, sign[b], queries[b], shares, G)
        if peak == -np.inf:
            continue
        most = 0.0
        for c in range(dq):
            for r in range(d):
                most = max(most, abs(G[c, r]))
        if most > 0.0:
            power = math.frexp(most)[1]
            shrink = math.ldexp(1.0, -power)
            for r in range(d):
                for c in range(dq):
                    out[b, r, c] = G[c, r] * shrink
            scale[b] = peak + power * math.log(2.0) - math.log(n)
    return out, scale
