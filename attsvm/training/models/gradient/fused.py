"""Many steps of gradient descent in one call, for a model with a fixed linear head.

    W ← W − η g        or        W ← W − η g/‖g‖,        then W ← W − η λ W_before with decay λ

for a weight or prompt (`descend`), and for the factors of W = K Qᵀ (`descend_factors`)

    K ← K − η g_K/‖g_K‖      with      g_K = Σ_i f_i p_i q_iᵀ
    Q ← Q − η g_Q/‖g_Q‖                g_Q = Σ_i f_i z_i (Kᵀp_i)ᵀ

where q_i = Qᵀz_i, and f_i p_i z_iᵀ is the gradient in W of input i. Neither W nor its gradient is
formed there: everything is a product of a factor and a vector. With a ridge λ the loss has
λ (‖K‖² + ‖Q‖²) more, whose gradient is added where it has not lost its size: the larger of both
exponents leaves the sum.

The gradient is that of `attention`, from the same functions for one input. What depends on the top
token alone (key differences, score differences, ties) is kept from step to step and made again when
that token changes. The head is linear and fixed, so nothing is pooled: y v·o = y v·x_a − δ. Between
two steps nothing leaves the processor's cache. Its twin is `train`'s own loop, which evaluates and
steps with whole arrays.

B instances of n inputs; W (B, d, dq) is the one block of parameters, or several with one number
of columns, the rows of one below those of another. Every kernel of many steps, that for sentences
as well, takes `StepSizes`, `RunState` and `Log`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks
from attsvm.training.models.gradient.attention import (
    against,
    assemble,
    combine,
    distinct,
    dot,
    gaps,
    gather,
    grade,
    slope_at,
    soften,
    tilt,
    top_token,
    untie,
    weigh,
)


class StepSizes(NamedTuple):
    """The steps first, first + 1, … of sizes lr (K,); nan stands for a last look without a step.

    normalized: the gradient is divided by its norm. decay: λ of W ← W − η λ W.
    """

    lr: Floats
    normalized: bool
    decay: float
    first: int


class RunState(NamedTuple):
    """Where a run stands, changed in place: W (B, d, dq), clock (B,), top (B, n): the top tokens,
    −1 before the first step, and changed (B, n): the steps at which they changed last."""

    W: Floats
    clock: Floats
    top: Ints
    changed: Ints


class Log(NamedTuple):
    """The records of a run, written: weights (R, B, d, dq), columns (R, 3, B) with loss, log ‖g‖
    and clock, tops and top_attention (R, B, n). at (R,): which steps they are of, counted from the
    first one of the call."""

    at: Ints
    weights: Floats
    columns: Floats
    tops: Ints
    top_attention: Floats


@njit(**INNER, forceinline=True)
def log_add(x: float, y: float) -> float:
    """log(e^x + e^y)."""
    if x == y:
        return x + math.log(2.0)
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


# The losses the kernel knows, by their place.
CODES = ("logistic", "exponential", "linear", "squared")
SQUARED = 3
# Matrices and margins beyond this are left to the loop that tells where floats end.
FAR = 1e150
# Exponential losses are floats for margins above this, and e^x for x below it with the sign turned.
LOWEST = -700.0
# Rounding of a logit, in units of d · max |key| · Σ |w|.
ROUND = 8 * 2.0**-52
# Up to this margin 1 + e^x is a float with room to spare.
MODERATE = 100.0


class Instances(NamedTuple):
    """B instances: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq), present (B, n, T),
    labels (B, n), heads v (B, e), code, the place of their loss in CODES, and short (B, n, T) of
    `shortfall` for the squared loss."""

    keys: Floats
    values: Floats
    queries: Floats
    present: Bools
    labels: Floats
    v: Floats
    code: int
    short: Floats


class Known(NamedTuple):
    """What is known of each input of an instance while its top token a stays: held (n,) = a, −1 for
    not yet; D (n, T, d), gap, order (n, T): see `one_input`; simple (n,): no ties; score (n,) =
    y v·x_a.

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


class Looked(NamedTuple):
    """What one look at W gives: part (n, d), height, slope (n,): the gradient, see `assemble`;
    margin, sure (n,): y v·o, less 1 for the squared loss, and the attention of the top token. The
    others are workspace: U (dq, d) for Wᵀ, G (dq, d) for the gradient, w (d,), ahead, mass and
    rises (T,), shares (n,), line (e,)."""

    part: Floats
    height: Floats
    slope: Floats
    margin: Floats
    sure: Floats
    U: Floats
    G: Floats
    w: Floats
    ahead: Floats
    mass: Floats
    rises: Floats
    shares: Floats
    line: Floats


