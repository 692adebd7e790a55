"""Normalized descent on W with the gradients of random batches of inputs.

A step is lr times −g_S/‖g‖, g_S the gradient of the loss on a batch S of the inputs, drawn anew at
every step without putting back. `own`: g is g_S itself, so that every step has length lr; `full`: g
is the gradient of all inputs, so that steps are those of normalized descent with noise added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.problem.tokens import Tokens

SCALES = ("own", "full")


def batch_descent(
    stack: Sequence[Tokens], heads: Floats, seeds: Sequence[int], *, batch: int, scale: str,
    lr: float, steps: int,
) -> Floats:  # fmt: skip
    """The last W (B, d, dq) of each instance, from zero, under the logistic loss.

    seeds: those of the batches, one per instance. Plain exponentials: for leads below 700.
    """
    X = np.stack([np.asarray(t.X, dtype=np.float64) for t in stack])
    z = np.stack([t.queries for t in stack])
    y = np.stack([np.asarray(t.labels, dtype=np.float64) for t in stack])
    B, n, _, d = X.shape
    if scale not in SCALES:
        raise Unsupported(f"unknown scale {scale!r}: it is one of {', '.join(SCALES)}")
    if not 1 <= batch <= n:
        raise Unsupported(f"a batch of {batch}: it has from 1 to {n} inputs")
    scores = y[:, :, None] * np.einsum("bntd,bd->bnt", X, heads)
    chosen = np.stack([_batches(seed, n, batch, steps) for seed in seeds], axis=1)
    W = np.zeros((B, d, z.shape[2]))
    for step in range(steps):
        logits = np.einsum("bntd,bnd->bnt", X, np.einsum("bde,bne->bnd", W, z))
        s = np.exp(logits - logits.max(axis=2, keepdims=True))
        s /= s.sum(axis=2, keepdims=True)
        f = (s * scores).sum(axis=2)
        weights = s * (scores - f[:, :, None]) / (1 + np.exp(f))[:, :, None]
        # The pull of each input, (B, n, d): its part of −∇L is this times its query. The weights of
        # an input add up to zero, so that differences to its top token can stand for its tokens:
        # then nothing cancels, however small the weights of the others are.
        top = logits.argmax(axis=2)[:, :, None, None]
        pulls = np.einsum("bnt,bntd->bnd", weights, X - np.take_along_axis(X, top, axis=2))
        part = np.einsum("bnd,bne->bde", chosen[step, :, :, None] * pulls, z)
        whole = part if scale == "own" else np.einsum("bnd,bne->bde", pulls, z) / n
        W += lr * part / np.linalg.norm(whole, axis=(1, 2))[:, None, None]
    return W


def _batches(seed: int, n: int, batch: int, steps: int) -> Floats:
    """Weights (steps, n): 1/batch for the inputs of each step's batch, 0 for the others."""
    order = np.random.default_rng([seed, n, batch]).random((steps, n)).argsort(axis=1)
    return (order.argsort(axis=1) < batch) / batch
