"""Many steps of gradient descent in one call, for a weight or prompt with a fixed linear head.

    W ← W − η g        or        W ← W − η g/‖g‖,        then W ← W − η λ W_before with decay λ

The gradient is that of `attention`, from the same functions for one input. Between two steps
nothing leaves the processor's cache. Its twin is `train`'s own loop, which evaluates and steps with
whole arrays.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

from attsvm.ground.arrays import Bools, Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.models.gradient.attention import assemble
from attsvm.models.gradient.one_look import (
    CODES,
    FAR,
    LOWEST,
    Instance,
    Known,
    Seen,
    know,
    look,
    slope_of,
    value_of,
)
from attsvm.models.gradient.sums import BARE, HOT

__all__ = ["CODES", "descend", "slope_of", "value_of"]


@njit(**BARE)
def _log_add(x: float, y: float) -> float:
    """log(e^x + e^y)."""
    if x == y:
        return x + math.log(2.0)
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


@njit()
def _descend_one(
    one: Instance, lr: Floats, normalized: bool, decay: float, first: int, at: Ints,
    W: Floats, clock: Floats, top: Ints, changed: Ints, weights: Floats, columns: Floats,
    tops: Ints, sureness: Floats, b: int,
) -> bool:  # fmt: skip
    """The steps of instance b; see `descend`."""
    n, T, d = one.keys.shape
    dq = W.shape[2]
    known = know(one)
    seen = Seen(
        np.zeros((n, d)), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty((1, d)),
        np.empty(T), np.empty(T), np.empty(T), np.empty(n), np.empty(len(one.v)),
    )  # fmt: skip
    G = np.empty((dq, d))
    U = np.empty((1, dq, d))  # Wᵀ
    U[0] = W[b].T
    fine = _march(
        one, known, seen, U, G, lr, normalized, decay, first, at, clock, top, changed, weights,
        columns, tops, sureness, b,
    )  # fmt: skip
    W[b] = U[0].T
    return fine


@njit(**BARE)
def _march(
    one: Instance, known: Known, seen: Seen, U: Floats, G: Floats, lr: Floats, normalized: bool,
    decay: float, first: int, at: Ints, clock: Floats, top: Ints, changed: Ints, weights: Floats,
    columns: Floats, tops: Ints, sureness: Floats, b: int,
) -> bool:  # fmt: skip
    """The steps of instance b from U (1, dq, d) = Wᵀ, which is changed; see `descend`."""
    n, dq, d = len(one.keys), U.shape[1], U.shape[2]
    reach = 0.0  # no entry of U is larger
    for c in range(dq):
        for r in range(d):
            reach = max(reach, abs(U[0, c, r]))
    written = 0
    for k in range(len(lr)):
        for i in range(n):
            if not look(one, known, seen, U, reach, i):
                return False
            a = known.held[i]
            if a != top[b, i]:
                if top[b, i] >= 0:
                    changed[b, i] = first + k
                top[b, i] = a
        # The gradient is Gᵀ e^scale.
        scale = assemble(seen.part, seen.height, seen.slope, one.queries, seen.shares, G)
        scale -= math.log(n)
        size = _squares(G)
        if not (size == 0.0 or 1e-280 < size < 1e280) or scale > -LOWEST:
            return False
        size = math.sqrt(size)
        log_size = -np.inf if size == 0.0 else math.log(size) + scale
        if written < len(at) and at[written] == k:
            loss = 0.0
            for i in range(n):
                loss += value_of(one.code, seen.margin[i])
            columns[written, 0, b] = loss / n
            columns[written, 1, b] = log_size
            columns[written, 2, b] = clock[b]
            for i in range(n):
                tops[written, b, i] = known.held[i]
                sureness[written, b, i] = seen.sure[i]
            for r in range(d):
                for c in range(dq):
                    weights[written, b, r, c] = U[0, c, r]
            written += 1
        if not lr[k] >= 0.0:  # a last look without a step
            break
        f = 0.0
        if size > 0.0:
            f = lr[k] / size if normalized else lr[k] * math.exp(scale)
        reach = abs(1.0 - lr[k] * decay) * reach + f * size
        if not reach <= FAR:
            return False
        passed = math.log(lr[k]) if lr[k] > 0.0 else -np.inf
        clock[b] = _log_add(clock[b], passed - log_size if normalized else passed)
        _step(U, G, f, lr[k] * decay)
    return True


@njit(**HOT)
def _squares(G: Floats) -> float:
    """Σ G², row by row."""
    size = 0.0
    for r in range(G.shape[0]):
        row = 0.0
        for c in range(G.shape[1]):
            row += G[r, c] * G[r, c]
        size += row
    return size


@njit(**HOT)
def _step(U: Floats, G: Floats, f: float, decay: float) -> None:
    """U ← U − f G − decay U, with U (1, dq, d)."""
    for r in range(G.shape[0]):
        for c in range(G.shape[1]):
            x = U[0, r, c] - f * G[r, c]
            U[0, r, c] = x if decay == 0.0 else x - decay * U[0, r, c]


@njit(nogil=True)
def _descend_some(
    keys: Floats, values: Floats, queries: Floats, present: Bools, labels: Floats, v: Floats,
    code: int, lr: Floats, normalized: bool, decay: float, first: int, at: Ints,
    W: Floats, clock: Floats, top: Ints, changed: Ints, weights: Floats, columns: Floats,
    tops: Ints, sureness: Floats, fine: Bools, begin: int, end: int,
) -> None:  # fmt: skip
    """The steps of the instances from begin to end; writes fine (B,); see `descend`."""
    for b in range(begin, end):
        fine[b] = _descend_one(
            Instance(keys[b], values[b], queries[b], present[b], labels[b], v[b], code),
            lr, normalized, decay, first, at, W, clock, top, changed, weights, columns, tops,
            sureness, b,
        )  # fmt: skip


def descend(
    keys: Floats, values: Floats, queries: Floats, present: Bools, labels: Floats, v: Floats,
    code: int, lr: Floats, normalized: bool, decay: float, first: int, at: Ints,
    W: Floats, clock: Floats, top: Ints, changed: Ints, weights: Floats, columns: Floats,
    tops: Ints, sureness: Floats,
) -> Bools:  # fmt: skip
    """Whether each instance (B,) stayed inside the range of floats; if one did not, all is void.

    v (B, e): the heads. code: the place of the loss in CODES. lr (K,): the step sizes of the steps
    first, first + 1, …; nan stands for a last look without a step. at (R,): which of them are
    recorded, counted from 0. Changed in place: W (B, d, dq), clock (B,), top (B, n), −1 before
    the first step, and changed (B, n). Written: weights (R, B, d, dq), columns (R, 3, B) with loss,
    log ‖g‖ and clock, tops and sureness (R, B, n).
    """
    B = len(keys)
    fine = np.zeros(B, np.bool_)

    def some(begin: int, end: int) -> None:
        _descend_some(
            keys, values, queries, present, labels, v, code, lr, normalized, decay, first, at, W,
            clock, top, changed, weights, columns, tops, sureness, fine, begin, end,
        )  # fmt: skip

    # Shares of the stack on threads of their own: instances have nothing to do with each other,
    # and a parallel kernel would take three times as long to compile.
    workers = min(numba.get_num_threads(), B)
    if workers == 1:
        some(0, B)
        return fine
    edges = np.linspace(0, B, workers + 1).astype(int).tolist()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(some, edges[:-1], edges[1:]))
    return fine