@njit(_nrt=False, forceinline=True)
def _softplus(x: float) -> float:
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(_nrt=False, forceinline=True)
def value_of(code: int, x: float) -> float:
    """ℓ(x) of the loss with this code; for the squared loss x is less by 1, see `Looked`."""
    if code == 0:
        return _softplus(-x)
    if code == 1:
        return math.exp(-x)
    if code == 2:
        return -x
    return 0.5 * (x * x)


@njit(_nrt=False, forceinline=True)
def slope_of(code: int, x: float) -> tuple[float, float]:
    """(f, g) with ℓ'(x) = f e^g of the loss with this code, not the squared one; f is within
    e^±MODERATE."""
    if code == 0:
        if abs(x) <= MODERATE:
            return -1.0 / (1.0 + math.exp(x)), 0.0
        return -1.0, -_softplus(x)
    if code == 1:
        return -1.0, -x
    return -1.0, 0.0


@njit(**INNER)
def prepare(given: Instances, known: Known, seen: Looked, b: int) -> None:
    """Writes what is known of instance b before a look."""
    keys, present, queries = given.keys[b], given.present[b], given.queries[b]
    n, T, d = keys.shape
    dq = queries.shape[1]
    for i in range(n):
        key = query = 0.0
        whole = True
        for t in range(T):
            whole = whole and present[i, t]
            for r in range(d):
                key = max(key, abs(keys[i, t, r]))
        for c in range(dq):
            query += abs(queries[i, c])
        known.held[i] = -1
        known.rounding[i] = ROUND * (d + 2) * d * key * query
        known.whole[i] = whole
        known.live[i] = query > 0.0
        for r in range(d):
            seen.part[i, r] = 0.0


@njit(**INNER)
def _load(W: Floats, U: Floats) -> float:
    """The largest entry of W (d, dq) in size; writes U = Wᵀ."""
    reach = 0.0
    for c in range(U.shape[0]):
        for r in range(U.shape[1]):
            U[c, r] = W[r, c]
            reach = max(reach, abs(W[r, c]))
    return reach


@njit(**INNER)
def _turn(given: Instances, known: Known, seen: Looked, b: int, i: int, a: int) -> None:
    """Learn what depends on the top token a of input i; D is there already."""
    values, present, v = given.values[b, i], given.present[b, i], given.v[b]
    score = 0.0
    for r in range(len(v)):
        seen.line[r] = given.labels[b, i] * v[r]
        score += seen.line[r] * values[a, r]
    apart = gaps(values, present, a, seen.line, (0.0, 0.0), seen.line, known.gap[i], known.order[i])
    known.held[i] = a
    known.score[i] = score
    known.simple[i] = apart and distinct(known.D[i], present, a)


@njit(**INNER, inline="always")
def look(given: Instances, known: Known, seen: Looked, reach: float, b: int, i: int) -> bool:
    """Whether all numbers of input i are well inside the floats; writes what is seen at W.

    seen.w holds W z, and no entry of W is above reach. A top token that no rounding could have made
    the wrong one is kept without asking again.
    """
    ahead, mass, w = seen.ahead, seen.mass, seen.w
    D, gap, present = known.D[i], known.gap[i], given.present[b, i]
    a = known.held[i]
    lead = total = 0.0
    if a >= 0:
        against(D, w, ahead)
        if not known.whole[i]:
            for t in range(len(ahead)):
                if not present[t]:
                    ahead[t] = -np.inf
        lead, total = soften(ahead, a, mass)
    if a < 0 or not lead < -known.rounding[i] * reach:
        a = top_token(given.keys[b, i], present, w, D, ahead)
        lead, total = soften(ahead, a, mass)
        if a != known.held[i]:
            _turn(given, known, seen, b, i, a)
    front = math.exp(lead)
    sure = 1.0 / (1.0 + front * total)
    delta = dot(mass, gap) * front * sure
    x = known.score[i] - delta
    if not (x >= LOWEST if given.code == 1 else abs(x) <= FAR):
        return False
    slope, height = slope_of(given.code, x)
    if given.code == SQUARED:
        slope, height = slope_at(given.short, b, i, ahead, sure)
        x = slope * math.exp(height)
    rise = -np.inf
    if known.live[i] and slope != 0.0:
        # log s_t = ahead_t + log sure, whose second part is small: a factor of the slope.
        factor = sure
        if known.simple[i]:
            rise = tilt(gap, mass, lead, delta)
        if rise == -np.inf:
            factor = 1.0
            shift = math.log1p(front * total)
            rise = grade(D, gap, known.order[i], ahead, shift, mass, seen.rises)
            untie(mass, seen.rises, rise)
        if rise > -np.inf:
            combine(mass, D, seen.part[i])
        slope *= factor
    seen.height[i] = rise + height
    seen.slope[i] = slope
    seen.margin[i] = x
    seen.sure[i] = sure
    return True


