"""The gradient on sentences, term by term: what the graded form of a sentence model is made of.

One sentence, with the formulas of `choices_twin` and outputs v measured against the label y:

    ∂ℓ/∂W_ov = Σ_{v≠y} Σ_t q_v s_t (e_v − e_y) E[w_t]ᵀ
    ∂ℓ/∂W_kq = Σ_{t≠a} s_t (G_t − δ) (E[w_t] − E[w_a]) E[w_L]ᵀ,        δ = Σ_t s_t G_t
    G_t = Σ_{v≠y} q_v ((V_ay − V_av) − (V_ty − V_tv)),       a the top token

Every s, q, G and δ is a wide number: no term is lost beside a larger one. Differences from the
label and the top token are taken before anything is weighed, so the sums cancel only where G does.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm.ground.arrays import Bools, Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.models.gradient.one_input import LEAST, TIED
from attsvm.rules.graded.wide import NONE, of_log, shifted


@njit()
def outputs(logs: Floats, tokens: Ints, V: Floats, labels: Ints) -> Floats:
    """log q_v (S, N) of the outputs z = Σ_t s_t V_t, −inf at the label.

    logs (S, K): log s_t; tokens (S, K), −1 beyond the end; V (N, N): one row per token; labels
    (S,).
    """
    S, K = logs.shape
    N = V.shape[1]
    out = np.full((S, N), -np.inf)
    for s in range(S):
        y = labels[s]
        peak = -np.inf
        for v in range(N):
            if v != y:
                m = 0.0
                for t in range(K):
                    if tokens[s, t] >= 0 and logs[s, t] > LEAST:
                        row = V[tokens[s, t]]
                        m += math.exp(logs[s, t]) * (row[v] - row[y])
                out[s, v] = m
                peak = max(peak, m)
        total = 0.0
        for v in range(N):
            if out[s, v] - peak > LEAST:
                total += math.exp(out[s, v] - peak)
        if total == 0.0:  # the label is the only token there is
            continue
        above = peak + math.log(total)
        loss = max(above, 0.0) + math.log1p(math.exp(-abs(above)))
        for v in range(N):
            out[s, v] -= loss
    return out


@njit()
def gaps(log_q: Floats, top: Ints, tokens: Ints, V: Floats, labels: Ints) -> tuple[Floats, Ints]:
    """The wide G_t (S, K), zero for the top token and for what cancels to its own rounding.

    log_q (S, N): those of `outputs`; top (S,): the place of the top token.
    """
    S, K = tokens.shape
    N = V.shape[1]
    share, power = np.zeros((S, K)), np.zeros((S, K), np.int64)
    q, height, part = np.zeros(N), np.zeros(N, np.int64), np.empty(N)
    for s in range(S):
        y, best = labels[s], V[tokens[s, top[s]]]
        for v in range(N):
            q[v] = 0.0
            if log_q[s, v] > -np.inf:
                q[v], height[v] = of_log(1.0, log_q[s, v])
        for t in range(K):
            if t == top[s] or tokens[s, t] < 0:
                continue
            row = V[tokens[s, t]]
            most = NONE
            for v in range(N):
                near, far = best[y] - best[v], row[y] - row[v]
                size = abs(best[y]) + abs(best[v]) + abs(row[y]) + abs(row[v])
                part[v] = near - far if abs(near - far) > TIED * size else 0.0
                if q[v] != 0.0 and part[v] != 0.0:
                    most = max(most, height[v])
            g = whole = 0.0
            for v in range(N):
                if q[v] != 0.0 and part[v] != 0.0:
                    x = shifted(q[v] * part[v], height[v] - most)
                    g += x
                    whole += abs(x)
            if abs(g) > TIED * whole:
                share[s, t], extra = math.frexp(g)
                power[s, t] = most + extra
    return share, power


@njit()
def pulls(
    logs: Floats, top: Ints, share: Floats, power: Ints, weights: Floats
) -> tuple[Floats, Ints]:
    """The wide π s_t (G_t − δ) (S, K), zero for the top token and where there is none.

    share, power (S, K): the wide G_t; weights (S,): π.
    """
    S, K = logs.shape
    out, powers = np.zeros((S, K)), np.zeros((S, K), np.int64)
    mass, height = np.zeros(K), np.zeros(K, np.int64)
    for s in range(S):
        level = NONE
        for t in range(K):
            mass[t] = 0.0
            if t != top[s] and logs[s, t] > -np.inf:
                mass[t], height[t] = of_log(1.0, logs[s, t])
                if share[s, t] != 0.0:
                    level = max(level, height[t] + power[s, t])
        if level == NONE:
            continue
        delta = 0.0
        for t in range(K):
            if mass[t] != 0.0 and share[s, t] != 0.0:
                delta += shifted(mass[t] * share[s, t], height[t] + power[s, t] - level)
        for t in range(K):
            if mass[t] == 0.0:
                continue
            most = max(level, power[s, t]) if share[s, t] != 0.0 else level
            x = shifted(share[s, t], power[s, t] - most) if share[s, t] != 0.0 else 0.0
            x -= shifted(delta, level - most)
            if x != 0.0:
                out[s, t], extra = math.frexp(x * mass[t] * weights[s])
                powers[s, t] = most + height[t] + extra
    return out, powers


@njit()
def choices(logs: Floats, right: Bools, top: Ints, weights: Floats) -> tuple[Floats, Ints]:
    """The wide π ∂ℓ/∂h_t (S, K) of ℓ = −log Σ_right s_t, zero for the top token.

    It is s_t outside and −(s_t/Σ_right s)(1 − Σ_right s) inside; right (S, K).
    """
    S, K = logs.shape
    share, power = np.zeros((S, K)), np.zeros((S, K), np.int64)
    peak, total = np.empty(2), np.empty(2)
    for s in range(S):
        peak[:], total[:] = -np.inf, 0.0
        for t in range(K):
            side = 1 if right[s, t] else 0
            peak[side] = max(peak[side], logs[s, t])
        for t in range(K):
            side = 1 if right[s, t] else 0
            if logs[s, t] - peak[side] > LEAST:
                total[side] += math.exp(logs[s, t] - peak[side])
        if peak[0] == -np.inf:
            continue
        for t in range(K):
            if t == top[s] or logs[s, t] == -np.inf:
                continue
            if right[s, t]:
                ratio, log = -total[0] / total[1], logs[s, t] - peak[1] + peak[0]
            else:
                ratio, log = 1.0, logs[s, t]
            share[s, t], power[s, t] = of_log(weights[s] * ratio, log)
    return share, power
