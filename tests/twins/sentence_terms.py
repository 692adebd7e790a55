"""The plain NumPy twin of the terms in `next_token.training.gradient`: the same wide numbers."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.training.models.gradient.attention import TIED
from attsvm.training.optimizers.graded.wide import Wide, normal, of_logs
from tests.twins.graded import added


def outputs(logs: Floats, tokens: Ints, V: Floats, labels: Ints) -> Floats:
    """log q_v (S, N) of the outputs z = Σ_t s_t V_t, −inf at the label."""
    rows = np.arange(len(labels))
    away = V[tokens] - V[tokens, labels[:, None]][:, :, None]
    m = (np.exp(np.where(tokens >= 0, logs, -np.inf))[:, :, None] * away).sum(axis=1)
    m[rows, labels] = -np.inf
    above = np.logaddexp.reduce(m, axis=1, initial=-np.inf)
    return m - np.logaddexp(0.0, above)[:, None]


def gaps(log_q: Floats, top: Ints, tokens: Ints, V: Floats, labels: Ints) -> Wide:
    """The wide G_t (S, K), zero for the top token and for what cancels to its own rounding."""
    near, size = _against_label(V[np.take_along_axis(tokens, top[:, None], 1)], labels)
    far, other = _against_label(V[tokens], labels)
    parts = near - far
    parts[np.abs(parts) <= TIED * (size + other)] = 0.0
    parts[tokens < 0] = 0.0
    q, height = of_logs(np.ones_like(log_q), log_q)
    terms = q[:, None, :] * parts
    (share, power), _ = added(terms, height[:, None, :], 2)
    (whole, level), _ = added(np.abs(terms), height[:, None, :], 2)
    tied = np.abs(np.ldexp(share, power - level)) <= TIED * whole
    return np.where(tied, 0.0, share), np.where(tied, 0, power)


def _against_label(rows: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """(V_y − V_v, |V_y| + |V_v|) of rows V (S, ·, N)."""
    own = np.take_along_axis(rows, labels[:, None, None], 2)
    return own - rows, np.abs(own) + np.abs(rows)


def pulls(logs: Floats, top: Ints, share: Floats, power: Ints, weights: Floats) -> Wide:
    """The wide π s_t (G_t − δ) (S, K), zero for the top token and where there is none."""
    others = np.arange(logs.shape[1]) != top[:, None]
    mass, height = of_logs(others.astype(np.float64), logs)
    (delta, level), _ = added(mass * share, height + power, 1)
    pair = np.stack([share, np.broadcast_to(-delta[:, None], share.shape)])
    powers = np.stack([power, np.broadcast_to(level[:, None], power.shape)])
    (x, most), _ = added(pair, powers, 0)
    return normal(x * mass * weights[:, None], most + height)


def choice_terms(logs: Floats, right: Bools, top: Ints, weights: Floats) -> Wide:
    """The wide π ∂ℓ/∂h_t (S, K) of ℓ = −log Σ_right s_t, zero for the top token."""
    inside = np.logaddexp.reduce(np.where(right, logs, -np.inf), axis=1, keepdims=True)
    outside = np.logaddexp.reduce(np.where(right, -np.inf, logs), axis=1, keepdims=True)
    height = np.where(right, logs - inside + outside, logs)
    others = np.arange(logs.shape[1]) != top[:, None]
    return of_logs(np.where(right, -1.0, 1.0) * others * weights[:, None], height)