@njit(**INNER)
def note(given: Instances, seen: Looked, state: RunState, log: Log, b: int, row: int) -> None:
    """Writes the record of this number, all but log ‖g‖ and the parameters."""
    n = len(seen.margin)
    loss = 0.0
    for i in range(n):
        loss += value_of(given.code, seen.margin[i])
        log.tops[row, b, i] = state.top[b, i]
        log.top_attention[row, b, i] = seen.sure[i]
    log.columns[row, 0, b] = loss / n
    log.columns[row, 2, b] = state.clock[b]


@njit(**INNER)
def _follow_top(known: Known, state: RunState, step: int, b: int, i: int) -> None:
    """Keeps the top token of input i, and the step at which it changed."""
    a = known.held[i]
    if a != state.top[b, i]:
        if state.top[b, i] >= 0:
            state.changed[b, i] = step
        state.top[b, i] = a


@njit(**INNER)
def _turn_over(source: Floats, into: Floats) -> None:
    """Writes the transpose of the source."""
    for c in range(source.shape[0]):
        for r in range(source.shape[1]):
            into[r, c] = source[c, r]


@njit(**INNER)
def _square(G: Floats) -> float:
    """‖G‖²."""
    size = 0.0
    for r in range(G.shape[0]):
        size += dot(G[r], G[r])
    return size


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
def _step(U: Floats, G: Floats, f: float, decay: float) -> None:
    """U ← U − f G − decay U."""
    for r in range(G.shape[0]):
        for c in range(G.shape[1]):
            x = U[r, c] - f * G[r, c]
            U[r, c] = x if decay == 0.0 else x - decay * U[r, c]


@njit(**ENTRY)
def _march(
    given: Instances,
    known: Known,
    seen: Looked,
    steps: StepSizes,
    state: RunState,
    log: Log,
    begin: int,
    end: int,
) -> bool:
    """The steps of the instances from begin to end, as far as they stay inside the floats."""
    n = given.keys.shape[1]
    lr, normalized, decay = steps.lr, steps.normalized, steps.decay
    U, G = seen.U, seen.G
    for b in range(begin, end):
        prepare(given, known, seen, b)
        reach = _load(state.W[b], U)
        written = int(np.int64(0))  # a literal zero would be a type of its own
        for k in range(len(lr)):
            for i in range(n):
                combine(given.queries[b, i], U, seen.w)
                if not look(given, known, seen, reach, b, i):
                    return False
                _follow_top(known, state, steps.first + k, b, i)
            # The gradient is Gᵀ e^scale.
            scale = assemble(
                seen.part, seen.height, seen.slope, given.queries[b], seen.shares, G
            ) - math.log(n)
            size = _square(G)
            if not _inside(size) or scale > -LOWEST:
                return False
            size = math.sqrt(size)
            log_size = -np.inf if size == 0.0 else math.log(size) + scale
            if written < len(log.at) and log.at[written] == k:
                note(given, seen, state, log, b, written)
                _turn_over(U, log.weights[written, b])
                log.columns[written, 1, b] = log_size
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
            _step(U, G, f, lr[k] * decay)
        _turn_over(U, state.W[b])
    return True


def allocate(given: Instances) -> tuple[Known, Looked]:
    """The memory of one thread."""
    _, n, T, d = given.keys.shape
    dq, e = given.queries.shape[2], given.values.shape[3]
    known = Known(
        held=np.empty(n, np.int64),
        D=np.empty((n, T, d)),
        gap=np.empty((n, T)),
        order=np.empty((n, T)),
        simple=np.empty(n, np.bool_),
        score=np.empty(n),
        rounding=np.empty(n),
        whole=np.empty(n, np.bool_),
        live=np.empty(n, np.bool_),
    )
    sizes = ((n, d), n, n, n, n, (dq, d), (dq, d), d, T, T, T, n, e)
    return known, Looked(*map(np.empty, sizes))


def descend(given: Instances, steps: StepSizes, state: RunState, log: Log) -> bool:
    """Whether every instance stayed inside the range of floats; if one did not, all is void."""

    def some(begin: int, end: int) -> bool:
        return bool(_march(given, *allocate(given), steps, state, log, begin, end))

    return all(map_chunks(some, len(given.keys)))


class FactoredWorkspace(NamedTuple):
    """Memory of one thread: that of a look, the factors K (d, m), turned (m, d) = Kᵀ, Q (dq, m),
    their gradients, and ahead, back (n, m): Qᵀz_i and Kᵀp_i."""

    known: Known
    seen: Looked
    K: Floats
    turned: Floats
    Q: Floats
    slope_K: Floats
    slope_Q: Floats
    ahead: Floats
    back: Floats


