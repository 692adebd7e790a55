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
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.compiled import ENTRY, INNER, njit, plain
from attsvm._utils.parallel import map_chunks, memory
from attsvm.training.models.gradient.one_input import (
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


@njit(**INNER)
def assemble(
    part: Floats, height: Floats, slope: Floats, queries: Floats, shares: Floats, G: Floats
) -> float:
    """The exponent of the sum −Σ_i slope_i e^height_i part_i z_iᵀ over inputs; writes G (dq, d).

    The sum is Gᵀ e^exponent. part (n, d), height, slope (n,), queries (n, dq): see `weigh` and
    `gather`; shares (n,) is room.
    """
    peak = weigh(height, slope, shares)
    gather(part, queries, shares, G)
    return peak


class Inputs(NamedTuple):
    """What attention sees: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq), and
    present (B, n, T), the tokens that are there."""

    keys: Floats
    values: Floats
    queries: Floats
    present: Bools


class Attention(NamedTuple):
    """What attention gives: log s (B, n, T), −inf for tokens that are not there, the top token
    (B, n) and the pooled output (B, n, e)."""

    logs: Floats
    top: Ints
    pooled: Floats


class Slopes(NamedTuple):
    """The loss behind attention, near where it stands: logs (B, n, T) and top (B, n) as in
    `Attention`; slopes (B, n, e): y ∇h(o); sign, log_slope (B, n): the loss's slope at the margin;
    curvature (B, n): c with y ∇h(o) = y ∇h(x) + c (o − x), 0 for a head that is linear near o."""

    logs: Floats
    top: Ints
    slopes: Floats
    sign: Floats
    log_slope: Floats
    curvature: Floats

    def plain(self) -> Slopes:
        """The same arrays, as kernels take them."""
        return Slopes(
            plain(self.logs),
            plain(self.top),
            plain(self.slopes),
            plain(self.sign),
            plain(self.log_slope),
            plain(self.curvature),
        )


class Workspace(NamedTuple):
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
    def of(cls, inputs: Inputs) -> Workspace:
        """The memory of this thread for these inputs."""
        _, n, T, d = inputs.keys.shape
        return memory(_room, n, T, d, inputs.values.shape[3], inputs.queries.shape[2])


def _room(n: int, T: int, d: int, e: int, dq: int) -> Workspace:
    sizes = (d,), (T, d), (T,), (T,), (T,), (T,), (e,), (n, d), (n,), (n,), (dq, d)
    return Workspace(*(np.empty(size) for size in sizes))


@njit(**ENTRY)
def _attend(
    inputs: Inputs, W: Floats, room: Workspace, found: Attention, begin: int, end: int
) -> None:
    """Writes what is found for the instances from begin to end; pooled holds zeros before."""
    n, T, d = inputs.keys.shape[1:]
    e = inputs.values.shape[3]
    dq = inputs.queries.shape[2]
    w, mass = room.w, room.mass
    for b in range(begin, end):
        for i in range(n):
            for r in range(d):
                s = 0.0
                for c in range(dq):
                    s += W[b, r, c] * inputs.queries[b, i, c]
                w[r] = s
            line, pooled = found.logs[b, i], found.pooled[b, i]
            a = top_token(inputs.keys[b, i], inputs.present[b, i], w, room.D, line)
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


def attend(keys: Floats, values: Floats, queries: Floats, present: Bools, W: Floats) -> Attention:
    """log s (B, n, T), top token (B, n) and pooled output (B, n, e) under logits k_t·W z.

    present (B, n, T): tokens that are there; log s is −inf elsewhere. W (B, d, dq).
    """
    inputs = Inputs(plain(keys), plain(values), plain(queries), plain(present))
    W = plain(W)
    B, n, T, _ = keys.shape
    found = Attention(
        np.empty((B, n, T)), np.empty((B, n), np.int64), np.zeros((B, n, values.shape[3]))
    )

    def some(begin: int, end: int) -> None:
        _attend(inputs, W, Workspace.of(inputs), found, begin, end)

    map_chunks(some, B, SHARE)
    return found


@njit(**ENTRY)
def _pull(
    inputs: Inputs, at: Slopes, room: Workspace, out: Floats, scale: Floats, begin: int, end: int
) -> None:
    """Writes out and scale as in `pull` for the instances from begin to end."""
    n, T, d = inputs.keys.shape[1:]
    dq = inputs.queries.shape[2]
    D, gap, order, mass, rises, near = (
        room.D,
        room.gap,
        room.order,
        room.mass,
        room.rises,
        room.near,
    )
    for b in range(begin, end):
        for i in range(n):
            room.height[i] = -np.inf
            for r in range(d):
                room.part[i, r] = 0.0
            live = False
            for c in range(dq):
                live = live or inputs.queries[b, i, c] != 0.0
            if not live or at.log_slope[b, i] == -np.inf:
                continue
            a = at.top[b, i]
            line, values, present = at.logs[b, i], inputs.values[b, i], inputs.present[b, i]
            differences(inputs.keys[b, i], present, a, D)
            first = -np.inf
            if at.curvature[b, i] != 0.0:
                first = to_pooled(values, present, a, line, near)
            apart = gaps(
                values, present, a, at.slopes[b, i], (at.curvature[b, i], first), near, gap, order
            )
            lead, _ = soften(line, a, mass)
            delta = 0.0
            for t in range(T):
                delta += mass[t] * gap[t]
            delta *= math.exp(lead)
            rise = -np.inf
            if apart and distinct(D, present, a):
                rise = tilt(gap, mass, lead, delta)
            if rise == -np.inf:
                rise = grade(D, gap, order, line, 0.0, mass, rises)
                untie(mass, rises, rise)
            if rise > -np.inf:
                combine(mass, D, room.part[i])
            room.height[i] = rise + at.log_slope[b, i]
        peak = assemble(room.part, room.height, at.sign[b], inputs.queries[b], room.shares, room.G)
        scale[b] = -np.inf
        most = 0.0
        if peak > -np.inf:
            for c in range(dq):
                for r in range(d):
                    most = max(most, abs(room.G[c, r]))
        shrink = 0.0
        if most > 0.0:
            power = math.frexp(most)[1]
            shrink = math.ldexp(1.0, -power)
            scale[b] = peak + power * math.log(2.0) - math.log(n)
        for r in range(d):
            for c in range(dq):
                out[b, r, c] = room.G[c, r] * shrink if most > 0.0 else 0.0


def pull(
    keys: Floats, values: Floats, queries: Floats, present: Bools, at: Slopes
) -> tuple[Floats, Floats]:
    """The gradient in W as (G (B, d, dq), M (B,)): it is e^M G, and M = −inf when it is zero.

    The mean over inputs is in M. The largest entry of G lies in [½, 1).
    """
    inputs = Inputs(plain(keys), plain(values), plain(queries), plain(present))
    at = at.plain()
    B, _, _, d = keys.shape
    out, scale = np.empty((B, d, queries.shape[2])), np.empty(B)

    def some(begin: int, end: int) -> None:
        _pull(inputs, at, Workspace.of(inputs), out, scale, begin, end)

    map_chunks(some, B, SHARE)
    return out, scale
