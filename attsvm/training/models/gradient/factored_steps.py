"""Many steps of gradient descent in one call, for the factors of W = K Qᵀ and a fixed linear head.

    K ← K − η g_K/‖g_K‖      with      g_K = Σ_i f_i p_i q_iᵀ
    Q ← Q − η g_Q/‖g_Q‖                g_Q = Σ_i f_i z_i (Kᵀp_i)ᵀ

where q_i = Qᵀz_i, and f_i p_i z_iᵀ is the gradient in W of input i. Neither W nor its gradient is
formed: everything is a product of a factor and a vector. What one look at an input gives is that of
`fused`. With a ridge λ the loss has λ (‖K‖² + ‖Q‖²) more, whose gradient is added where it has not
lost its size: the larger of both exponents leaves the sum. Its twin is `train`'s own loop.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks
from attsvm.training.models.gradient.attention import combine, gather, weigh
from attsvm.training.models.gradient.fused import (
    FAR,
    LOWEST,
    Instances,
    Known,
    Log,
    Looked,
    RunState,
    StepSizes,
    allocate,
    log_add,
    look,
    note,
    prepare,
)


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
def _square(G: Floats) -> float:
    """‖G‖²."""
    size = 0.0
    for r in range(G.shape[0]):
        row = 0.0
        for c in range(G.shape[1]):
            row += G[r, c] * G[r, c]
        size += row
    return size


@njit(**INNER)
def _pull_back(G: Floats, x: Floats, f: float, g: float) -> None:
    """G ← f G + g x."""
    for r in range(G.shape[0]):
        for c in range(G.shape[1]):
            G[r, c] = f * G[r, c] + g * x[r, c]


@njit(**INNER)
def _step(x: Floats, G: Floats, f: float, decay: float) -> None:
    """x ← x − f G − decay x."""
    for r in range(G.shape[0]):
        for c in range(G.shape[1]):
            y = x[r, c] - f * G[r, c]
            x[r, c] = y if decay == 0.0 else y - decay * x[r, c]


@njit(**INNER)
def _turn_over(K: Floats, turned: Floats) -> None:
    """Writes Kᵀ."""
    for c in range(turned.shape[0]):
        for r in range(turned.shape[1]):
            turned[c, r] = K[r, c]


@njit(**INNER)
def _inside(size: float) -> bool:
    """Whether a sum of squares is zero or well inside the floats."""
    return size == 0.0 or 1e-280 < size < 1e280


@njit(**ENTRY)
def _march(
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
                a = known.held[i]
                if a != state.top[b, i]:
                    if state.top[b, i] >= 0:
                        state.changed[b, i] = steps.first + k
                    state.top[b, i] = a
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
            f_K = f_Q = 0.0
            if size_K > 0.0:
                f_K = lr[k] / size_K if normalized else lr[k] * math.exp(scale)
            if size_Q > 0.0:
                f_Q = lr[k] / size_Q if normalized else lr[k] * math.exp(scale)
            left = abs(1.0 - lr[k] * decay)
            most_K = left * most_K + f_K * size_K
            most_Q = left * most_Q + f_Q * size_Q
            _step(K, slope_K, f_K, lr[k] * decay)
            _step(Q, slope_Q, f_Q, lr[k] * decay)
            _turn_over(K, turned)
        _keep(K, state.W[b], zero)
        _keep(Q, state.W[b], d)
    return True


def _memory(given: Instances, m: int) -> FactoredWorkspace:
    """The memory of one thread, for factors with m columns."""
    _, n, _, d = given.keys.shape
    dq = given.queries.shape[2]
    sizes = (d, m), (m, d), (dq, m), (d, m), (dq, m), (n, m), (n, m)
    return FactoredWorkspace(*allocate(given), *(np.zeros(size) for size in sizes))


def descend(given: Instances, ridge: float, steps: StepSizes, state: RunState, log: Log) -> bool:
    """Whether every instance stayed inside the range of floats; if one did not, all is void.

    state.W (B, d + dq, m): the rows of K, then those of Q; the records likewise. ridge: λ.
    """

    def some(begin: int, end: int) -> bool:
        work = _memory(given, state.W.shape[2])
        return bool(_march(given, work, ridge, steps, state, log, begin, end))

    return all(map_chunks(some, len(given.keys)))