@njit(**INNER)
def _move(source: Floats, into: Floats, first: int) -> float:
    """The largest entry in size of the rows of `source` from `first` on; writes them to `into`."""
    most = 0.0
    for r in range(into.shape[0]):
        for c in range(into.shape[1]):
            into[r, c] = source[first + r, c]
            most = max(most, abs(into[r, c]))
    return most


@njit(**INNER)
def _keep(factor: Floats, into: Floats, first: int) -> None:
    """Writes the factor to the rows of `into` from `first` on."""
    for r in range(factor.shape[0]):
        for c in range(factor.shape[1]):
            into[first + r, c] = factor[r, c]


@njit(**INNER)
def _pull_back(G: Floats, x: Floats, f: float, g: float) -> None:
    """G ← f G + g x."""
    for r in range(G.shape[0]):
        for c in range(G.shape[1]):
            G[r, c] = f * G[r, c] + g * x[r, c]


@njit(**ENTRY)
def _march_factors(
    given: Instances,
    work: FactoredWorkspace,
    ridge: float,
    steps: StepSizes,
    state: RunState,
    log: Log,
    begin: int,
    end: int,
) -> bool:
    """The steps of the instances from begin to end, as far as they stay inside the floats."""
    known, seen, K, turned, Q, slope_K, slope_Q, ahead, back = work
    n = given.keys.shape[1]
    lr, normalized, decay = steps.lr, steps.normalized, steps.decay
    d, m = K.shape
    dq = Q.shape[0]
    # |w| ≤ m max|K| max|Q| Σ|z|, and its rounding grows with m and dq as that of a logit with d.
    spread = m * (d + m + dq + 4.0) / (d + 2.0)
    zero = int(np.int64(0))  # a literal zero would be a type of its own
    for b in range(begin, end):
        prepare(given, known, seen, b)
        most_K = _move(state.W[b], K, zero)
        most_Q = _move(state.W[b], Q, d)
        _turn_over(K, turned)
        written = zero
        for k in range(len(lr)):
            reach = spread * most_K * most_Q
            if not reach <= FAR:
                return False
            for i in range(n):
                combine(given.queries[b, i], Q, ahead[i])
                combine(ahead[i], turned, seen.w)
                if not look(given, known, seen, reach, b, i):
                    return False
                combine(seen.part[i], K, back[i])
                _follow_top(known, state, steps.first + k, b, i)
            # The gradients are slope_K e^scale and slope_Q e^scale.
            scale = weigh(seen.height, seen.slope, seen.shares) - math.log(n)
            gather(ahead, seen.part, seen.shares, slope_K)
            gather(back, given.queries[b], seen.shares, slope_Q)
            size_K, size_Q = _square(slope_K), _square(slope_Q)
            if not (_inside(size_K) and _inside(size_Q)) or scale > -LOWEST:
                return False
            both = math.sqrt(size_K + size_Q)
            log_size = -np.inf if both == 0.0 else math.log(both) + scale
            if written < len(log.at) and log.at[written] == k:
                note(given, seen, state, log, b, written)
                _keep(K, log.weights[written, b], zero)
                _keep(Q, log.weights[written, b], d)
                log.columns[written, 1, b] = log_size
                written += 1
            if not lr[k] >= 0.0:  # a last look without a step
                break
            passed = math.log(lr[k]) if lr[k] > 0.0 else -np.inf
            if normalized:
                passed -= log_size
            if ridge > 0.0:
                own = math.log(2.0 * ridge)
                peak = max(scale, own)
                f, g = math.exp(scale - peak), math.exp(own - peak)
                _pull_back(slope_K, K, f, g)
                _pull_back(slope_Q, Q, f, g)
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
            _turn_over(K, turned)
        _keep(K, state.W[b], zero)
        _keep(Q, state.W[b], d)
    return True


def descend_factors(
    given: Instances, ridge: float, steps: StepSizes, state: RunState, log: Log
) -> bool:
    """Whether every instance stayed inside the range of floats; if one did not, all is void.

    state.W (B, d + dq, m): the rows of K, then those of Q; the records likewise. ridge: λ.
    """
    _, n, _, d = given.keys.shape
    dq, m = given.queries.shape[2], state.W.shape[2]
    sizes = (d, m), (m, d), (dq, m), (d, m), (dq, m), (n, m), (n, m)

    def some(begin: int, end: int) -> bool:
        work = FactoredWorkspace(*allocate(given), *map(np.zeros, sizes))
        return bool(_march_factors(given, work, ridge, steps, state, log, begin, end))

    return all(map_chunks(some, len(given.keys)))
