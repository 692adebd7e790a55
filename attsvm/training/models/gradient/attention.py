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

All arrays carry a stack axis: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq). The
functions for one input are shared with the kernel that takes many steps at once: they take keys
(T, d), values (T, e) and present (T,), which tokens are there. Key differences D_t = k_t − k_a from
the top token a are in an array (T, d) of their own, because a run of many steps keeps them while
the top token stays.

The graded form of the gradient is Σ_i Σ_t x_it (k_t − k_a) z_iᵀ, in which each x_it keeps its own
exponent (`terms`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints, plain
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks, memory
from attsvm._utils.simd import (
    LANES,
    absolute,
    add,
    exp,
    exp_of,
    fma,
    larger,
    largest_of,
    load,
    mul,
    splat,
    store,
    sub,
    sum_of,
)
from attsvm.training.optimizers.graded.wide import of_log

# Score differences below this many units of their own size are ties.
TIED = 8 * 2.0**-52
# Exponents below this give zero.
LEAST = -745.0
# Terms that are all below this may have lost digits.
FAINT = 1e-150
# A token found this far above the top one is the top one: beyond it rounding chose wrongly.
ABOVE = 1.0


@njit(**INNER)
def against(D: Floats, w: Floats, out: Floats) -> None:
    """Writes D_t·w to out (T,), from D (T, d) and w (d,).

    Four tokens at a time, so that no sum waits for the one before.
    """
    T, d = D.shape
    whole = d - d % LANES
    for t in range(0, T - 3, 4):
        x0 = x1 = x2 = x3 = splat(0.0)
        a = t * d
        for r in range(0, whole, LANES):
            y = load(w, r)
            x0 = fma(load(D, a + r), y, x0)
            x1 = fma(load(D, a + d + r), y, x1)
            x2 = fma(load(D, a + 2 * d + r), y, x2)
            x3 = fma(load(D, a + 3 * d + r), y, x3)
        s0, s1, s2, s3 = sum_of(x0), sum_of(x1), sum_of(x2), sum_of(x3)
        for r in range(whole, d):
            s0 += D[t, r] * w[r]
            s1 += D[t + 1, r] * w[r]
            s2 += D[t + 2, r] * w[r]
            s3 += D[t + 3, r] * w[r]
        out[t], out[t + 1], out[t + 2], out[t + 3] = s0, s1, s2, s3
    for t in range(T - T % 4, T):
        x0 = splat(0.0)
        for r in range(0, whole, LANES):
            x0 = fma(load(D, t * d + r), load(w, r), x0)
        s0 = sum_of(x0)
        for r in range(whole, d):
            s0 += D[t, r] * w[r]
        out[t] = s0


@njit(**INNER)
def combine(f: Floats, D: Floats, out: Floats) -> None:
    """Writes Σ_t f_t D_t to out (d,), from f (T,) and D (T, d), 32 entries at a time."""
    T, d = D.shape
    whole = d - d % LANES
    wide = whole - whole % (4 * LANES)
    for r in range(0, wide, 4 * LANES):
        x0 = x1 = x2 = x3 = splat(0.0)
        for t in range(T):
            y, a = splat(f[t]), t * d + r
            x0 = fma(y, load(D, a), x0)
            x1 = fma(y, load(D, a + LANES), x1)
            x2 = fma(y, load(D, a + 2 * LANES), x2)
            x3 = fma(y, load(D, a + 3 * LANES), x3)
        store(out, r, x0)
        store(out, r + LANES, x1)
        store(out, r + 2 * LANES, x2)
        store(out, r + 3 * LANES, x3)
    for r in range(wide, whole, LANES):
        x0 = splat(0.0)
        for t in range(T):
            x0 = fma(splat(f[t]), load(D, t * d + r), x0)
        store(out, r, x0)
    for r in range(whole, d):
        s = 0.0
        for t in range(T):
            s += f[t] * D[t, r]
        out[r] = s


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
    T = len(logs)
    whole = T - T % LANES
    most = splat(-np.inf)
    for t in range(0, whole, LANES):
        most = larger(most, load(logs, t))
    lead = largest_of(most)
    for t in range(whole, T):
        lead = max(lead, logs[t])
    if lead == -np.inf:
        mass[:] = 0.0
        logs[a] = own
        return lead, 0.0
    sums = splat(0.0)
    for t in range(0, whole, LANES):
        m = exp(sub(load(logs, t), splat(lead)))
        store(mass, t, m)
        sums = add(sums, m)
    total = sum_of(sums)
    for t in range(whole, T):
        mass[t] = exp_of(logs[t] - lead)
        total += mass[t]
    logs[a] = own
    return lead, total


@njit(**INNER, forceinline=True)
def dot(x: Floats, y: Floats) -> float:
    """Σ x_t y_t."""
    T = len(x)
    whole = T - T % LANES
    sums = splat(0.0)
    for t in range(0, whole, LANES):
        sums = fma(load(x, t), load(y, t), sums)
    total = sum_of(sums)
    for t in range(whole, T):
        total += x[t] * y[t]
    return total


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
    whole = e - e % LANES
    curvature, first = bent
    length = dot(slope, slope)
    apart = True
    for t in range(T):
        gap[t] = 0.0
        order[t] = 0.0
        if t == a or not present[t]:
            continue
        g0 = far0 = splat(0.0)
        for r in range(0, whole, LANES):
            x = sub(load(values, a * e + r), load(values, t * e + r))
            g0, far0 = fma(x, load(slope, r), g0), fma(x, x, far0)
        g, far, turn = sum_of(g0), sum_of(far0), 0.0
        for r in range(whole, e):
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
    delta: δ = Σ s_t G_t. −inf: the terms that lead vanish, and `grade` must be asked.
    """
    T = len(gap)
    whole = T - T % LANES
    most = splat(0.0)
    for t in range(0, whole, LANES):
        x = mul(load(mass, t), sub(load(gap, t), splat(delta)))
        store(mass, t, x)
        most = larger(most, absolute(x))
    largest = largest_of(most)
    for t in range(whole, T):
        mass[t] *= gap[t] - delta
        largest = max(largest, abs(mass[t]))
    return lead if largest > FAINT else -np.inf


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


# Instances that keep one thread busy.
SHARE = 16


@njit(**INNER)
def weigh(height: Floats, slope: Floats, shares: Floats) -> float:
    """The largest height; writes what each input has of the sum, −slope_i e^(height_i − largest).

    height (n,) is −inf for inputs that add nothing; slope (n,): that of the loss, up to what is in
    height; shares (n,).
    """
    n = len(height)
    peak = -np.inf
    for i in range(n):
        peak = max(peak, height[i])
    for i in range(n):
        f = height[i] - peak
        shares[i] = -slope[i] * math.exp(f) if f > LEAST else 0.0
    return peak


@njit(**INNER)
def gather(part: Floats, queries: Floats, shares: Floats, G: Floats) -> None:
    """Writes Σ_i shares_i z_i part_iᵀ to G (dq, d), from part (n, d), all finite, z (n, dq)."""
    n, d = part.shape
    dq = queries.shape[1]
    whole = d - d % LANES
    wide = whole - whole % (4 * LANES)
    for c in range(dq):
        for r in range(0, wide, 4 * LANES):
            x0 = x1 = x2 = x3 = splat(0.0)
            for i in range(n):
                y, a = splat(shares[i] * queries[i, c]), i * d + r
                x0 = fma(y, load(part, a), x0)
                x1 = fma(y, load(part, a + LANES), x1)
                x2 = fma(y, load(part, a + 2 * LANES), x2)
                x3 = fma(y, load(part, a + 3 * LANES), x3)
            a = c * d + r
            store(G, a, x0)
            store(G, a + LANES, x1)
            store(G, a + 2 * LANES, x2)
            store(G, a + 3 * LANES, x3)
        for r in range(wide, whole, LANES):
            x0 = splat(0.0)
            for i in range(n):
                x0 = fma(splat(shares[i] * queries[i, c]), load(part, i * d + r), x0)
            store(G, c * d + r, x0)
        for r in range(whole, d):
            s = 0.0
            for i in range(n):
                s += shares[i] * queries[i, c] * part[i, r]
            G[c, r] = s


@njit(**INNER)
def assemble(
    part: Floats, height: Floats, slope: Floats, queries: Floats, shares: Floats, G: Floats
) -> float:
    """The exponent of the sum −Σ_i slope_i e^height_i part_i z_iᵀ over inputs; writes G (dq, d).

    The sum is Gᵀ e^exponent. part (n, d), height, slope (n,), queries (n, dq): see `weigh` and
    `gather`; shares (n,) is workspace.
    """
    peak = weigh(height, slope, shares)
    gather(part, queries, shares, G)
    return peak


class AttentionInputs(NamedTuple):
    """What attention sees: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq), and
    present (B, n, T), the tokens that are there."""

    keys: Floats
    values: Floats
    queries: Floats
    present: Bools


class AttentionOutput(NamedTuple):
    """What attention gives: log s (B, n, T), −inf for tokens that are not there, the top token
    (B, n) and the pooled output (B, n, e)."""

    logs: Floats
    top: Ints
    pooled: Floats


class Slopes(NamedTuple):
    """The loss behind attention, near its output: logs (B, n, T) and top (B, n) as in
    `AttentionOutput`; slopes (B, n, e): y ∇h(o); sign, log_slope (B, n): the slope of the loss;
    curvature (B, n): c with y ∇h(o) = y ∇h(x) + c (o − x), 0 for a head that is linear near o."""

    logs: Floats
    top: Ints
    slopes: Floats
    sign: Floats
    log_slope: Floats
    curvature: Floats

    def plain(self) -> Slopes:
        """The same arrays, as kernels take them."""
        return Slopes._make(map(plain, self))


class AttentionWorkspace(NamedTuple):
    """Memory of one thread: w (d,), D (T, d), gap, order, mass, rises (T,), near (e,),
    part (n, d), height, shares (n,), G (dq, d)."""

    w: Floats
    D: Floats
    gap: Floats
    order: Floats
    mass: Floats
    rises: Floats
    near: Floats
    part: Floats
    height: Floats
    shares: Floats
    G: Floats

    @classmethod
    def of(cls, inputs: AttentionInputs) -> AttentionWorkspace:
        """The memory of this thread for these inputs."""
        _, n, T, d = inputs.keys.shape
        return memory(_allocate, n, T, d, inputs.values.shape[3], inputs.queries.shape[2])


def _allocate(n: int, T: int, d: int, e: int, dq: int) -> AttentionWorkspace:
    sizes = (d,), (T, d), (T,), (T,), (T,), (T,), (e,), (n, d), (n,), (n,), (dq, d)
    return AttentionWorkspace(*(np.empty(size) for size in sizes))


@njit(**ENTRY)
def _attend(
    inputs: AttentionInputs,
    W: Floats,
    work: AttentionWorkspace,
    found: AttentionOutput,
    begin: int,
    end: int,
) -> None:
    """Writes what is found for the instances from begin to end; pooled holds zeros before."""
    n, T, d = inputs.keys.shape[1:]
    e = inputs.values.shape[3]
    dq = inputs.queries.shape[2]
    w, mass = work.w, work.mass
    for b in range(begin, end):
        for i in range(n):
            for r in range(d):
                s = 0.0
                for c in range(dq):
                    s += W[b, r, c] * inputs.queries[b, i, c]
                w[r] = s
            line, pooled = found.logs[b, i], found.pooled[b, i]
            a = top_token(inputs.keys[b, i], inputs.present[b, i], w, work.D, line)
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
                        pooled[r] += p * inputs.values[b, i, t, r]
            found.top[b, i] = a


def attend(
    keys: Floats, values: Floats, queries: Floats, present: Bools, W: Floats
) -> AttentionOutput:
    """log s (B, n, T), top token (B, n) and pooled output (B, n, e) under logits k_t·W z.

    present (B, n, T): tokens that are there; log s is −inf elsewhere. W (B, d, dq).
    """
    inputs = AttentionInputs(plain(keys), plain(values), plain(queries), plain(present))
    W = plain(W)
    B, n, T, _ = keys.shape
    found = AttentionOutput(
        np.empty((B, n, T)), np.empty((B, n), np.int64), np.zeros((B, n, values.shape[3]))
    )

    def some(begin: int, end: int) -> None:
        _attend(inputs, W, AttentionWorkspace.of(inputs), found, begin, end)

    map_chunks(some, B, SHARE)
    return found


@njit(**INNER)
def _gaps_at(
    inputs: AttentionInputs, at: Slopes, work: AttentionWorkspace, D: Floats, b: int, i: int
) -> bool:
    """`gaps` of input i, in gap and order of the workspace; writes its key differences D (T, d)."""
    a, values, present = at.top[b, i], inputs.values[b, i], inputs.present[b, i]
    differences(inputs.keys[b, i], present, a, D)
    curvature, first = at.curvature[b, i], -np.inf
    if curvature != 0.0:
        first = to_pooled(values, present, a, at.logs[b, i], work.near)
    bent = curvature, first
    return gaps(values, present, a, at.slopes[b, i], bent, work.near, work.gap, work.order)


@njit(**ENTRY)
def _pull(
    inputs: AttentionInputs,
    at: Slopes,
    work: AttentionWorkspace,
    out: Floats,
    scale: Floats,
    begin: int,
    end: int,
) -> None:
    """Writes out and scale as in `pull` for the instances from begin to end."""
    n, _, d = inputs.keys.shape[1:]
    dq = inputs.queries.shape[2]
    D, gap, order, mass, rises = work.D, work.gap, work.order, work.mass, work.rises
    for b in range(begin, end):
        for i in range(n):
            work.height[i] = -np.inf
            for r in range(d):
                work.part[i, r] = 0.0
            live = False
            for c in range(dq):
                live = live or inputs.queries[b, i, c] != 0.0
            if not live or at.log_slope[b, i] == -np.inf:
                continue
            a, line = at.top[b, i], at.logs[b, i]
            apart = _gaps_at(inputs, at, work, D, b, i)
            lead, _ = soften(line, a, mass)
            delta = dot(mass, gap) * math.exp(lead)
            rise = -np.inf
            if apart and distinct(D, inputs.present[b, i], a):
                rise = tilt(gap, mass, lead, delta)
            if rise == -np.inf:
                rise = grade(D, gap, order, line, 0.0, mass, rises)
                untie(mass, rises, rise)
            if rise > -np.inf:
                combine(mass, D, work.part[i])
            work.height[i] = rise + at.log_slope[b, i]
        peak = assemble(work.part, work.height, at.sign[b], inputs.queries[b], work.shares, work.G)
        scale[b] = -np.inf
        most = 0.0
        if peak > -np.inf:
            for c in range(dq):
                for r in range(d):
                    most = max(most, abs(work.G[c, r]))
        shrink = 0.0
        if most > 0.0:
            power = math.frexp(most)[1]
            shrink = math.ldexp(1.0, -power)
            scale[b] = peak + power * math.log(2.0) - math.log(n)
        for r in range(d):
            for c in range(dq):
                out[b, r, c] = work.G[c, r] * shrink if most > 0.0 else 0.0


def pull(
    keys: Floats, values: Floats, queries: Floats, present: Bools, at: Slopes
) -> tuple[Floats, Floats]:
    """The gradient in W as (G (B, d, dq), M (B,)): it is e^M G, and M = −inf when it is zero.

    The mean over inputs is in M. The largest entry of G lies in [½, 1).
    """
    inputs = AttentionInputs(plain(keys), plain(values), plain(queries), plain(present))
    at = at.plain()
    B, _, _, d = keys.shape
    out, scale = np.empty((B, d, queries.shape[2])), np.empty(B)

    def some(begin: int, end: int) -> None:
        _pull(inputs, at, AttentionWorkspace.of(inputs), out, scale, begin, end)

    map_chunks(some, B, SHARE)
    return out, scale


@njit(**ENTRY)
def _terms(
    inputs: AttentionInputs,
    at: Slopes,
    work: AttentionWorkspace,
    D: Floats,
    share: Floats,
    power: Ints,
    begin: int,
    end: int,
) -> None:
    """Writes D, share and power as in `terms` for the instances from begin to end."""
    n, T = inputs.present.shape[1:]
    gap, order, f, height = work.gap, work.order, work.mass, work.rises
    for b in range(begin, end):
        for i in range(n):
            _gaps_at(inputs, at, work, D[b, i], b, i)
            if at.log_slope[b, i] == -np.inf:
                continue
            grade(D[b, i], gap, order, at.logs[b, i], 0.0, f, height)
            common = at.log_slope[b, i] - math.log(n)
            for t in range(T):
                if f[t] != 0.0:
                    x, e = of_log(-at.sign[b, i] * f[t], height[t] + common)
                    share[b, i, t] = x
                    power[b, i, t] = e


def terms(
    keys: Floats, values: Floats, queries: Floats, present: Bools, at: Slopes
) -> tuple[Floats, Floats, Ints]:
    """(D (B, n, T, d), share (B, n, T), power (B, n, T)): D_t = k_t − k_a and the wide x_it.

    Arguments as in `attention.pull`; the mean over inputs is in x. It is 0 for tokens that add
    nothing: the top one, those with its key, those that are not there.
    """
    inputs = AttentionInputs(plain(keys), plain(values), plain(queries), plain(present))
    at = at.plain()
    D, share = np.empty(keys.shape), np.zeros(present.shape)
    power = np.zeros(present.shape, np.int64)

    def some(begin: int, end: int) -> None:
        _terms(inputs, at, AttentionWorkspace.of(inputs), D, share, power, begin, end)

    map_chunks(some, len(keys), SHARE)
    return D, share, power
