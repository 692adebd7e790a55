"""The plain NumPy twin of `attsvm.next_token.attention`: the same numbers from whole arrays.

One sentence: attention s over its distinct tokens, output logits z = Σ_t s_t V_t with V_t = W_ov
E[w_t], q = softmax(z), label y.

    ℓ = −log q_y,     ∂ℓ/∂h_t = s_t (G_t − δ) (1 − q_y),     G_t = (V_a − V_t)·r,   δ = Σ_t s_t G_t,
    r = (e_y − q)/(1 − q_y),   a the top token

Every term carries its own exponent: 1 − q_y and s_t leave the range of floats, their logs do not.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.training.models.gradient.attention import TIED


def attend(logits: Floats) -> tuple[Floats, Ints]:
    """(log s (S, K), top token (S,)) under logits (S, K), −inf where there is no token."""
    top = logits.argmax(axis=1)
    ahead = logits - np.take_along_axis(logits, top[:, None], 1)
    others = np.exp(ahead)
    np.put_along_axis(others, top[:, None], 0.0, 1)
    return ahead - np.log1p(others.sum(axis=1, keepdims=True)), top


def read_followers(
    logs: Floats, top: Ints, strength: Floats, slot: Ints, known: Ints, right: Bools, N: int
) -> tuple[Floats, Floats, Floats]:
    """(ℓ (S,), G (S, K), log(1 − q_y) (S,)) when V_t = b_t + strength_t e_n(t).

    Then z is strength times mass on the followers and one number elsewhere, which drops out.
    """
    S, K = logs.shape
    rows = np.arange(S)[:, None]
    lift = np.zeros((S, K + 1))  # the last column takes tokens without a follower
    np.add.at(lift, (rows, slot), np.exp(logs) * strength * (slot >= 0))
    there = np.arange(K + 1) < known[:, None]
    own = np.where(right, slot, -1).max(axis=1)  # the label's slot, −1 when no token leads to it
    z_y = np.where(own >= 0, lift[np.arange(S), own], 0.0)
    label = np.zeros((S, K + 1), bool)
    label[np.arange(S), own] = own >= 0
    rest = np.where(there & ~label, lift, -np.inf)
    free = N - known - (own < 0)
    with np.errstate(divide="ignore"):
        outside = np.logaddexp(
            np.logaddexp.reduce(rest, axis=1, initial=-np.inf), np.log(free)
        )  # log Σ_{v≠y} e^z_v
    loss = np.logaddexp(0.0, outside - z_y)
    # r is 1 at the label and −q_v/(1 − q_y) elsewhere.
    r = np.where(label, 1.0, -np.exp(np.minimum(rest - outside[:, None], 0.0)))
    gain = np.where(slot >= 0, strength * r[rows, slot], 0.0)
    best = np.take_along_axis(gain, top[:, None], 1)
    gap = best - gain
    gap[np.abs(gap) <= TIED * (np.abs(best) + np.abs(gain))] = 0.0
    return loss, gap, outside - z_y - loss


def logit_slopes(logs: Floats, top: Ints, gap: Floats, log_slope: Floats) -> tuple[Floats, Floats]:
    """(x (S, K), height (S,)): ∂ℓ/∂h_t = x_t e^height, the largest of t ≠ a near 1 in size."""
    K = logs.shape[1]
    others = (np.arange(K) != top[:, None]) & ~np.isneginf(logs)
    logs = np.where(others, logs, -np.inf)
    second = np.where(gap != 0, logs, -np.inf).max(axis=1, keepdims=True)
    base = np.where(np.isneginf(second), 0.0, second)
    scaled = (np.exp(np.minimum(logs - base, 0.0)) * gap).sum(axis=1, keepdims=True)
    tied = gap == 0
    x = np.where(tied, -scaled, gap - np.exp(second) * scaled)
    height = np.where(others & (x != 0), logs + np.where(tied, second, 0.0), -np.inf)
    peak = height.max(axis=1, keepdims=True)
    x = x * np.exp(height - np.where(np.isneginf(peak), 0.0, peak))
    np.put_along_axis(x, top[:, None], 0.0, 1)
    np.put_along_axis(x, top[:, None], -x.sum(axis=1, keepdims=True), 1)
    return x, peak[:, 0] + log_slope


def read_choice(logs: Floats, right: Bools) -> tuple[Floats, Floats, Floats]:
    """(ℓ (S,), x (S, K), height (S,)) of ℓ = −log Σ_{right} s_t; ∂ℓ/∂h_t = x_t e^height.

    Outside ∂ℓ/∂h_t = s_t, inside −(s_t/Σ_right s)(1 − Σ_right s): nothing cancels. The height is
    log(1 − Σ_right s).
    """
    inside = np.logaddexp.reduce(np.where(right, logs, -np.inf), axis=1)
    outside = np.logaddexp.reduce(np.where(right, -np.inf, logs), axis=1)
    base = np.where(np.isneginf(outside), 0.0, outside)[:, None]
    share = np.exp(np.where(right, logs, -np.inf) - inside[:, None])
    x = np.where(right, -share, np.exp(np.where(right, -np.inf, logs) - base))
    x[np.isneginf(outside)] = 0.0
    return np.logaddexp(0.0, outside - inside), x, outside
