"""Many steps of gradient descent on W for eight instances at once, one in each lane of a vector.

What a kernel of many steps sees at W (`look`) is log s_t of the tokens behind the top one, shifted
by the largest of them; differences of keys and scores from the top token are kept while it stays.
What is rare (a top token that may have changed, ties, margins beyond ±100) is done for one lane by
the functions of `attention`.

W is not formed between two records. With w_i = W z_i and the gradient Σ_j p_j z_jᵀ a step is

    w_i ← w_i − η Σ_j (z_j·z_i) p_j,      ‖g‖² = Σ_ij (z_j·z_i) p_i·p_j,      A_i ← A_i − η p_i

and W = W_0 + Σ A_i z_iᵀ where it is recorded. There the run begins again from the W recorded, so
that a run that goes on from a record takes the same steps (`Carry`). ‖g‖ of sums that cancel is
taken from the sum itself.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks
from attsvm._utils.simd import (
    LANES,
    Lanes,
    absolute,
    add,
    aligned,
    below,
    div,
    exp,
    fma,
    larger,
    largest_of,
    load,
    minus,
    mul,
    splat,
    store,
    sub,
    sum_of,
)
from attsvm.training.models.gradient.attention import (
    FAINT,
    distinct,
    gaps,
    grade,
    slope_at,
    top_token,
    untie,
)
from attsvm.training.models.gradient.fused import (
    FAR,
    LOWEST,
    MODERATE,
    ROUND,
    SQUARED,
    Instances,
    Log,
    RunState,
    StepSizes,
    log_add,
    slope_of,
    value_of,
)

# Entries of key differences of one lane that stay in a processor's cache with those of the others.
MOST = 12288
# The same of eight inputs that stay in the fastest cache.
CACHED = 768
# Inputs up to which (z_j·z_i) costs less than W, whatever the width of a query.
FEW = 16
# What `below` says of eight numbers that all are.
ALL = 2**LANES - 1
# The height of inputs that add nothing: far below every other one, and finite.
NOTHING = -1e308
# Squared sums below this share of their terms are taken from their entries.
CANCELLED = 1e-4


def fits(given: Instances, *, whole: bool) -> bool:
    """Whether the kernel takes instances of this size. whole: W itself is kept, not W z_i, whose
    steps are much shorter where a query is long."""
    _, n, T, d = given.keys.shape
    dq = given.queries.shape[2]
    if not whole and 4 * (n + T) <= dq:
        return True
    return n * T * d <= MOST and n <= max(2 * dq, FEW)


class Carry(NamedTuple):
    """Where runs stand since the last W recorded: start (B, d, dq), w and pulled (B, n, d), left
    (B,): W = left · start + Σ pulled_i z_iᵀ. left is NaN before the first step from `start`. The
    rows of start and z (B, n, dq) are zero beyond dq, so that vectors fit."""

    z: Floats
    start: Floats
    w: Floats
    pulled: Floats
    left: Floats

    @classmethod
    def of(cls, given: Instances, W: Floats) -> Carry:
        """The one that begins at W."""
        B, n, _, d = given.keys.shape
        beyond = (0, 0), (0, 0), (0, -given.queries.shape[2] % LANES)
        z, start = np.pad(given.queries, beyond), np.pad(W, beyond)
        return cls(z, start, np.empty((B, n, d)), np.empty((B, n, d)), np.full(B, np.nan))


class Looks(NamedTuple):
    """What G times eight inputs see, lanes last, in memory of one thread.

    instance, input (G, 8): which they are. D (G, T, d, 8); gap, bias (G, T, 8): bias is −inf for
    the top token and those that are not there; w, part (G, ·, 8): at least d rows; ahead, mass
    (T, 8); score, height, slope, margin, sure, rounding (G, 8); reach (8,); held (G, 8). tied, dead
    (G,): bit l says whether tokens tie in lane l, and whether it adds nothing. For one lane: D1
    (T, d), w1 (d,), gap1, order1, term1, logs1, height1 (T,), v1 (e,)."""

    instance: Ints
    input: Ints
    D: Floats
    gap: Floats
    bias: Floats
    w: Floats
    part: Floats
    ahead: Floats
    mass: Floats
    score: Floats
    height: Floats
    slope: Floats
    margin: Floats
    sure: Floats
    rounding: Floats
    reach: Floats
    held: Ints
    tied: Ints
    dead: Ints
    D1: Floats
    w1: Floats
    gap1: Floats
    order1: Floats
    term1: Floats
    logs1: Floats
    height1: Floats
    v1: Floats

    @classmethod
    def sized(cls, G: int, T: int, d: int, e: int, rows: int) -> Looks:
        """The memory for groups of this size, with so many rows of w and part."""
        vectors = [(G, T)] * 2 + [(G, rows)] * 2 + [(T,)] * 2 + [(G,)] * 6 + [()]
        arrays: list[Any] = [np.zeros((G, LANES), np.int64) for _ in range(2)]
        arrays += [aligned((*shape, LANES)) for shape in ((G, T, d), *vectors)]
        arrays += [np.zeros(shape, np.int64) for shape in ((G, LANES), G, G)]
        arrays += [np.zeros(shape) for shape in ((T, d), d, T, T, T, T, T, e)]
        return cls(*arrays)


class LaneWorkspace(NamedTuple):
    """Memory of one thread, lanes last: products (n, n, 8) of queries, queries (n, dq, 8) and
    turned (dq, n, 8); pulled, turn (n, d, 8); peak, square, terms, left, factor (8,); and W
    (1, d, ·) of one lane."""

    looks: Looks
    products: Floats
    queries: Floats
    turned: Floats
    pulled: Floats
    turn: Floats
    peak: Floats
    square: Floats
    terms: Floats
    left: Floats
    factor: Floats
    W: Floats

    @classmethod
    def sized(cls, n: int, T: int, d: int, e: int, dq: int) -> LaneWorkspace:
        """The memory for eight instances of this size."""
        shapes: list[tuple[int, ...]] = [(n, n), (n, dq), (dq, n), (n, d), (n, d), *[()] * 5]
        floats: list[Any] = [aligned((*shape, LANES)) for shape in shapes]
        floats.append(aligned((1, d, dq + -dq % LANES)))
        return cls(Looks.sized(n, T, d, e, d), *floats)


@njit(**INNER, forceinline=True)
def _with_bit(bits: int, l: int, on: bool) -> int:
    """The bits with bit l as it is said."""
    return (bits | (1 << l)) if on else (bits & ~(1 << l))


@njit(**INNER)
def open_input(given: Instances, looks: Looks, b: int, i: int, g: int, l: int) -> None:
    """Fills lane l of group g with input i of instance b."""
    _, n, T, d = given.keys.shape
    first, last = (b * n + i) * T * d, (b * n + i + 1) * T * d
    whole, most = last - T * d % LANES, splat(0.0)
    for q in range(first, whole, LANES):
        most = larger(most, absolute(load(given.keys, q)))
    key, query = largest_of(most), 0.0
    for q in range(whole - first, T * d):
        key = max(key, abs(given.keys[b, i, q // d, q % d]))
    for c in range(given.queries.shape[2]):
        query += abs(given.queries[b, i, c])
    looks.instance[g, l] = b
    looks.input[g, l] = i
    looks.held[g, l] = -1
    looks.rounding[g, l] = ROUND * (d + 2) * d * key * query
    looks.dead[g] = _with_bit(looks.dead[g], l, query == 0.0)


@njit(**INNER)
def open_lane(given: Instances, work: LaneWorkspace, W: Floats, b: int, l: int) -> None:
    """Fills lane l with instance b at W (B, d, dq)."""
    n, d = len(work.queries), given.keys.shape[3]
    queries = given.queries[b]
    dq = queries.shape[1]
    reach = 0.0
    for r in range(d):
        for c in range(dq):
            reach = max(reach, abs(W[b, r, c]))
    work.looks.reach[l] = reach
    for i in range(n):
        open_input(given, work.looks, b, i, i, l)
        for c in range(dq):
            work.queries[i, c, l] = work.turned[c, i, l] = queries[i, c]
        for j in range(n):
            s = 0.0
            for c in range(dq):
                s += queries[i, c] * queries[j, c]
            work.products[i, j, l] = s


@njit(**INNER)
def _restore(work: LaneWorkspace, carry: Carry, b: int, l: int) -> None:
    """Goes on in lane l from where instance b stands."""
    n, d, _ = work.pulled.shape
    work.left[l] = carry.left[b]
    for i in range(n):
        for r in range(d):
            work.looks.w[i, r, l] = carry.w[b, i, r]
            work.pulled[i, r, l] = carry.pulled[b, i, r]


@njit(**INNER)
def _close(work: LaneWorkspace, carry: Carry, b: int, l: int) -> None:
    """Keeps where instance b stands in lane l."""
    n, d, _ = work.pulled.shape
    carry.left[b] = work.left[l]
    for i in range(n):
        for r in range(d):
            carry.w[b, i, r] = work.looks.w[i, r, l]
            carry.pulled[b, i, r] = work.pulled[i, r, l]


@njit(**INNER)
def _form(work: LaneWorkspace, carry: Carry, out: Floats, first: int, b: int, l: int) -> None:
    """Writes W of lane l, instance b, to the flat array from `first` on, in the rows of start."""
    n, d, _ = work.pulled.shape
    wide = carry.z.shape[2]
    for r in range(d):
        at, z = (b * d + r) * wide, b * n * wide
        for c in range(0, wide, LANES):
            x = mul(splat(work.left[l]), load(carry.start, at + c))
            for i in range(n):
                x = fma(splat(work.pulled[i, r, l]), load(carry.z, z + i * wide + c), x)
            store(out, first + r * wide + c, x)


@njit(**INNER)
def _keep(rows: Floats, into: Floats) -> None:
    """Writes what is not padding."""
    for r in range(into.shape[0]):
        for c in range(into.shape[1]):
            into[r, c] = rows[r, c]


@njit(**INNER)
def _anchor(work: LaneWorkspace, carry: Carry, b: int, l: int) -> None:
    """Begins in lane l from the start that instance b has."""
    n, d, _ = work.pulled.shape
    wide = carry.z.shape[2]
    work.left[l] = 1.0
    for r in range(d):
        for i in range(n):
            at, z = (b * d + r) * wide, (b * n + i) * wide
            x0 = x1 = splat(0.0)
            for c in range(0, wide - LANES, 2 * LANES):
                x0 = fma(load(carry.start, at + c), load(carry.z, z + c), x0)
                x1 = fma(load(carry.start, at + c + LANES), load(carry.z, z + c + LANES), x1)
            if wide % (2 * LANES):
                c = wide - LANES
                x0 = fma(load(carry.start, at + c), load(carry.z, z + c), x0)
            work.looks.w[i, r, l] = sum_of(add(x0, x1))
            work.pulled[i, r, l] = 0.0


@njit(**INNER)
def _settle(given: Instances, looks: Looks, g: int, l: int) -> None:
    """Finds the top token of lane l in group g, and what depends on it."""
    T, d = looks.D1.shape
    b, i = looks.instance[g, l], looks.input[g, l]
    for r in range(d):
        looks.w1[r] = looks.w[g, r, l]
    keys, values, present = given.keys[b, i], given.values[b, i], given.present[b, i]
    a = top_token(keys, present, looks.w1, looks.D1, looks.logs1)
    if a != looks.held[g, l]:
        score = 0.0
        for r in range(len(looks.v1)):
            looks.v1[r] = given.labels[b, i] * given.v[b, r]
            score += looks.v1[r] * values[a, r]
        slope = looks.v1
        apart = gaps(values, present, a, slope, (0.0, 0.0), slope, looks.gap1, looks.order1)
        looks.held[g, l] = a
        looks.score[g, l] = score
        tied = not (apart and distinct(looks.D1, present, a))
        looks.tied[g] = _with_bit(looks.tied[g], l, tied)
        for t in range(T):
            looks.gap[g, t, l] = looks.gap1[t]
            looks.bias[g, t, l] = 0.0 if present[t] and t != a else -np.inf
            for r in range(d):
                looks.D[g, t, r, l] = looks.D1[t, r]


@njit(**INNER)
def _follow_top(looks: Looks, state: RunState, step: int, g: int, l: int) -> None:
    """Keeps the top token of lane l in group g, and the step at which it changed."""
    a, b, i = looks.held[g, l], looks.instance[g, l], looks.input[g, l]
    if a != state.top[b, i]:
        if state.top[b, i] >= 0:
            state.changed[b, i] = step
        state.top[b, i] = a


@njit(**INNER)
def _grade(looks: Looks, g: int, l: int) -> float:
    """The height of lane l in group g where terms tie or vanish; writes its terms to mass."""
    T, d = looks.D1.shape
    for t in range(T):
        looks.gap1[t] = looks.gap[g, t, l]
        looks.order1[t] = 0.0
        looks.logs1[t] = looks.ahead[t, l]
        for r in range(d):
            looks.D1[t, r] = looks.D[g, t, r, l]
    looks.logs1[looks.held[g, l]] = 0.0
    shift = -math.log(looks.sure[g, l])
    term, height = looks.term1, looks.height1
    rise = grade(looks.D1, looks.gap1, looks.order1, looks.logs1, shift, term, height)
    untie(term, height, rise)
    for t in range(T):
        looks.mass[t, l] = term[t] if rise > -np.inf else 0.0
    return rise if rise > -np.inf else NOTHING


@njit(**INNER, forceinline=True)
def _logits(looks: Looks, g: int) -> None:
    """Writes ahead_t = D_t·w, four tokens at a time."""
    T, d = looks.D1.shape
    row = d * LANES
    w, first, bias = g * looks.w.shape[1] * LANES, g * T * row, g * T * LANES
    for t in range(0, T - 3, 4):
        D = first + t * row
        x0, x1 = load(looks.bias, bias + t * LANES), load(looks.bias, bias + (t + 1) * LANES)
        x2, x3 = load(looks.bias, bias + (t + 2) * LANES), load(looks.bias, bias + (t + 3) * LANES)
        for r in range(0, row, LANES):
            y = load(looks.w, w + r)
            x0 = fma(load(looks.D, D + r), y, x0)
            x1 = fma(load(looks.D, D + row + r), y, x1)
            x2 = fma(load(looks.D, D + 2 * row + r), y, x2)
            x3 = fma(load(looks.D, D + 3 * row + r), y, x3)
        store(looks.ahead, t * LANES, x0)
        store(looks.ahead, (t + 1) * LANES, x1)
        store(looks.ahead, (t + 2) * LANES, x2)
        store(looks.ahead, (t + 3) * LANES, x3)
    for t in range(T - T % 4, T):
        x0 = load(looks.bias, bias + t * LANES)
        for r in range(0, row, LANES):
            x0 = fma(load(looks.D, first + t * row + r), load(looks.w, w + r), x0)
        store(looks.ahead, t * LANES, x0)


@njit(**INNER, inline="always")
def products(
    f: Floats, A: Floats, at: tuple[int, int, int], out: Floats, count: int, row: int
) -> None:
    """Writes out = Σ_k f_k A_k, rows of A and out of length `row`, four entries at a time.

    at: where f, A and out begin.
    """
    own, first, into = at
    for r in range(0, row - 3 * LANES, 4 * LANES):
        x0 = x1 = x2 = x3 = splat(0.0)
        for k in range(count):
            y, a = load(f, own + k * LANES), first + k * row + r
            x0 = fma(y, load(A, a), x0)
            x1 = fma(y, load(A, a + LANES), x1)
            x2 = fma(y, load(A, a + 2 * LANES), x2)
            x3 = fma(y, load(A, a + 3 * LANES), x3)
        store(out, into + r, x0)
        store(out, into + r + LANES, x1)
        store(out, into + r + 2 * LANES, x2)
        store(out, into + r + 3 * LANES, x3)
    for r in range(row - row % (4 * LANES), row, LANES):
        x0 = splat(0.0)
        for k in range(count):
            x0 = fma(load(f, own + k * LANES), load(A, first + k * row + r), x0)
        store(out, into + r, x0)


@njit(**INNER, forceinline=True)
def _add_up(looks: Looks, g: int) -> None:
    """Writes Σ_t mass_t D_t to part. What the cache does not hold is read token by token, those
    first whose D was read last."""
    T, d = looks.D1.shape
    row, into = d * LANES, g * looks.part.shape[1] * LANES
    if T * d <= CACHED:
        products(looks.mass, looks.D, (0, g * T * row, into), looks.part, T, row)
        return
    for r in range(into, into + row, LANES):
        store(looks.part, r, splat(0.0))
    for t in range(T - 4, -1, -4):
        a = (g * T + t) * row
        y0, y1 = load(looks.mass, t * LANES), load(looks.mass, (t + 1) * LANES)
        y2, y3 = load(looks.mass, (t + 2) * LANES), load(looks.mass, (t + 3) * LANES)
        for r in range(0, row, LANES):
            x = fma(y3, load(looks.D, a + 3 * row + r), load(looks.part, into + r))
            x = fma(y2, load(looks.D, a + 2 * row + r), x)
            x = fma(y1, load(looks.D, a + row + r), x)
            store(looks.part, into + r, fma(y0, load(looks.D, a + r), x))
    for t in range(T % 4 - 1, -1, -1):
        a, y = (g * T + t) * row, load(looks.mass, t * LANES)
        for r in range(0, row, LANES):
            x = load(looks.part, into + r)
            store(looks.part, into + r, fma(y, load(looks.D, a + r), x))


@njit(**INNER, forceinline=True)
def _lead(looks: Looks) -> Lanes:
    """The largest logit behind that of the top token."""
    lead = splat(NOTHING)
    for t in range(looks.D1.shape[0]):
        lead = larger(lead, load(looks.ahead, t * LANES))
    return lead


@njit(**INNER)
def _far_slope(given: Instances, looks: Looks, g: int, l: int) -> tuple[float, float]:
    """(f, h): the slope of the loss in lane l of group g is f e^h; a squared loss has its margin
    from it, less 1."""
    if given.code != SQUARED:
        return slope_of(given.code, looks.margin[g, l])
    for t in range(len(looks.logs1)):
        looks.logs1[t] = looks.ahead[t, l]
    looks.logs1[looks.held[g, l]] = 0.0
    b, i = looks.instance[g, l], looks.input[g, l]
    f, height = slope_at(given.short, b, i, looks.logs1, looks.sure[g, l])
    looks.margin[g, l] = f * math.exp(height)
    return f, height if f != 0.0 else NOTHING


@njit(**INNER, forceinline=True)
def look(given: Instances, looks: Looks, state: RunState, step: int, g: int) -> bool:
    """Whether all numbers of group g are well inside the floats."""
    T = looks.D1.shape[0]
    at = g * LANES
    sound = 0
    if looks.held[g, 0] >= 0:
        _logits(looks, g)
        certain = mul(load(looks.rounding, at), load(looks.reach, 0))
        sound = below(_lead(looks), minus(certain)) | looks.dead[g]
    if sound != ALL:
        for l in range(LANES):
            if not (sound >> l) & 1:
                _settle(given, looks, g, l)
                _follow_top(looks, state, step, g, l)
        _logits(looks, g)
    lead = _lead(looks)
    total = splat(0.0)
    delta = splat(0.0)
    for t in range(T):
        m = exp(sub(load(looks.ahead, t * LANES), lead))
        store(looks.mass, t * LANES, m)
        total = add(total, m)
        delta = fma(m, load(looks.gap, (g * T + t) * LANES), delta)
    front = exp(lead)
    sure = div(splat(1.0), fma(front, total, splat(1.0)))
    delta = mul(delta, mul(front, sure))
    x = sub(load(looks.score, at), delta)
    if below(absolute(x), splat(FAR)) != ALL:
        return False
    store(looks.margin, at, x)
    store(looks.sure, at, sure)
    store(looks.height, at, lead)
    slope = minus(sure)
    if given.code == 0:
        slope = div(slope, add(splat(1.0), exp(x)))
    store(looks.slope, at, slope)
    largest = splat(0.0)
    for t in range(T):
        f = mul(load(looks.mass, t * LANES), sub(load(looks.gap, (g * T + t) * LANES), delta))
        store(looks.mass, t * LANES, f)
        largest = larger(largest, absolute(f))
    dead = looks.dead[g]
    odd = looks.tied[g] | (ALL - below(splat(FAINT), largest))
    far = 0
    if given.code == 0:
        far = ALL - below(absolute(x), splat(MODERATE))
    elif given.code == 1 or given.code == SQUARED:
        far = ALL
    if odd | far | dead:
        for l in range(LANES):
            if (odd >> l) & ~(dead >> l) & 1:
                looks.slope[g, l] /= looks.sure[g, l]
                looks.height[g, l] = _grade(looks, g, l)
            if (far >> l) & 1:
                if given.code == 1 and not looks.margin[g, l] >= LOWEST:
                    return False
                f, height = _far_slope(given, looks, g, l)
                looks.slope[g, l] = f if (odd >> l) & 1 else f * looks.sure[g, l]
                looks.height[g, l] += height
            if (dead >> l) & 1:
                looks.height[g, l] = NOTHING
    _add_up(looks, g)
    return True


@njit(**INNER)
def note(looks: Looks, state: RunState, log: Log, code: int, row: int, g: int, l: int) -> float:
    """Writes the record of this number of one input, and gives its loss."""
    b, i = looks.instance[g, l], looks.input[g, l]
    log.tops[row, b, i] = state.top[b, i]
    log.top_attention[row, b, i] = looks.sure[g, l]
    return value_of(code, looks.margin[g, l])


@njit(**INNER)
def note_lane(
    work: LaneWorkspace, state: RunState, log: Log, code: int, row: int, l: int, log_size: float
) -> None:
    """Writes the record of this number of the instance in lane l."""
    n, b = len(work.queries), work.looks.instance[0, l]
    loss = 0.0
    for i in range(n):
        loss += note(work.looks, state, log, code, row, i, l)
    log.columns[row, 0, b] = loss / n
    log.columns[row, 1, b] = log_size
    log.columns[row, 2, b] = state.clock[b]


@njit(**INNER, forceinline=True)
def weigh_parts(work: LaneWorkspace) -> None:
    """Writes p_i to part, their exponent to peak and the sum of ‖p_i z_iᵀ‖² to terms."""
    n, d, _ = work.looks.w.shape
    row = d * LANES
    peak = splat(NOTHING)
    for i in range(n):
        peak = larger(peak, load(work.looks.height, i * LANES))
    store(work.peak, 0, peak)
    terms = splat(0.0)
    for i in range(n):
        share = exp(sub(load(work.looks.height, i * LANES), peak))
        share = mul(share, minus(load(work.looks.slope, i * LANES)))
        own = splat(0.0)
        for r in range(i * row, (i + 1) * row, LANES):
            p = mul(share, load(work.looks.part, r))
            store(work.looks.part, r, p)
            own = fma(p, p, own)
        terms = fma(own, load(work.products, (i * n + i) * LANES), terms)
    store(work.terms, 0, terms)


@njit(**INNER, forceinline=True)
def _sum(work: LaneWorkspace) -> None:
    """Writes p_i to part, Σ_j (z_j·z_i) p_j to turn, the exponent of both to peak, ‖g‖² to square
    and the sum of its positive terms to terms."""
    n, d, _ = work.looks.w.shape
    row = d * LANES
    weigh_parts(work)
    square = splat(0.0)
    for i in range(n):
        products(work.products, work.looks.part, (i * n * LANES, 0, i * row), work.turn, n, row)
        for r in range(i * row, (i + 1) * row, LANES):
            square = fma(load(work.turn, r), load(work.looks.part, r), square)
    store(work.square, 0, square)


@njit(**INNER)
def _square(work: LaneWorkspace, l: int) -> float:
    """‖g‖² of lane l from the entries of g."""
    n, d, _ = work.looks.w.shape
    total = 0.0
    for c in range(work.turned.shape[0]):
        for r in range(d):
            s = 0.0
            for i in range(n):
                s += work.looks.part[i, r, l] * work.turned[c, i, l]
            total += s * s
    return total


@njit(**ENTRY)
def _march(
    given: Instances,
    work: LaneWorkspace,
    steps: StepSizes,
    state: RunState,
    carry: Carry,
    log: Log,
    begin: int,
    end: int,
) -> bool:
    """The steps of the groups of eight from begin to end, as far as they stay inside the floats."""
    B, n = given.keys.shape[:2]
    lr, normalized, decay = steps.lr, steps.normalized, steps.decay
    entries = work.looks.w.size
    spread = math.log(n)
    for group in range(begin, end):
        first = group * LANES
        count = min(LANES, B - first)
        for l in range(LANES):
            b = min(first + l, B - 1)
            open_lane(given, work, state.W, b, l)
            _restore(work, carry, b, l)
            if math.isnan(work.left[l]):
                _anchor(work, carry, b, l)
        zero = int(np.int64(0))  # a literal zero would be a type of its own
        written = zero
        for k in range(len(lr)):
            due = written < len(log.at) and log.at[written] == k
            if due:
                for l in range(LANES):
                    b = min(first + l, B - 1)
                    if l < count:
                        _form(work, carry, carry.start, b * carry.start[0].size, b, l)
                        _keep(carry.start[b], log.weights[written, b])
                    _anchor(work, carry, b, l)
            for i in range(n):
                if not look(given, work.looks, state, steps.first + k, i):
                    return False
            _sum(work)
            ends = not lr[k] >= 0.0  # a last look without a step
            passed = math.log(lr[k]) if lr[k] > 0.0 else -np.inf
            shrink = 1.0 - lr[k] * decay
            for l in range(LANES):
                b = min(first + l, B - 1)
                square = work.square[l]
                if not square > CANCELLED * work.terms[l]:
                    square = _square(work, l)
                if not (square == 0.0 or 1e-280 < square < 1e280):
                    return False
                size, scale = math.sqrt(square), work.peak[l] - spread
                if size > 0.0 and scale > -LOWEST:
                    return False
                log_size = math.log(size) + scale if size > 0.0 else -np.inf
                if due and l < count:
                    note_lane(work, state, log, given.code, written, l, log_size)
                if ends:
                    continue
                if size == 0.0:
                    f = 0.0
                else:
                    f = lr[k] / size if normalized else lr[k] * math.exp(scale)
                work.factor[l] = -f
                work.looks.reach[l] = abs(shrink) * work.looks.reach[l] + f * size
                if not work.looks.reach[l] <= FAR:
                    return False
                if l < count:
                    flown = passed - log_size if normalized else passed
                    state.clock[b] = log_add(state.clock[b], flown)
            if ends:
                break
            written += due
            f = load(work.factor, 0)
            keep = splat(shrink)
            store(work.left, 0, mul(keep, load(work.left, 0)))
            for q in range(0, entries, LANES):
                w = fma(f, load(work.turn, q), mul(keep, load(work.looks.w, q)))
                store(work.looks.w, q, w)
                pulled = fma(f, load(work.looks.part, q), mul(keep, load(work.pulled, q)))
                store(work.pulled, q, pulled)
        for l in range(count):
            _form(work, carry, work.W, zero, first + l, l)
            _keep(work.W[0], state.W[first + l])
            _close(work, carry, first + l, l)
    return True


class LaneDescent:
    """The steps of all instances, from one call to the next."""

    def __init__(self, given: Instances) -> None:
        self.given = given
        self.carry: Carry | None = None
        self.next = 0

    def __call__(self, steps: StepSizes, state: RunState, log: Log) -> bool:
        """Whether every instance stayed inside the range of floats; if one did not, all is void."""
        given = self.given
        sizes = *given.keys.shape[1:], given.values.shape[3], given.queries.shape[2]
        carry = Carry.of(given, state.W)
        if self.carry is not None and steps.first == self.next:
            carry = Carry(*(x.copy() for x in self.carry))

        def some(begin: int, end: int) -> bool:
            work = LaneWorkspace.sized(*sizes)
            return bool(_march(given, work, steps, state, carry, log, begin, end))

        inside = all(map_chunks(some, -(-len(given.keys) // LANES)))
        if inside:
            self.carry, self.next = carry, steps.first + len(steps.lr)
        return inside
