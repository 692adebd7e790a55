"""Many steps of attention on orthonormal tokens in one kernel.

The numbers are those of `next_token.attention_look` with `optimizers.gd` or `optimizers.ngd`; only
entries of W_kq whose token occurs with the query are touched.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import ENTRY, njit, plain
from attsvm.next_token.choices import (
    Followers,
    followers,
    write_attention,
    write_choice,
    write_reading,
    write_slopes,
)
from attsvm.next_token.contexts import Contexts
from attsvm.training.models.gradient.attention import LEAST
from attsvm.training.models.gradient.fused import Log, RunState, StepSizes, log_add

# No entry of W may be larger: beyond it differences of logits lose all digits.
FAR = 1e150


class Passage(NamedTuple):
    """The sentences: pair (S, K): the entry of W of each token, −1 beyond the end; token and
    query (P,): the row and column of each such entry; log_counts (S, K), log_weights and
    weights (S,): see `Contexts`; mass: the readout is "mass"; followers: those of the tokens."""

    pair: Ints
    token: Ints
    query: Ints
    log_counts: Floats
    log_weights: Floats
    weights: Floats
    mass: bool
    followers: Followers


class Workspace(NamedTuple):
    """Memory of a run: best (S,): the top tokens; u, G (P,): the entries of W and their gradient;
    logits, logs, gap, x (S, K), loss, slope, height (S,) and own (K,)."""

    best: Ints
    u: Floats
    G: Floats
    logits: Floats
    logs: Floats
    gap: Floats
    x: Floats
    loss: Floats
    slope: Floats
    height: Floats
    own: Floats


@njit(**ENTRY)
def _march(given: Passage, room: Workspace, steps: StepSizes, state: RunState, log: Log) -> bool:
    """Whether all stayed finite; see `Descent.descend`."""
    pair, token, query = given.pair, given.token, given.query
    u, G, x, height, best = room.u, room.G, room.x, room.height, room.best
    S, K = pair.shape
    P = len(token)
    lr, normalized = steps.lr, steps.normalized
    for p in range(P):
        u[p] = state.W[0, token[p], query[p]]
    written = 0
    for k in range(len(lr)):
        for s in range(S):
            for t in range(K):
                j = pair[s, t]
                room.logits[s, t] = u[j] + given.log_counts[s, t] if j >= 0 else -np.inf
        write_attention(room.logits, room.logs, best)
        for s in range(S):
            if best[s] != state.top[0, s]:
                if state.top[0, s] >= 0:
                    state.changed[0, s] = steps.first + k
                state.top[0, s] = best[s]
        if given.mass:
            write_choice(room.logs, given.followers.right, room.loss, x, height)
        else:
            write_reading(room.logs, best, given.followers, room.loss, room.gap, room.slope)
            write_slopes(room.logs, best, room.gap, room.slope, room.own, x, height)
        peak = -np.inf
        for s in range(S):
            height[s] += given.log_weights[s]
            peak = max(peak, height[s])
        for p in range(P):
            G[p] = 0.0
        total = 0.0
        for s in range(S):
            total += given.weights[s] * room.loss[s]
            if height[s] - peak > LEAST:
                f = math.exp(height[s] - peak)
                for t in range(K):
                    if pair[s, t] >= 0:
                        G[pair[s, t]] += f * x[s, t]
        size = 0.0
        for p in range(P):
            size += G[p] * G[p]
        if not (math.isfinite(total) and (size == 0.0 or 1e-280 < size < 1e280)):
            return False
        size = math.sqrt(size)
        log_size = math.log(size) + peak if size > 0.0 else -np.inf
        if written < len(log.at) and log.at[written] == k:
            log.columns[written, 0, 0] = total
            log.columns[written, 1, 0] = log_size
            log.columns[written, 2, 0] = state.clock[0]
            for r in range(state.W.shape[1]):
                for c in range(state.W.shape[2]):
                    log.weights[written, 0, r, c] = state.W[0, r, c]
            for p in range(P):
                log.weights[written, 0, token[p], query[p]] = u[p]
            for s in range(S):
                log.tops[written, 0, s] = best[s]
                log.top_attention[written, 0, s] = math.exp(room.logs[s, best[s]])
            written += 1
        if not lr[k] >= 0.0:  # a last look without a step
            break
        f = 0.0
        if size > 0.0:
            f = lr[k] / size if normalized else lr[k] * math.exp(peak)
        far = 0.0
        for p in range(P):
            u[p] -= f * G[p]
            far = max(far, abs(u[p]))
        if not far <= FAR:
            return False
        passed = math.log(lr[k]) if lr[k] > 0.0 else -np.inf
        state.clock[0] = log_add(state.clock[0], passed - log_size if normalized else passed)
    for p in range(P):
        state.W[0, token[p], query[p]] = u[p]
    return True


class AttentionKernel:
    """The kernel on one set of contexts: lifts (S, K) of a level decoder, None for readout mass."""

    def __init__(self, contexts: Contexts, lifts: Floats | None) -> None:
        c = contexts
        there = c.tokens >= 0
        flat = np.where(there, c.tokens * c.vocabulary + c.queries[:, None], -1)
        entries, place = np.unique(flat[there], return_inverse=True)
        pair = np.full(c.tokens.shape, -1, np.int64)
        pair[there] = place
        lift = np.zeros(c.tokens.shape) if lifts is None else lifts
        self.passage = Passage(
            pair,
            entries // c.vocabulary,
            entries % c.vocabulary,
            plain(c.log_counts),
            np.log(c.weights),
            plain(c.weights),
            lifts is None,
            followers(lift, c.slot, c.known, c.right, c.vocabulary),
        )

    def descend(self, steps: StepSizes, state: RunState, log: Log) -> bool:
        """Whether the run stayed inside the range of floats; if not, all is void.

        One instance: W (1, N, N).
        """
        P, (S, K) = len(self.passage.token), self.passage.pair.shape
        sizes = (P,), (P,), (S, K), (S, K), (S, K), (S, K), (S,), (S,), (S,), (K,)
        room = Workspace(np.empty(S, np.int64), *(np.empty(size) for size in sizes))
        return bool(_march(self.passage, room, steps, state, log))
