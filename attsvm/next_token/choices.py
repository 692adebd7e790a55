"""The kernels of next-token training: attention over a sentence's tokens, and its slope.

The formulas are those of `choices_twin`, one sentence at a time. The functions named `write_…` are
compiled and write to arrays they are given; the others make these arrays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.compiled import ENTRY, njit, plain
from attsvm.training.models.gradient.attention import LEAST, TIED


class Followers(NamedTuple):
    """What the tokens of sentences lead to: V_t = b_t + strength_t e_n(t).

    strength (S, K); slot (S, K): the number of each token's follower among those of the sentence,
    −1 without one; known (S,): how many it has; right (S, K): whether it is the label; vocabulary:
    the number of tokens N. lift and gain (K,) are room.
    """

    strength: Floats
    slot: Ints
    known: Ints
    right: Bools
    vocabulary: int
    lift: Floats
    gain: Floats


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


def read_followers(
    logs: Floats, top: Ints, strength: Floats, slot: Ints, known: Ints, right: Bools, N: int
) -> tuple[Floats, Floats, Floats]:
    """(ℓ (S,), G (S, K), log(1 − q_y) (S,)) when V_t = b_t + strength_t e_n(t)."""
    S, K = logs.shape
    loss, gap, slope = np.empty(S), np.empty((S, K)), np.empty(S)
    given = followers(strength, slot, known, right, N)
    write_reading(plain(logs), plain(top), given, loss, gap, slope)
    return loss, gap, slope


def followers(strength: Floats, slot: Ints, known: Ints, right: Bools, N: int) -> Followers:
    """The followers, with the memory that reading them takes."""
    K = slot.shape[1]
    return Followers(
        plain(strength), plain(slot), plain(known), plain(right), N, np.empty(K), np.empty(K)
    )


@njit(**ENTRY)
def write_slopes(
    logs: Floats, top: Ints, gap: Floats, log_slope: Floats, own: Floats, x: Floats, height: Floats
) -> None:
    """Writes x (S, K) and height (S,) as in `tilt`; own (K,) is room."""
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


def tilt(logs: Floats, top: Ints, gap: Floats, log_slope: Floats) -> tuple[Floats, Floats]:
    """(x (S, K), height (S,)): ∂ℓ/∂h_t = x_t e^height, the largest of t ≠ a near 1 in size."""
    S, K = logs.shape
    x, height = np.empty((S, K)), np.empty(S)
    write_slopes(plain(logs), plain(top), plain(gap), plain(log_slope), np.empty(K), x, height)
    return x, height


@njit(**ENTRY)
def write_choice(logs: Floats, right: Bools, loss: Floats, x: Floats, height: Floats) -> None:
    """Writes ℓ (S,), x (S, K) and height (S,) as in `choose`."""
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


def choose(logs: Floats, right: Bools) -> tuple[Floats, Floats, Floats]:
    """(ℓ (S,), x (S, K), height (S,)) of ℓ = −log Σ_{right} s_t; ∂ℓ/∂h_t = x_t e^height."""
    S, K = logs.shape
    loss, x, height = np.empty(S), np.empty((S, K)), np.empty(S)
    write_choice(plain(logs), plain(right), loss, x, height)
    return loss, x, height
