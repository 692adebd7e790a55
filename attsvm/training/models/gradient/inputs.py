"""Many steps of gradient descent for one instance, eight of its inputs at once.

For instances whose key differences would not fit in the processor's cache eight times over, with
the look at W that `lanes` has: a lane is an input here, and those left over repeat the last one,
adding nothing.
W z_i of eight inputs is one product, and so is the gradient Σ_i p_i z_iᵀ of all of them, whose p_i
become rows before it.

    W ← W − η g        or        W ← W − η g/‖g‖,        then W ← W − η λ W_before with decay λ

for a weight or prompt (`descend`), and for the factors of W = K Qᵀ (`descend_factors`)

    K ← K − η g_K/‖g_K‖      with      g_K = Σ_i p_i q_iᵀ
    Q ← Q − η g_Q/‖g_Q‖                g_Q = Σ_i z_i (Kᵀp_i)ᵀ

where q_i = Qᵀz_i. Neither W nor its gradient is formed there. With a ridge λ the loss has
λ (‖K‖² + ‖Q‖²) more, whose gradient is added where it has not lost its size: the larger of both
exponents leaves the sum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks
from attsvm._utils.simd import (
    LANES,
    aligned,
    exp,
    fma,
    larger,
    largest_of,
    load,
    minus,
    mul,
    repeat,
    splat,
    store,
    store_turned,
    sub,
    sum_of,
)
from attsvm.training.models.gradient.fused import (
    FAR,
    LOWEST,
    Instances,
    Log,
    RunState,
    StepSizes,
    log_add,
)
from attsvm.training.models.gradient.lanes import NOTHING, Looks, look, note, open_input

# Rows of a sum over inputs that are added while they are in the cache.
ROWS = 32


def _padded(size: int) -> int:
    return -(-size // LANES) * LANES


class InputWorkspace(NamedTuple):
    """Memory of one thread, all zero beyond what the instance has: there (G, 8): 0 for inputs that
    repeat the last one; z (G, dq, 8), and the same as rows (8 G, ·); part (8 G, ·): rows p_i.

    Of a weight: turned (dq, ·) = Wᵀ and slope (·, ·), the gradient in it. Of factors: turned (m, ·)
    = Kᵀ, K (d, ·), Q (dq, ·), slope_K, slope_Q; ahead, back (G, m, 8): Qᵀz_i and Kᵀp_i, and both as
    rows."""

    looks: Looks
    there: Floats
    z: Floats
    rows: Floats
    part: Floats
    turned: Floats
    slope: Floats
    K: Floats
    Q: Floats
    slope_K: Floats
    slope_Q: Floats
    ahead: Floats
    back: Floats
    ahead_rows: Floats
    back_rows: Floats

    @classmethod
    def of(cls, given: Instances, m: int) -> InputWorkspace:
        """The memory for one instance; m: columns of the factors, 0 for a weight."""
        _, n, T, d = given.keys.shape
        dq, e = given.queries.shape[2], given.values.shape[3]
        G, wide, few, columns = -(-n // LANES), _padded(d), _padded(dq), _padded(m)
        rows, seen = G * LANES, (G, columns, LANES)
        shapes = [
            (G, LANES), (G, dq, LANES), (rows, few), (rows, wide), (_padded(m or dq), wide),
            (few, wide), (wide, columns), (few, columns), (wide, columns), (few, columns),
            seen, seen, (rows, columns), (rows, columns),
        ]  # fmt: skip
        return cls(Looks.sized(G, T, d, e, wide), *map(aligned, shapes))


@njit(**INNER)
def _open(given: Instances, work: InputWorkspace, b: int) -> None:
    """Fills the lanes with instance b."""
    n, dq = given.queries.shape[1:]
    for k in range(work.looks.held.size):
        g, l, i = k // LANES, k % LANES, min(k, n - 1)
        open_input(given, work.looks, b, i, g, l)
        work.there[g, l] = 1.0 if k < n else 0.0
        for c in range(dq):
            work.z[g, c, l] = given.queries[b, i, c]
            work.rows[k, c] = given.queries[b, i, c]


@njit(**INNER, forceinline=True)
def _apply(A: Floats, x: Floats, g: int, count: int, out: Floats) -> None:
    """Writes Aᵀ x_g to out_g, from the first `count` rows of A and x (G, ·, 8)."""
    wide = A.shape[1]
    first, into = g * x.shape[1] * LANES, g * out.shape[1] * LANES
    for r in range(0, wide, LANES):
        x0 = x1 = x2 = x3 = x4 = x5 = x6 = x7 = splat(0.0)
        for c in range(count):
            y, a = load(x, first + c * LANES), c * wide + r
            x0 = fma(repeat(A, a), y, x0)
            x1 = fma(repeat(A, a + 1), y, x1)
            x2 = fma(repeat(A, a + 2), y, x2)
            x3 = fma(repeat(A, a + 3), y, x3)
            x4 = fma(repeat(A, a + 4), y, x4)
            x5 = fma(repeat(A, a + 5), y, x5)
            x6 = fma(repeat(A, a + 6), y, x6)
            x7 = fma(repeat(A, a + 7), y, x7)
        a = into + r * LANES
        store(out, a, x0)
        store(out, a + LANES, x1)
        store(out, a + 2 * LANES, x2)
        store(out, a + 3 * LANES, x3)
        store(out, a + 4 * LANES, x4)
        store(out, a + 5 * LANES, x5)
        store(out, a + 6 * LANES, x6)
        store(out, a + 7 * LANES, x7)


@njit(**INNER, forceinline=True)
def _as_rows(x: Floats, g: int, out: Floats) -> None:
    """Writes the columns of x_g, x (G, ·, 8), to eight rows of out (8 G, ·)."""
    wide = out.shape[1]
    for r in range(0, wide, LANES):
        source, into = (g * x.shape[1] + r) * LANES, g * LANES * wide + r
        store_turned(x, source, LANES, out, into, wide)


@njit(**INNER)
def _outer(y: Floats, x: Floats, out: Floats) -> None:
    """Writes Σ_i y_i x_iᵀ to out, from the rows of y and x."""
    count, high, wide = len(x), y.shape[1], x.shape[1]
    for a in range(0, out.size, LANES):
        store(out, a, splat(0.0))
    for first in range(0, count, ROWS):
        last = min(first + ROWS, count)
        for r in range(0, wide, LANES):
            for c in range(0, high, LANES):
                a = c * wide + r
                x0, x1 = load(out, a), load(out, a + wide)
                x2, x3 = load(out, a + 2 * wide), load(out, a + 3 * wide)
                x4, x5 = load(out, a + 4 * wide), load(out, a + 5 * wide)
                x6, x7 = load(out, a + 6 * wide), load(out, a + 7 * wide)
                for i in range(first, last):
                    f, b = load(x, i * wide + r), i * high + c
                    x0 = fma(repeat(y, b), f, x0)
                    x1 = fma(repeat(y, b + 1), f, x1)
                    x2 = fma(repeat(y, b + 2), f, x2)
                    x3 = fma(repeat(y, b + 3), f, x3)
                    x4 = fma(repeat(y, b + 4), f, x4)
                    x5 = fma(repeat(y, b + 5), f, x5)
                    x6 = fma(repeat(y, b + 6), f, x6)
                    x7 = fma(repeat(y, b + 7), f, x7)
                store(out, a, x0)
                store(out, a + wide, x1)
                store(out, a + 2 * wide, x2)
                store(out, a + 3 * wide, x3)
                store(out, a + 4 * wide, x4)
                store(out, a + 5 * wide, x5)
                store(out, a + 6 * wide, x6)
                store(out, a + 7 * wide, x7)


@njit(**INNER)
def _weigh(looks: Looks, there: Floats) -> float:
    """The exponent of p_i; writes p_i to part."""
    peak = splat(NOTHING)
    for at in range(0, looks.height.size, LANES):
        peak = larger(peak, load(looks.height, at))
    most = largest_of(peak)
    row = looks.part.shape[1] * LANES
    for g in range(len(looks.part)):
        share = exp(sub(load(looks.height, g * LANES), splat(most)))
        share = mul(mul(share, load(there, g * LANES)), minus(load(looks.slope, g * LANES)))
        for a in range(g * row, (g + 1) * row, LANES):
            store(looks.part, a, mul(share, load(looks.part, a)))
    return most


@njit(**INNER)
def _square(x: Floats) -> float:
    """The sum of squares."""
    total = splat(0.0)
    for a in range(0, x.size, LANES):
        total = fma(load(x, a), load(x, a), total)
    return sum_of(total)


@njit(**INNER)
def _inside(size: float) -> bool:
    """Whether a sum of squares is zero or well inside the floats."""
    return size == 0.0 or 1e-280 < size < 1e280


@njit(**INNER)
def _factor(lr: float, size: float, scale: float, normalized: bool) -> float:
    """What multiplies G in a step of size lr along G e^scale, ‖G‖ = size."""
    if size == 0.0:
        return 0.0
    return lr / size if normalized else lr * math.exp(scale)


@njit(**INNER)
def _step(x: Floats, slope: Floats, f: float, decay: float) -> None:
    """x ← x − f slope − decay x."""
    for a in range(0, x.size, LANES):
        old = load(x, a)
        store(x, a, fma(splat(-f), load(slope, a), fma(splat(-decay), old, old)))


@njit(**INNER)
def _read(source: Floats, first: int, last: int, into: Floats) -> float:
    """The largest entry in size of rows first to last of `source`; writes them to `into`."""
    most = 0.0
    for r in range(last - first):
        for c in range(source.shape[1]):
            into[r, c] = source[first + r, c]
            most = max(most, abs(into[r, c]))
    return most


@njit(**INNER)
def _write(source: Floats, into: Floats, first: int, last: int) -> None:
    """Writes `source` to the rows of `into` from first to last."""
    for r in range(last - first):
        for c in range(into.shape[1]):
            into[first + r, c] = source[r, c]


@njit(**INNER)
def _turn(source: Floats, into: Floats, high: int, wide: int) -> None:
    """Writes the transpose of the source to high × wide entries."""
    square = high - high % LANES, wide - wide % LANES
    for r in range(0, square[0], LANES):
        for c in range(0, square[1], LANES):
            first, at = c * source.shape[1] + r, r * into.shape[1] + c
            store_turned(source, first, source.shape[1], into, at, into.shape[1])
    for r in range(high):
        for c in range(square[1] if r < square[0] else 0, wide):
            into[r, c] = source[c, r]


@njit(**INNER)
def _note(
    work: InputWorkspace, state: RunState, log: Log, code: int, row: int, b: int, log_size: float
) -> None:
    """Writes the record of this number, all but the parameters."""
    n = state.top.shape[1]
    loss = 0.0
    for i in range(n):
        loss += note(work.looks, state, log, code, row, i // LANES, i % LANES)
    log.columns[row, 0, b] = loss / n
    log.columns[row, 1, b] = log_size
    log.columns[row, 2, b] = state.clock[b]


@njit(**ENTRY)
def _march(
    given: Instances,
    work: InputWorkspace,
    steps: StepSizes,
    state: RunState,
    log: Log,
    begin: int,
    end: int,
) -> bool:
    """The steps of the instances from begin to end, as far as they stay inside the floats."""
    n, dq = given.queries.shape[1:]
    d = given.keys.shape[3]
    looks, W, slope = work.looks, work.turned, work.slope
    lr, normalized, decay = steps.lr, steps.normalized, steps.decay
    for b in range(begin, end):
        _open(given, work, b)
        _turn(state.W[b], W, dq, d)
        reach = 0.0
        for r in range(d):
            for c in range(dq):
                reach = max(reach, abs(state.W[b, r, c]))
        written = int(np.int64(0))  # a literal zero would be a type of its own
        for k in range(len(lr)):
            store(looks.reach, 0, splat(reach))
            for g in range(len(looks.dead)):
                _apply(W, work.z, g, dq, looks.w)
                if not look(given, looks, state, steps.first + k, g):
                    return False
            # The gradient is slopeᵀ e^scale.
            scale = _weigh(looks, work.there) - math.log(n)
            for g in range(len(looks.dead)):
                _as_rows(looks.part, g, work.part)
            _outer(work.rows, work.part, slope)
            size = _square(slope)
            if not _inside(size) or (size > 0.0 and scale > -LOWEST):
                return False
            size = math.sqrt(size)
            log_size = math.log(size) + scale if size > 0.0 else -np.inf
            if written < len(log.at) and log.at[written] == k:
                _note(work, state, log, given.code, written, b, log_size)
                _turn(W, log.weights[written, b], d, dq)
                written += 1
            if not lr[k] >= 0.0:  # a last look without a step
                break
            f = _factor(lr[k], size, scale, normalized)
            reach = abs(1.0 - lr[k] * decay) * reach + f * size
            if not reach <= FAR:
                return False
            passed = math.log(lr[k]) if lr[k] > 0.0 else -np.inf
            if normalized:
                passed -= log_size
            state.clock[b] = log_add(state.clock[b], passed)
            _step(W, slope, f, lr[k] * decay)
        _turn(W, state.W[b], d, dq)
    return True


def descend(given: Instances, steps: StepSizes, state: RunState, log: Log) -> bool:
    """Whether every instance stayed inside the range of floats; if one did not, all is void."""

    def some(begin: int, end: int) -> bool:
        work = InputWorkspace.of(given, 0)
        return bool(_march(given, work, steps, state, log, begin, end))

    return all(map_chunks(some, len(given.keys)))


@njit(**INNER)
def _pull_back(slope: Floats, x: Floats, f: float, g: float) -> None:
    """slope ← f slope + g x."""
    for a in range(0, x.size, LANES):
        store(slope, a, fma(splat(f), load(slope, a), mul(splat(g), load(x, a))))


@njit(**ENTRY)
def _march_factors(
    given: Instances,
    work: InputWorkspace,
    ridge: float,
    steps: StepSizes,
    state: RunState,
    log: Log,
    begin: int,
    end: int,
) -> bool:
    """The steps of the instances from begin to end, as far as they stay inside the floats."""
    looks, K, Q, slope_K, slope_Q = work.looks, work.K, work.Q, work.slope_K, work.slope_Q
    n, dq = given.queries.shape[1:]
    d, m = given.keys.shape[3], state.W.shape[2]
    lr, normalized, decay = steps.lr, steps.normalized, steps.decay
    # |w| ≤ m max|K| max|Q| Σ|z|, and its rounding grows with m and dq as that of a logit with d.
    spread = m * (d + m + dq + 4.0) / (d + 2.0)
    zero = int(np.int64(0))  # a literal zero would be a type of its own
    for b in range(begin, end):
        _open(given, work, b)
        most_K = _read(state.W[b], zero, d, K)
        most_Q = _read(state.W[b], d, d + dq, Q)
        written = zero
        for k in range(len(lr)):
            reach = spread * most_K * most_Q
            if not reach <= FAR:
                return False
            store(looks.reach, 0, splat(reach))
            _turn(K, work.turned, m, d)
            for g in range(len(looks.dead)):
                _apply(Q, work.z, g, dq, work.ahead)
                _apply(work.turned, work.ahead, g, m, looks.w)
                if not look(given, looks, state, steps.first + k, g):
                    return False
            # The gradients are slope_K e^scale and slope_Q e^scale.
            scale = _weigh(looks, work.there) - math.log(n)
            for g in range(len(looks.dead)):
                _apply(K, looks.part, g, d, work.back)
                _as_rows(looks.part, g, work.part)
                _as_rows(work.ahead, g, work.ahead_rows)
                _as_rows(work.back, g, work.back_rows)
            _outer(work.part, work.ahead_rows, slope_K)
            _outer(work.rows, work.back_rows, slope_Q)
            size_K, size_Q = _square(slope_K), _square(slope_Q)
            if not (_inside(size_K) and _inside(size_Q)):
                return False
            both = math.sqrt(size_K + size_Q)
            if both > 0.0 and scale > -LOWEST:
                return False
            log_size = math.log(both) + scale if both > 0.0 else -np.inf
            if written < len(log.at) and log.at[written] == k:
                _note(work, state, log, given.code, written, b, log_size)
                _write(K, log.weights[written, b], zero, d)
                _write(Q, log.weights[written, b], d, d + dq)
                written += 1
            if not lr[k] >= 0.0:  # a last look without a step
                break
            passed = math.log(lr[k]) if lr[k] > 0.0 else -np.inf
            if normalized:
                passed -= log_size
            if ridge > 0.0:
                own = math.log(2.0 * ridge)
                peak = max(scale, own)
                f, back = math.exp(scale - peak), math.exp(own - peak)
                _pull_back(slope_K, K, f, back)
                _pull_back(slope_Q, Q, f, back)
                size_K, size_Q = _square(slope_K), _square(slope_Q)
                if not (_inside(size_K) and _inside(size_Q)):
                    return False
                scale = peak
                passed = np.nan  # no longer a time of the flow of the loss
            state.clock[b] = log_add(state.clock[b], passed)
            size_K, size_Q = math.sqrt(size_K), math.sqrt(size_Q)
            f_K = _factor(lr[k], size_K, scale, normalized)
            f_Q = _factor(lr[k], size_Q, scale, normalized)
            left = abs(1.0 - lr[k] * decay)
            most_K = left * most_K + f_K * size_K
            most_Q = left * most_Q + f_Q * size_Q
            _step(K, slope_K, f_K, lr[k] * decay)
            _step(Q, slope_Q, f_Q, lr[k] * decay)
        _write(K, state.W[b], zero, d)
        _write(Q, state.W[b], d, d + dq)
    return True


def descend_factors(
    given: Instances, ridge: float, steps: StepSizes, state: RunState, log: Log
) -> bool:
    """Whether every instance stayed inside the range of floats; if one did not, all is void.

    state.W (B, d + dq, m): the rows of K, then those of Q; the records likewise. ridge: λ.
    """

    def some(begin: int, end: int) -> bool:
        work = InputWorkspace.of(given, state.W.shape[2])
        return bool(_march_factors(given, work, ridge, steps, state, log, begin, end))

    return all(map_chunks(some, len(given.keys)))
