"""The plain NumPy twin of the attention kernels: the same numbers from whole arrays.

Slower and with more memory, it holds a (B, n, T, d) array of key differences. It is what the
compiled kernels are compared with, and shows what they compute without their loops.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.training.models.gradient.attention import ABOVE, TIED, Slopes
from attsvm.training.optimizers.graded.wide import of_logs


def _from_top(tokens: Floats, top: Ints) -> Floats:
    """x_t − x_a (B, n, T, ·) from tokens x and top tokens a."""
    return tokens - np.take_along_axis(tokens, top[:, :, None, None], axis=2)


def _finite(x: Floats) -> Floats:
    """x, and 0 where it is −inf: what may be taken off without making a NaN."""
    return np.where(np.isneginf(x), 0.0, x)


def attend(
    keys: Floats, values: Floats, queries: Floats, present: Bools, W: Floats
) -> tuple[Floats, Ints, Floats]:
    """log s (B, n, T), top token (B, n) and pooled output (B, n, e) under logits k_t·W z.

    present (B, n, T): tokens that are there; log s is −inf elsewhere. W (B, d, dq).
    """
    w = np.einsum("bdq,bnq->bnd", W, queries)
    scores = np.where(present, np.einsum("bntd,bnd->bnt", keys, w), -np.inf)
    top = scores.argmax(axis=2)
    for _ in range(keys.shape[2]):
        ahead = np.einsum("bntd,bnd->bnt", _from_top(keys, top), w)
        ahead = np.where(present, ahead, -np.inf)
        better = ahead.argmax(axis=2)
        wrong = ahead.max(axis=2) > ABOVE
        if not wrong.any():
            break
        top = np.where(wrong, better, top)
    others = np.exp(ahead)
    np.put_along_axis(others, top[:, :, None], 0.0, axis=2)
    rest = others.sum(axis=2, keepdims=True)
    np.put_along_axis(others, top[:, :, None], 1.0, axis=2)
    pooled = np.einsum("bnt,bnte->bne", others / (1.0 + rest), values)
    return ahead - np.log1p(rest), top, pooled


def pull(
    keys: Floats, values: Floats, queries: Floats, present: Bools, at: Slopes
) -> tuple[Floats, Floats]:
    """The gradient in W as (G (B, d, dq), M (B,)): it is e^M G, and M = −inf when it is zero.

    The mean over inputs is in M. The largest entry of G lies in [½, 1).
    """
    n = keys.shape[1]
    ahead, x, height = _rises(keys, values, present, at)
    height = np.where((queries != 0).any(axis=2)[:, :, None], height, -np.inf) + np.log(n)
    peak = height.max(axis=(1, 2))
    C = x * np.exp(height - _finite(peak)[:, None, None])
    G = np.einsum("bntd,bnq->bdq", C[..., None] * ahead, queries)
    most = np.abs(G).max(axis=(1, 2))
    power = np.frexp(most)[1]
    scale = np.where(most > 0, peak + power * np.log(2.0) - np.log(n), -np.inf)
    return np.ldexp(G, -power[:, None, None]), scale


def terms(
    keys: Floats, values: Floats, queries: Floats, present: Bools, at: Slopes
) -> tuple[Floats, Floats, Ints]:
    """(D (B, n, T, d), share (B, n, T), power (B, n, T)): the gradient is Σ x_it D_t z_iᵀ.

    D_t = k_t − k_a, zero for tokens that are not there; arguments as in `pull`.
    """
    D, f, height = _rises(keys, values, present, at)
    return D, *of_logs(f, height)


def _rises(
    keys: Floats, values: Floats, present: Bools, at: Slopes
) -> tuple[Floats, Floats, Floats]:
    """D as in `terms`, and x = f e^height: f and height (B, n, T)."""
    logs, top, slopes, sign, log_slope, bend = at
    n, T = keys.shape[1:3]
    others = present & (np.arange(T) != top[:, :, None])
    logs = np.where(others, logs, -np.inf)
    away = _from_top(values, top)
    ahead = np.where(present[..., None], _from_top(keys, top), 0.0)
    gap = -np.einsum("bnte,bne->bnt", away, slopes)
    tie = TIED * np.sqrt(np.square(away).sum(axis=3) * np.square(slopes).sum(axis=2)[:, :, None])
    # o − x_a = e^first · near; G_t = gap · e^order.
    first = np.where((away != 0).any(axis=3), logs, -np.inf).max(axis=2, keepdims=True)
    # Above `first` are only values equal to the top one, which add nothing.
    near = np.einsum("bnt,bnte->bne", np.exp(np.minimum(logs - _finite(first), 0.0)), away)
    turn = -bend[:, :, None] * np.einsum("bnte,bne->bnt", away, near)
    level = np.abs(gap - np.exp(first) * turn) <= tie
    gap = np.where(level, turn, gap)
    gap[~others] = 0.0
    order = np.where(gap == 0, -np.inf, np.where(level, first, 0.0))
    # δ = e^second · scaled.
    depth = logs + order
    second = depth.max(axis=2, keepdims=True)
    scaled = (np.exp(depth - _finite(second)) * gap).sum(axis=2, keepdims=True)
    # G_t − δ = x · e^extra, with the larger of both exponents.
    extra = np.maximum(order, second)
    x = np.exp(order - _finite(extra)) * gap - np.exp(second - _finite(extra)) * scaled
    moves = (x != 0) & (ahead != 0).any(axis=3) & others & np.isfinite(log_slope)[:, :, None]
    height = np.where(moves, logs + extra + log_slope[:, :, None], -np.inf)
    return ahead, np.where(moves, -sign[:, :, None] * x, 0.0), height - np.log(n)
