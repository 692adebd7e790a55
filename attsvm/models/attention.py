"""The gradient of one attention layer in the log domain, exact past the point where floats give up.

For one input with logits h_t, top token a, pooled output o and scores γ_t = y x_t·∇h(o), the
gradient of the loss in the logits is ℓ' s_t (γ_t − Σ_u s_u γ_u). In floats the bracket cancels to
rounding noise once the softmax saturates, and a normalized step turns the noise into a full step.
Here, with differences G_t = γ_a − γ_t = y (x_a − x_t)·∇h(o) and log s_t,

    δ = Σ_{t≠a} s_t G_t  (= γ_a − Σ s γ),      dL/dh_t = −ℓ' s_t (G_t − δ)  for t ≠ a,

every term is kept as a sign and a logarithm, and one common factor e^M leaves the sum. Tokens whose
score ties with the top one (G_t = 0 up to rounding) contribute −δ s_t, with δ in scaled form: it is
of second order and would vanish otherwise. The gradient in W is Σ_i (Σ_t C_it (k_t − k_a)) z_iᵀ.

All arrays carry a stack axis: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq).
"""

from __future__ import annotations

import numba
import numpy as np

from attsvm.compiled import njit
from attsvm.tokens import Bools, Floats, Ints

# Score differences below this many units of their own size are ties.
TIED = 8 * 2.0**-52


@njit(parallel=True)
def attend(
    keys: Floats, values: Floats, queries: Floats, present: Bools, W: Floats
) -> tuple[Floats, Ints, Floats]:
    """log s (B, n, T), top token (B, n) and pooled output (B, n, e) under logits k_t·W z.

    present (B, n, T): tokens that are there; log s is −inf elsewhere. W (B, d, dq).
    """
    B, n, T, d = keys.shape
    e = values.shape[3]
    dq = queries.shape[2]
    logs = np.empty((B, n, T))
    top = np.empty((B, n), np.int64)
    pooled = np.zeros((B, n, e))
    for b in numba.prange(B):
        w = np.empty(d)
        for i in range(n):
            for r in range(d):
                s = 0.0
                for c in range(dq):
                    s += W[b, r, c] * queries[b, i, c]
                w[r] = s
            a = -1
            best = -np.inf
            for t in range(T):
                s = -np.inf
                if present[b, i, t]:
                    s = 0.0
                    for r in range(d):
                        s += keys[b, i, t, r] * w[r]
                    if a < 0 or s > best:
                        best = s
                        a = t
                logs[b, i, t] = s
            # Differences of logits from differences of keys: near ties would cancel.
            rest = 0.0
            for t in range(T):
                if t != a and present[b, i, t]:
                    s = 0.0
                    for r in range(d):
                        s += (keys[b, i, t, r] - keys[b, i, a, r]) * w[r]
                    logs[b, i, t] = s
                    rest += np.exp(s)
            shift = np.log1p(rest)
            for t in range(T):
                if t == a:
                    logs[b, i, t] = -shift
                elif present[b, i, t]:
                    logs[b, i, t] -= shift
                if logs[b, i, t] > -745.0:
                    p = np.exp(logs[b, i, t])
                    for r in range(e):
                        pooled[b, i, r] += p * values[b, i, t, r]
            top[b, i] = a
    return logs, top, pooled


@njit(parallel=True)
def pull(
    keys: Floats, values: Floats, queries: Floats, present: Bools, logs: Floats, top: Ints,
    slopes: Floats, sign: Floats, log_slope: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """The gradient in W as (G (B, d, dq), M (B,)): it is e^M G, and M = −inf when it is zero.

    slopes (B, n, e): y ∇h(o); sign, log_slope (B, n): the loss's slope at the margin. The mean
    over inputs is in M.
    """
    B, n, T, d = keys.shape
    e = values.shape[3]
    dq = queries.shape[2]
    out = np.zeros((B, d, dq))
    scale = np.full(B, -np.inf)
    for b in numba.prange(B):
        size = np.full((n, T), -np.inf)  # log |dL/dh_t|
        signs = np.zeros((n, T))
        gap = np.empty(T)
        tied = np.empty(T, np.bool_)
        for i in range(n):
            a = top[b, i]
            second = -np.inf
            length = 0.0
            for r in range(e):
                length += slopes[b, i, r] * slopes[b, i, r]
            for t in range(T):
                tied[t] = True
                gap[t] = 0.0
                if t == a or not present[b, i, t]:
                    continue
                g = 0.0
                far = 0.0
                for r in range(e):
                    x = values[b, i, a, r] - values[b, i, t, r]
                    g += x * slopes[b, i, r]
                    far += x * x
                gap[t] = g
                tied[t] = abs(g) <= TIED * np.sqrt(far * length)
                if not tied[t]:
                    second = max(second, logs[b, i, t])
            if second == -np.inf or log_slope[b, i] == -np.inf:
                continue
            # δ = e^second · scaled, without cancellation.
            scaled = 0.0
            for t in range(T):
                if t != a and present[b, i, t] and not tied[t]:
                    scaled += np.exp(logs[b, i, t] - second) * gap[t]
            delta = np.exp(second) * scaled
            for t in range(T):
                if t == a or not present[b, i, t]:
                    continue
                if tied[t]:
                    x = -scaled
                    extra = second
                else:
                    x = gap[t] - delta
                    extra = 0.0
                if x != 0.0:
                    size[i, t] = logs[b, i, t] + log_slope[b, i] + extra + np.log(abs(x))
                    signs[i, t] = -sign[b, i] * (1.0 if x > 0.0 else -1.0)
                    scale[b] = max(scale[b], size[i, t])
        if scale[b] == -np.inf:
            continue
        part = np.empty(d)
        for i in range(n):
            a = top[b, i]
            moved = False
            for r in range(d):
                part[r] = 0.0
            for t in range(T):
                if size[i, t] - scale[b] > -745.0:
                    f = signs[i, t] * np.exp(size[i, t] - scale[b])
                    moved = True
                    for r in range(d):
                        part[r] += f * (keys[b, i, t, r] - keys[b, i, a, r])
            if moved:
                for r in range(d):
                    f = part[r]
                    for c in range(dq):
                        out[b, r, c] += f * queries[b, i, c]
        scale[b] -= np.log(n)
    return out, scale
