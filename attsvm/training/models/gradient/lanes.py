"""Many steps of gradient descent on W for eight instances at once, one in each lane of a vector.

The arithmetic is that of `fused`: log s_t of the tokens behind the top one, shifted by the largest
of them; differences of keys and scores from the top token, kept while it stays. What is rare (a top
token that may have changed, ties, margins beyond ±100) is done for one lane by the functions that
`fused` uses.

W is not formed between two records. With w_i = W z_i and the gradient Σ_j p_j z_jᵀ a step is

    w_i ← w_i − η Σ_j (z_j·z_i) p_j,      ‖g‖² = Σ_ij (z_j·z_i) p_i·p_j,      A_i ← A_i − η p_i

and W = W_0 + Σ A_i z_iᵀ where it is recorded. There the run begins again from the W recorded, so
that a run that goes on from a record takes the same steps (`Carry`). ‖g‖ of sums that cancel is
taken from the sum itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks
from attsvm._utils.simd import (
    LANES,
    Lanes,
    absolute,
    add,
    below,
    div,
    exp,
    fma,
    larger,
    load,
    minus,
    mul,
    splat,
    store,
    sub,
)
from attsvm.training.models.gradient.attention import FAINT, distinct, gaps, grade, top_token, untie
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
# Inputs up to which (z_j·z_i) costs less than W, whatever the width of a query.
FEW = 16
# What `below` says of eight numbers that all are.
ALL = 2**LANES - 1
# The height of inputs that add nothing: far below every other one, and finite.
NOTHING = -1e308
# Squared sums below this share of their terms are taken from their entries.
CANCELLED = 1e-4


def fits(given: Instances) -> bool:
    """Whether the kernel takes instances of this size, with this loss."""
    _, n, T, d = given.keys.shape
    small = n * T * d <= MOST and n <= max(2 * given.queries.shape[2], FEW)
    return small and given.code != SQUARED


class Carry(NamedTuple):
    """Where runs stand since the last W recorded: start (B, d, dq), w and pulled (B, n, d), left
    (B,): W = left · start + Σ pulled_i z_iᵀ. left is NaN before the first step from `start`."""

    start: Floats
    w: Floats
    pulled: Floats
    left: Floats

    @classmethod
    def of(cls, given: Instances, W: Floats) -> Carry:
        """The one that begins at W."""
        B, n, _, d = given.keys.shape
        return cls(W.copy(), np.empty((B, n, d)), np.empty((B, n, d)), np.full(B, np.nan))


class LaneWorkspace(NamedTuple):
    """Memory of one thread, lanes last: D (n, T, d, 8), products (n, n, 8) of
    queries, queries (n, dq, 8) and turned (dq, n, 8), W and start (dq, d, 8): transposes; gap, bias
    (n, T, 8): bias is −inf for the top token and those that are not there; w, pulled, part, turn
    (n, d, 8); ahead, mass (T, 8); score, height, slope, margin, sure, rounding (n, 8); held (n, 8);
    peak, square, terms, reach, left,
    factor, shrink (8,). tied, dead (n,): bit l says whether tokens tie in
    lane l, and whether its query is zero. For one lane: D1 (T, d), w1 (d,), gap1, order1, term1,
    logs1, height1 (T,), v1 (e,)."""

    D: Floats
    products: Floats
    queries: Floats
    turned: Floats
    W: Floats
    start: Floats
    gap: Floats
    bias: Floats
    w: Floats
    pulled: Floats
    part: Floats
    turn: Floats
    ahead: Floats
    mass: Floats
    score: Floats
    height: Floats
    slope: Floats
    margin: Floats
    sure: Floats
    rounding: Floats
    held: Ints
    tied: Ints
    dead: Ints
    peak: Floats
    square: Floats
    terms: Floats
    reach: Floats
    left: Floats
    factor: Floats
    shrink: Floats
    D1: Floats
    w1: Floats
    gap1: Floats
    order1: Floats
    term1: Floats
    logs1: Floats
    height1: Floats
    v1: Floats

    @classmethod
    def of(cls, given: Instances) -> LaneWorkspace:
        """The memory for these instances."""
        _, n, T, d = given.keys.shape
        e, dq = given.values.shape[3], given.queries.shape[2]
        vectors = [(n, d)] * 4 + [(T,)] * 2 + [(n,)] * 6
        matrices = [(n, n), (n, dq), (dq, n), (dq, d), (dq, d)]
        shapes = [(n, T, d), *matrices, (n, T), (n, T), *vectors]
        floats = [np.zeros((*shape, LANES)) for shape in shapes]
        ints = [np.zeros(shape, np.int64) for shape in ((n, LANES), n, n)]
        lanes = [np.zeros(LANES) for _ in range(7)]
        single = [np.zeros(shape) for shape in ((T, d), d, T, T, T, T, T, e)]
        return cls(*floats, *ints, *lanes, *single)


@njit(**INNER, forceinline=True)
def _with_bit(bits: int, l: int, on: bool) -> int:
    """The bits with bit l as it is said."""
    return (bits | (1 << l)) if on else (bits & ~(1 << l))


@njit(**INNER)
def _open(given: Instances, work: LaneWorkspace, carry: Carry, W: Floats, b: int, l: int) -> None:
    """Fills lane l with instance b."""
    n, T, d = given.keys.shape[1:]
    queries = given.queries[b]
    dq = queries.shape[1]
    reach = 0.0
    for r in range(d):
        for c in range(dq):
            reach = max(reach, abs(W[b, r, c]))
            work.start[c, r, l] = carry.start[b, r, c]
    work.reach[l] = reach
    work.left[l] = carry.left[b]
    for i in range(n):
        key = query = 0.0
        for t in range(T):
            for r in range(d):
                key = max(key, abs(given.keys[b, i, t, r]))
        for c in range(dq):
            query += abs(queries[i, c])
            work.queries[i, c, l] = work.turned[c, i, l] = queries[i, c]
        work.rounding[i, l] = ROUND * (d + 2) * d * key * query
        work.dead[i] = _with_bit(work.dead[i], l, query == 0.0)
        work.held[i, l] = -1
        for j in range(n):
            s = 0.0
            for c in range(dq):
                s += queries[i, c] * queries[j, c]
            work.products[i, j, l] = s
        for r in range(d):
            work.w[i, r, l] = carry.w[b, i, r]
            work.pulled[i, r, l] = carry.pulled[b, i, r]


@njit(**INNER)
def _close(work: LaneWorkspace, carry: Carry, b: int, l: int) -> None:
    """Keeps where instance b stands in lane l."""
    n, d, _ = work.w.shape
    carry.left[b] = work.left[l]
    for i in range(n):
        for r in range(d):
            carry.w[b, i, r] = work.w[i, r, l]
            carry.pulled[b, i, r] = work.pulled[i, r, l]
    for c in range(work.W.shape[0]):
        for r in range(d):
            carry.start[b, r, c] = work.start[c, r, l]


@njit(**INNER, forceinline=True)
def _form(work: LaneWorkspace) -> None:
    """Writes Wᵀ of every lane."""
    dq, n, _ = work.turned.shape
    row = work.w.shape[1] * LANES
    left = load(work.left, 0)
    for c in range(dq):
        _products(work.turned, work.pulled, (c * n * LANES, 0, c * row), work.W, n, row)
        for r in range(c * row, (c + 1) * row, LANES):
            store(work.W, r, fma(left, load(work.start, r), load(work.W, r)))


@njit(**INNER, forceinline=True)
def _anchor(work: LaneWorkspace) -> None:
    """Begins again from W."""
    n, dq, _ = work.queries.shape
    row = work.w.shape[1] * LANES
    for r in range(0, dq * row, LANES):
        store(work.start, r, load(work.W, r))
    for r in range(0, n * row, LANES):
        store(work.pulled, r, splat(0.0))
    for i in range(n):
        _products(work.queries, work.start, (i * dq * LANES, 0, i * row), work.w, dq, row)
    store(work.left, 0, splat(1.0))


@njit(**INNER)
def _copy(work: LaneWorkspace, out: Floats, l: int) -> None:
    """Writes W of lane l to out (d, dq)."""
    for c in range(out.shape[1]):
        for r in range(out.shape[0]):
            out[r, c] = work.W[c, r, l]


@njit(**INNER)
def _settle(given: Instances, work: LaneWorkspace, b: int, i: int, l: int) -> None:
    """Finds the top token of input i in lane l, and what depends on it."""
    T, d = work.D1.shape
    for r in range(d):
        work.w1[r] = work.w[i, r, l]
    keys, values, present = given.keys[b, i], given.values[b, i], given.present[b, i]
    a = top_token(keys, present, work.w1, work.D1, work.logs1)
    if a != work.held[i, l]:
        score = 0.0
        for r in range(len(work.v1)):
            work.v1[r] = given.labels[b, i] * given.v[b, r]
            score += work.v1[r] * values[a, r]
        apart = gaps(values, present, a, work.v1, (0.0, 0.0), work.v1, work.gap1, work.order1)
        work.held[i, l] = a
        work.score[i, l] = score
        tied = not (apart and distinct(work.D1, present, a))
        work.tied[i] = _with_bit(work.tied[i], l, tied)
        for t in range(T):
            work.gap[i, t, l] = work.gap1[t]
            work.bias[i, t, l] = 0.0 if present[t] and t != a else -np.inf
            for r in range(d):
                work.D[i, t, r, l] = work.D1[t, r]


@njit(**INNER)
def _grade(work: LaneWorkspace, i: int, l: int) -> float:
    """The height of input i in lane l where terms tie or vanish; writes its terms to mass."""
    T, d = work.D1.shape
    for t in range(T):
        work.gap1[t] = work.gap[i, t, l]
        work.order1[t] = 0.0
        work.logs1[t] = work.ahead[t, l]
        for r in range(d):
            work.D1[t, r] = work.D[i, t, r, l]
    work.logs1[work.held[i, l]] = 0.0
    shift = -math.log(work.sure[i, l])
    rise = grade(work.D1, work.gap1, work.order1, work.logs1, shift, work.term1, work.height1)
    untie(work.term1, work.height1, rise)
    for t in range(T):
        work.mass[t, l] = work.term1[t] if rise > -np.inf else 0.0
    return rise if rise > -np.inf else NOTHING


@njit(**INNER, forceinline=True)
def _logits(work: LaneWorkspace, i: int) -> None:
    """Writes ahead_t = D_t·w_i, four tokens at a time."""
    T, d = work.D1.shape
    row = d * LANES
    w, first, bias = i * row, i * T * row, i * T * LANES
    for t in range(0, T - 3, 4):
        D = first + t * row
        x0, x1 = load(work.bias, bias + t * LANES), load(work.bias, bias + (t + 1) * LANES)
        x2, x3 = load(work.bias, bias + (t + 2) * LANES), load(work.bias, bias + (t + 3) * LANES)
        for r in range(0, row, LANES):
            y = load(work.w, w + r)
            x0 = fma(load(work.D, D + r), y, x0)
            x1 = fma(load(work.D, D + row + r), y, x1)
            x2 = fma(load(work.D, D + 2 * row + r), y, x2)
            x3 = fma(load(work.D, D + 3 * row + r), y, x3)
        store(work.ahead, t * LANES, x0)
        store(work.ahead, (t + 1) * LANES, x1)
        store(work.ahead, (t + 2) * LANES, x2)
        store(work.ahead, (t + 3) * LANES, x3)
    for t in range(T - T % 4, T):
        x0 = load(work.bias, bias + t * LANES)
        for r in range(0, row, LANES):
            x0 = fma(load(work.D, first + t * row + r), load(work.w, w + r), x0)
        store(work.ahead, t * LANES, x0)


@njit(**INNER, inline="always")
def _products(
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
def _lead(work: LaneWorkspace) -> Lanes:
    """The largest logit behind that of the top token."""
    lead = splat(NOTHING)
    for t in range(work.D1.shape[0]):
        lead = larger(lead, load(work.ahead, t * LANES))
    return lead


@njit(**INNER, forceinline=True)
def _look(
    given: Instances, work: LaneWorkspace, state: RunState, first: int, step: int, i: int
) -> bool:
    """Whether all numbers of input i are well inside the floats; first: the instance of lane 0."""
    T = work.D1.shape[0]
    last = len(given.keys) - 1
    at = i * LANES
    sound = 0
    if work.held[i, 0] >= 0:
        _logits(work, i)
        certain = mul(load(work.rounding, at), load(work.reach, 0))
        sound = below(_lead(work), minus(certain))
    if sound != ALL:
        for l in range(LANES):
            if not (sound >> l) & 1:
                _settle(given, work, min(first + l, last), i, l)
                if first + l <= last:
                    _follow_top(work, state, step, first + l, i, l)
        _logits(work, i)
    lead = _lead(work)
    total = splat(0.0)
    delta = splat(0.0)
    for t in range(T):
        m = exp(sub(load(work.ahead, t * LANES), lead))
        store(work.mass, t * LANES, m)
        total = add(total, m)
        delta = fma(m, load(work.gap, (i * T + t) * LANES), delta)
    front = exp(lead)
    sure = div(splat(1.0), fma(front, total, splat(1.0)))
    delta = mul(delta, mul(front, sure))
    x = sub(load(work.score, at), delta)
    if below(absolute(x), splat(FAR)) != ALL:
        return False
    store(work.margin, at, x)
    store(work.sure, at, sure)
    store(work.height, at, lead)
    slope = minus(sure)
    if given.code == 0:
        slope = div(slope, add(splat(1.0), exp(x)))
    store(work.slope, at, slope)
    largest = splat(0.0)
    for t in range(T):
        f = mul(load(work.mass, t * LANES), sub(load(work.gap, (i * T + t) * LANES), delta))
        store(work.mass, t * LANES, f)
        largest = larger(largest, absolute(f))
    odd = work.tied[i] | (ALL - below(splat(FAINT), largest))
    far = 0
    if given.code == 0:
        far = ALL - below(absolute(x), splat(MODERATE))
    elif given.code == 1:
        far = ALL
    if odd | far | work.dead[i]:
        for l in range(LANES):
            if (work.dead[i] >> l) & 1:
                work.height[i, l] = NOTHING
                continue
            if (odd >> l) & 1:
                work.slope[i, l] /= work.sure[i, l]
                work.height[i, l] = _grade(work, i, l)
            if (far >> l) & 1:
                if given.code == 1 and not work.margin[i, l] >= LOWEST:
                    return False
                f, height = slope_of(given.code, work.margin[i, l])
                work.slope[i, l] = f if (odd >> l) & 1 else f * work.sure[i, l]
                work.height[i, l] += height
    row = work.D1.shape[1] * LANES
    _products(work.mass, work.D, (0, i * T * row, i * row), work.part, T, row)
    return True


@njit(**INNER)
def _follow_top(work: LaneWorkspace, state: RunState, step: int, b: int, i: int, l: int) -> None:
    """Keeps the top token of input i, and the step at which it changed."""
    a = work.held[i, l]
    if a != state.top[b, i]:
        if state.top[b, i] >= 0:
            state.changed[b, i] = step
        state.top[b, i] = a


@njit(**INNER, forceinline=True)
def _sum(work: LaneWorkspace) -> None:
    """Writes p_i to part, Σ_j (z_j·z_i) p_j to turn, the exponent of both to peak, ‖g‖² to square
    and the sum of its positive terms to terms."""
    n, d, _ = work.w.shape
    row = d * LANES
    peak = splat(NOTHING)
    for i in range(n):
        peak = larger(peak, load(work.height, i * LANES))
    store(work.peak, 0, peak)
    terms = splat(0.0)
    for i in range(n):
        share = exp(sub(load(work.height, i * LANES), peak))
        share = mul(share, minus(load(work.slope, i * LANES)))
        own = splat(0.0)
        for r in range(i * row, (i + 1) * row, LANES):
            p = mul(share, load(work.part, r))
            store(work.part, r, p)
            own = fma(p, p, own)
        terms = fma(own, load(work.products, (i * n + i) * LANES), terms)
    store(work.terms, 0, terms)
    square = splat(0.0)
    for i in range(n):
        _products(work.products, work.part, (i * n * LANES, 0, i * row), work.turn, n, row)
        for r in range(i * row, (i + 1) * row, LANES):
            square = fma(load(work.turn, r), load(work.part, r), square)
    store(work.square, 0, square)


@njit(**INNER)
def _square(work: LaneWorkspace, l: int) -> float:
    """‖g‖² of lane l from the entries of g."""
    n, d, _ = work.w.shape
    total = 0.0
    for c in range(work.turned.shape[0]):
        for r in range(d):
            s = 0.0
            for i in range(n):
                s += work.part[i, r, l] * work.turned[c, i, l]
            total += s * s
    return total


@njit(**INNER)
def _note(
    work: LaneWorkspace, state: RunState, log: Log, code: int, row: int, b: int, l: int
) -> None:
    """Writes the record of this number, all but log ‖g‖."""
    n = len(work.margin)
    loss = 0.0
    for i in range(n):
        loss += value_of(code, work.margin[i, l])
        log.tops[row, b, i] = state.top[b, i]
        log.top_attention[row, b, i] = work.sure[i, l]
    log.columns[row, 0, b] = loss / n
    log.columns[row, 2, b] = state.clock[b]
    _copy(work, log.weights[row, b], l)


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
    entries = work.w.size
    spread = math.log(n)
    for group in range(begin, end):
        first = group * LANES
        count = min(LANES, B - first)
        for l in range(LANES):
            _open(given, work, carry, state.W, min(first + l, B - 1), l)
        if math.isnan(work.left[0]):
            store(work.left, 0, splat(1.0))
            for q in range(0, work.W.size, LANES):
                store(work.W, q, load(work.start, q))
            _anchor(work)
        written = int(np.int64(0))  # a literal zero would be a type of its own
        for k in range(len(lr)):
            due = written < len(log.at) and log.at[written] == k
            if due:
                _form(work)
                _anchor(work)
            for i in range(n):
                if not _look(given, work, state, first, steps.first + k, i):
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
                    _note(work, state, log, given.code, written, b, l)
                    log.columns[written, 1, b] = log_size
                if ends:
                    continue
                if size == 0.0:
                    f = 0.0
                else:
                    f = lr[k] / size if normalized else lr[k] * math.exp(scale)
                work.factor[l] = -f
                work.reach[l] = abs(shrink) * work.reach[l] + f * size
                if not work.reach[l] <= FAR:
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
                w = fma(f, load(work.turn, q), mul(keep, load(work.w, q)))
                store(work.w, q, w)
                pulled = fma(f, load(work.part, q), mul(keep, load(work.pulled, q)))
                store(work.pulled, q, pulled)
        _form(work)
        for l in range(count):
            _copy(work, state.W[first + l], l)
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
        carry = Carry.of(self.given, state.W)
        if self.carry is not None and steps.first == self.next:
            carry = Carry(*(x.copy() for x in self.carry))

        def some(begin: int, end: int) -> bool:
            work = LaneWorkspace.of(self.given)
            return bool(_march(self.given, work, steps, state, carry, log, begin, end))

        inside = all(map_chunks(some, -(-len(self.given.keys) // LANES)))
        if inside:
            self.carry, self.next = carry, steps.first + len(steps.lr)
        return inside
