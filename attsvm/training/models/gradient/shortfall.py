"""How far the output of attention is from a target, exactly: what a loss with a finite best needs.

The residual r = b − y v·o of a margin to its target b is Σ_t s_t (b − y v·x_t). From the margin it
cancels once the top token has the score b; as this sum it does not, and what is left of it is
e^(log s) of the tokens that miss the target. Only scores on both sides of b cancel, and then r is
as exact as its own terms: its relative error is about ε Σ s_t |b − y v·x_t| / |r|.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm._utils.arrays import Floats, exact_product
from attsvm.training.models.gradient.batch import Batch

# A shortfall below this share of what it is made of is summed exactly.
_NEAR = 1 / 16


def shortfalls(batch: Batch, v: Floats, best: float) -> Floats:
    """b − y v·x_t (B, n, T) for heads v (B, e) or (1, e), 0 for tokens that are not there.

    Those near 0 are the exact sum, rounded once: 0 if and only if the score of these numbers is b.
    """
    v = np.broadcast_to(v, (batch.size, batch.values.shape[3]))
    signed = batch.labels[:, :, None] * v[:, None]
    short = best - np.einsum("bnte,bne->bnt", batch.values, signed)
    size = abs(best) + np.einsum("bnte,bne->bnt", np.abs(batch.values), np.abs(signed))
    near = batch.present & (np.abs(short) < _NEAR * size) & np.isfinite(size)
    b, i, _ = np.nonzero(near)
    high, low = exact_product(-batch.values[near], signed[b, i])
    terms = np.concatenate([high, np.where(np.isfinite(low), low, 0.0)], axis=1).tolist()
    short[near] = [math.fsum([best, *line]) for line in terms]
    return np.where(batch.present, short, 0.0)


def residual(short: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """(sign r, log |r|) of r = Σ_t s_t short_t (B, n), from log s_t (B, n, T); −inf for r = 0."""
    heights = np.where(short == 0.0, -np.inf, logs)
    peak = heights.max(axis=2)
    finite = np.where(np.isneginf(peak), 0.0, peak)
    r = (np.exp(heights - finite[:, :, None]) * short).sum(axis=2)
    log = np.log(np.abs(r), out=np.full(r.shape, -np.inf), where=r != 0)
    return np.sign(r), finite + log
