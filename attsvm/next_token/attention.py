"""Attention over the distinct tokens of sentences: the arrays, and the compiled kernels.

One sentence: attention s over its distinct tokens, output logits z = Σ_t s_t V_t with V_t = W_ov
E[w_t], q = softmax(z), label y.

    ℓ = −log q_y,     ∂ℓ/∂h_t = s_t (G_t − δ) (1 − q_y),     G_t = (V_a − V_t)·r,   δ = Σ_t s_t G_t,
    r = (e_y − q)/(1 − q_y),   a the top token

Every term carries its own exponent: 1 − q_y and s_t leave the range of floats, their logs do not.
The functions named `write_…` are compiled and write to arrays they are given; the others make these
arrays. `attention_kernel` takes many steps on orthonormal tokens in one call; only entries of W_kq
whose token occurs with the query are touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints, plain
from attsvm._utils.compiled import ENTRY, njit
from attsvm.errors import BadTokens
from attsvm.next_token.sentences import Sentences, orthonormal
from attsvm.training.loop import Kernel
from attsvm.training.models.gradient.attention import LEAST, TIED
from attsvm.training.models.gradient.fused import Log, RunState, StepSizes, log_add

# No entry of W may be larger: beyond it differences of logits lose all digits.
FAR = 1e150


@dataclass(frozen=True, eq=False)
class Contexts:
    """S sentences with at most K distinct tokens over a vocabulary of N tokens in d dimensions.

    tokens (S, K), −1 beyond the end; log_counts (S, K): log of how often each occurs, −inf beyond;
    queries, labels (S,); weights (S,), summing to 1; follows (N,); slot (S, K): the number of each
    token's follower among the sentence's followers, −1 without one; known (S,): how many followers
    the sentence has; right (S, K): whether the follower is the label. E (N, d); `plain`: E is the
    identity.
    """

    tokens: Ints
    log_counts: Floats
    queries: Ints
    labels: Ints
    weights: Floats
    follows: Ints
    slot: Ints
    known: Ints
    right: Bools
    E: Floats
    plain: bool

    @classmethod
    def of(cls, sentences: Sentences, E: Floats, *, weights: Floats | None = None) -> Contexts:
        """The contexts of these sentences, weighted by how often they occur unless given."""
        if not sentences.size:
            raise BadTokens("there is no sentence of three or more tokens to train attention on")
        tokens, counts = sentences.distinct
        there = tokens >= 0
        with np.errstate(divide="ignore"):
            log_counts = np.log(counts)
        slot, known = _slots(np.where(there, sentences.follows[tokens], -1))
        return cls(
            tokens,
            log_counts,
            sentences.queries,
            sentences.labels,
            sentences.weights if weights is None else weights,
            sentences.follows,
            slot,
            known,
            sentences.right,
            E,
            orthonormal(E) and E.shape[0] == E.shape[1],
        )

    @property
    def vocabulary(self) -> int:
        """The number of tokens N."""
        return len(self.follows)

    def logits(self, W: Floats) -> Floats:
        """E[w]ᵀ W E[q] + log count of every token of every sentence (S, K), −inf beyond the end."""
        U = W if self.plain else self.E @ W @ self.E.T
        return U[self.tokens, self.queries[:, None]] + self.log_counts

    def combine(self, coefficients: Floats) -> Floats:
        """Σ coefficient · E[w] E[q]ᵀ over sentences and tokens (d, d)."""
        N = self.vocabulary
        there = self.tokens >= 0
        flat = (self.tokens * N + self.queries[:, None])[there]
        C = np.asarray(np.bincount(flat, coefficients[there], N * N), np.float64).reshape(N, N)
        return C if self.plain else self.E.T @ C @ self.E


def _slots(after: Ints) -> tuple[Ints, Ints]:
    """(slot (S, K), known (S,)): equal followers of one sentence share a number, from 0 on."""
    S, K = after.shape
    slot = np.full((S, K), -1, np.int64)
    known = np.zeros(S, np.int64)
    for k in range(K):
        mine = np.full(S, -1, np.int64)
        for j in range(k):
            mine = np.where((mine < 0) & (after[:, j] == after[:, k]), slot[:, j], mine)
        fresh = (mine < 0) & (after[:, k] >= 0)
        slot[:, k] = np.where(after[:, k] < 0, -1, np.where(fresh, known, mine))
        known += fresh
    return slot, known


class Followers(NamedTuple):
    """What the tokens of sentences lead to: V_t = b_t + strength_t e_n(t).

    strength (S, K); slot (S, K): the number of each token's follower among those of the sentence,
    −1 without one; known (S,): how many it has; right (S, K): whether it is the label; vocabulary:
    the number of tokens N. lift and gain (K,) are memory.
    """

    strength: Floats
    slot: Ints
    known: Ints
    right: Bools
    vocabulary: int
    lift: Floats
    gain: Floats


def followers_of(contexts: Contexts, strength: Floats | None) -> Followers:
    """The followers in these contexts; strength (N,): that of each token, None for 0."""
    c = contexts
    K = c.slot.shape[1]
    lifts = 0.0 if strength is None else strength[c.tokens]
    return Followers(
        plain(np.where(c.slot >= 0, lifts, 0.0)),
        plain(c.slot),
        plain(c.known),
        plain(c.right),
        c.vocabulary,
        np.empty(K),
        np.empty(K),
    )


@njit(**ENTRY)
def write_attention(logits: Floats, logs: Floats, top: Ints) -> None:
    """Writes log s (S, K) and the top token (S,) under logits (S, K)."""
    S, K = logits.shape
    for s in range(S):
        a = 0
        for t in range(1, K):
            if logits[s, t] > logits[s, a]:
                a = t
        rest = 0.0
        for t in range(K):
            f = logits[s, t] - logits[s, a]
            logs[s, t] = f
            if t != a and f > LEAST:
                rest += math.exp(f)
        shift = math.log1p(rest)
        for t in range(K):
            logs[s, t] -= shift
        top[s] = a


def attend(logits: Floats) -> tuple[Floats, Ints]:
    """(log s (S, K), top token (S,)) under logits (S, K), −inf where there is no token."""
    logs, top = np.empty(logits.shape), np.empty(len(logits), np.int64)
    write_attention(plain(logits), logs, top)
    return logs, top


@njit(**ENTRY)
def write_reading(
    logs: Floats, top: Ints, given: Followers, loss: Floats, gap: Floats, slope: Floats
) -> None:
    """Writes ℓ (S,), G (S, K) and log(1 − q_y) (S,) as in `read_followers`."""
    strength, slot, lift, gain = given.strength, given.slot, given.lift, given.gain
    S, K = logs.shape
    for s in range(S):
        for t in range(K):
            lift[t] = 0.0
        own = -1
        for t in range(K):
            j = slot[s, t]
            if j >= 0:
                if logs[s, t] > LEAST:
                    lift[j] += math.exp(logs[s, t]) * strength[s, t]
                if given.right[s, t]:
                    own = j
        z_y = lift[own] if own >= 0 else 0.0
        # Σ_{v≠y} e^z_v, its largest term taken out.
        known = given.known[s]
        free = given.vocabulary - known - (1 if own < 0 else 0)
        peak = 0.0 if free > 0 else -np.inf
        for j in range(known):
            if j != own:
                peak = max(peak, lift[j])
        total = free * math.exp(-peak) if free > 0 else 0.0
        for j in range(known):
            if j != own:
                total += math.exp(lift[j] - peak)
        outside = peak + math.log(total) if total > 0.0 else -np.inf
        above = outside - z_y
        loss[s] = max(above, 0.0) + math.log1p(math.exp(-abs(above)))
        slope[s] = above - loss[s]
        for t in range(K):
            j = slot[s, t]
            gain[t] = 0.0
            if j >= 0:
                r = 1.0 if j == own else -math.exp(min(lift[j] - outside, 0.0))
                gain[t] = strength[s, t] * r
        best = gain[top[s]]
        for t in range(K):
            g = best - gain[t]
            gap[s, t] = g if abs(g) > TIED * (abs(best) + abs(gain[t])) else 0.0


def read_followers(logs: Floats, top: Ints, given: Followers) -> tuple[Floats, Floats, Floats]:
    """(ℓ (S,), G (S, K), log(1 − q_y) (S,)) when V_t = b_t + strength_t e_n(t)."""
    S, K = logs.shape
    loss, gap, slope = np.empty(S), np.empty((S, K)), np.empty(S)
    write_reading(plain(logs), plain(top), given, loss, gap, slope)
    return loss, gap, slope


@njit(**ENTRY)
def write_slopes(
    logs: Floats, top: Ints, gap: Floats, log_slope: Floats, own: Floats, x: Floats, height: Floats
) -> None:
    """Writes x (S, K) and height (S,) as in `logit_slopes`; own (K,) is memory."""
    S, K = logs.shape
    for s in range(S):
        a = top[s]
        height[s] = -np.inf
        second = -np.inf
        for t in range(K):
            x[s, t] = 0.0
            if t != a and gap[s, t] != 0.0:
                second = max(second, logs[s, t])
        if second == -np.inf:
            continue
        scaled = 0.0
        for t in range(K):
            if t != a and gap[s, t] != 0.0 and logs[s, t] - second > LEAST:
                scaled += math.exp(logs[s, t] - second) * gap[s, t]
        delta = math.exp(second) * scaled
        peak = -np.inf
        for t in range(K):
            own[t] = -np.inf
            if t == a or logs[s, t] == -np.inf:
                continue
            if gap[s, t] == 0.0:
                x[s, t] = -scaled
                own[t] = logs[s, t] + second
            else:
                x[s, t] = gap[s, t] - delta
                own[t] = logs[s, t]
            if x[s, t] != 0.0:
                peak = max(peak, own[t])
        total = 0.0
        for t in range(K):
            f = own[t] - peak
            x[s, t] = x[s, t] * math.exp(f) if f > LEAST else 0.0
            total += x[s, t]
        x[s, a] = -total
        height[s] = peak + log_slope[s]


def logit_slopes(logs: Floats, top: Ints, gap: Floats, log_slope: Floats) -> tuple[Floats, Floats]:
    """(x (S, K), height (S,)): ∂ℓ/∂h_t = x_t e^height, the largest of t ≠ a near 1 in size."""
    S, K = logs.shape
    x, height = np.empty((S, K)), np.empty(S)
    write_slopes(plain(logs), plain(top), plain(gap), plain(log_slope), np.empty(K), x, height)
    return x, height


@njit(**ENTRY)
def write_choice(logs: Floats, right: Bools, loss: Floats, x: Floats, height: Floats) -> None:
    """Writes ℓ (S,), x (S, K) and height (S,) as in `read_choice`."""
    S, K = logs.shape
    for s in range(S):
        best, worst = -np.inf, -np.inf
        for t in range(K):
            if right[s, t]:
                best = max(best, logs[s, t])
            else:
                worst = max(worst, logs[s, t])
        inside, outside = 0.0, 0.0
        for t in range(K):
            x[s, t] = 0.0
            if right[s, t]:
                x[s, t] = -math.exp(logs[s, t] - best)
                inside -= x[s, t]
            elif logs[s, t] - worst > LEAST:
                x[s, t] = math.exp(logs[s, t] - worst)
                outside += x[s, t]
        if worst == -np.inf:
            loss[s], height[s] = 0.0, -np.inf
            for t in range(K):
                x[s, t] = 0.0
            continue
        for t in range(K):
            x[s, t] /= inside if right[s, t] else outside
        height[s] = worst + math.log(outside)
        above = height[s] - best - math.log(inside)
        loss[s] = max(above, 0.0) + math.log1p(math.exp(-abs(above)))


def read_choice(logs: Floats, right: Bools) -> tuple[Floats, Floats, Floats]:
    """(ℓ (S,), x (S, K), height (S,)) of ℓ = −log Σ_{right} s_t; ∂ℓ/∂h_t = x_t e^height."""
    S, K = logs.shape
    loss, x, height = np.empty(S), np.empty((S, K)), np.empty(S)
    write_choice(plain(logs), plain(right), loss, x, height)
    return loss, x, height


def read_output(
    logs: Floats, top: Ints, tokens: Ints, V: Floats, labels: Ints
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """(ℓ (S,), G (S, K), log(1 − q_y) (S,), r (S, N), pooled masses (S, N)) for any V (N, N)."""
    S, N = len(logs), len(V)
    there = tokens >= 0
    mass = np.zeros((S, N))
    np.add.at(mass, (np.nonzero(there)[0], tokens[there]), np.exp(logs)[there])
    z = mass @ V
    z_y = z[np.arange(S), labels]
    others = z.copy()
    others[np.arange(S), labels] = -np.inf
    share, outside = shares(others)
    loss = np.logaddexp(0.0, outside - z_y)
    r = -share
    r[np.arange(S), labels] = 1.0
    first = tokens[np.arange(S), top]
    away = V[first][:, None, :] - V[tokens]
    gap = np.einsum("skn,sn->sk", away, r)
    size = np.sqrt(np.square(away).sum(axis=2) * np.square(r).sum(axis=1)[:, None])
    gap[~there | (np.abs(gap) <= TIED * size)] = 0.0
    return loss, gap, outside - z_y - loss, r, mass


def shares(z: Floats) -> tuple[Floats, Floats]:
    """(softmax of each row (S, N), log Σ e^z of each row (S,)); a row of −inf gives zeros."""
    peak = z.max(axis=1, keepdims=True)
    base = np.where(np.isneginf(peak), 0.0, peak)
    e = np.exp(z - base)
    total = e.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        log = np.log(total) + base
    return e / np.where(total > 0, total, 1.0), log[:, 0]


class SentenceArrays(NamedTuple):
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


class SentenceWorkspace(NamedTuple):
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
def _march(
    given: SentenceArrays, at: SentenceWorkspace, steps: StepSizes, state: RunState, log: Log
) -> bool:
    """Whether all stayed finite; see `attention_kernel`."""
    pair, token, query = given.pair, given.token, given.query
    u, G, x, height, best = at.u, at.G, at.x, at.height, at.best
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
                at.logits[s, t] = u[j] + given.log_counts[s, t] if j >= 0 else -np.inf
        write_attention(at.logits, at.logs, best)
        for s in range(S):
            if best[s] != state.top[0, s]:
                if state.top[0, s] >= 0:
                    state.changed[0, s] = steps.first + k
                state.top[0, s] = best[s]
        if given.mass:
            write_choice(at.logs, given.followers.right, at.loss, x, height)
        else:
            write_reading(at.logs, best, given.followers, at.loss, at.gap, at.slope)
            write_slopes(at.logs, best, at.gap, at.slope, at.own, x, height)
        peak = -np.inf
        for s in range(S):
            height[s] += given.log_weights[s]
            peak = max(peak, height[s])
        for p in range(P):
            G[p] = 0.0
        total = 0.0
        for s in range(S):
            total += given.weights[s] * at.loss[s]
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
                log.top_attention[written, 0, s] = math.exp(at.logs[s, best[s]])
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


def attention_kernel(contexts: Contexts, strength: Floats | None) -> Kernel:
    """The steps of one instance W (1, N, N) on these contexts; False where they leave the range of
    floats, and all is void. strength (N,): of a level decoder, None for the readout mass."""
    c = contexts
    there = c.tokens >= 0
    flat = np.where(there, c.tokens * c.vocabulary + c.queries[:, None], -1)
    entries, place = np.unique(flat[there], return_inverse=True)
    pair = np.full(c.tokens.shape, -1, np.int64)
    pair[there] = place
    arrays = SentenceArrays(
        pair,
        entries // c.vocabulary,
        entries % c.vocabulary,
        plain(c.log_counts),
        np.log(c.weights),
        plain(c.weights),
        strength is None,
        followers_of(c, strength),
    )
    P = len(entries)
    S, K = c.tokens.shape
    sizes = (P,), (P,), (S, K), (S, K), (S, K), (S, K), (S,), (S,), (S,), (K,)

    def descend(steps: StepSizes, state: RunState, log: Log) -> bool:
        memory = SentenceWorkspace(np.empty(S, np.int64), *(np.empty(size) for size in sizes))
        return bool(_march(arrays, memory, steps, state, log))

    return descend
