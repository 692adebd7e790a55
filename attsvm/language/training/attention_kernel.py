"""Many steps of attention on orthonormal tokens in one kernel.

The numbers are those of `next_token.attention_look` with `rules.gd` or `rules.ngd`; only entries
of W_kq whose token occurs with the query are touched.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm.ground.arrays import Bools, Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.language.choices import attend, choose, read_followers, tilt
from attsvm.language.contexts import Contexts
from attsvm.models.gradient.one_input import LEAST
from attsvm.models.gradient.steps import Log, State, Steps

# No entry of W may be larger: beyond it differences of logits lose all digits.
FAR = 1e150


@njit()
def _march(
    pair: Ints, token: Ints, query: Ints, log_counts: Floats, log_weights: Floats,
    weights: Floats, mass: bool, lifts: Floats, slot: Ints, known: Ints, right: Bools, N: int,
    lr: Floats, normalized: bool, first: int, at: Ints, W: Floats, clock: Floats, top: Ints,
    changed: Ints, out: Floats, columns: Floats, tops: Ints, sureness: Floats,
) -> bool:  # fmt: skip
    """Whether all stayed finite; see `descend`. pair (S, K): the entry of W of each token."""
    S, K = pair.shape
    P = len(token)
    u = np.empty(P)
    for p in range(P):
        u[p] = W[0, token[p], query[p]]
    logits, G = np.empty((S, K)), np.empty(P)
    written = 0
    for k in range(len(lr)):
        for s in range(S):
            for t in range(K):
                j = pair[s, t]
                logits[s, t] = u[j] + log_counts[s, t] if j >= 0 else -np.inf
        logs, best = attend(logits)
        for s in range(S):
            if best[s] != top[0, s]:
                if top[0, s] >= 0:
                    changed[0, s] = first + k
                top[0, s] = best[s]
        if mass:
            loss, x, height = choose(logs, right)
        else:
            loss, gap, slope = read_followers(logs, best, lifts, slot, known, right, N)
            x, height = tilt(logs, best, gap, slope)
        peak = -np.inf
        for s in range(S):
            height[s] += log_weights[s]
            peak = max(peak, height[s])
        G[:] = 0.0
        total = 0.0
        for s in range(S):
            total += weights[s] * loss[s]
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
        if written < len(at) and at[written] == k:
            columns[written, 0, 0] = total
            columns[written, 1, 0] = log_size
            columns[written, 2, 0] = clock[0]
            out[written] = W
            for p in range(P):
                out[written, 0, token[p], query[p]] = u[p]
            for s in range(S):
                tops[written, 0, s] = best[s]
                sureness[written, 0, s] = math.exp(logs[s, best[s]])
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
        clock[0] = np.logaddexp(clock[0], passed - log_size if normalized else passed)
    for p in range(P):
        W[0, token[p], query[p]] = u[p]
    return True


class AttentionKernel:
    """The kernel on one set of contexts: lifts (S, K) of a level decoder, None for readout mass."""

    def __init__(self, contexts: Contexts, lifts: Floats | None) -> None:
        c = contexts
        there = c.tokens >= 0
        flat = np.where(there, c.tokens * c.vocabulary + c.queries[:, None], -1)
        entries, place = np.unique(flat[there], return_inverse=True)
        self.pair = np.full(c.tokens.shape, -1, np.int64)
        self.pair[there] = place
        self.token, self.query = entries // c.vocabulary, entries % c.vocabulary
        self.contexts = c
        self.mass = lifts is None
        self.lifts = np.zeros(c.tokens.shape) if lifts is None else lifts

    def descend(self, steps: Steps, state: State, log: Log) -> bool:
        """Whether the run stayed inside the range of floats; if not, all is void.

        One instance: W (1, N, N).
        """
        c = self.contexts
        return bool(
            _march(
                self.pair, self.token, self.query, c.log_counts, np.log(c.weights), c.weights,
                self.mass, self.lifts, c.slot, c.known, c.right, c.vocabulary, steps.lr,
                steps.normalized, steps.first, log.at, state.W, state.clock, state.top,
                state.changed, log.weights, log.columns, log.tops, log.sureness,
            )
        )  # fmt: skip
