"""Batch: the arrays of a stack of instances of one size, ready for the gradient kernels.

How far the output of attention is from a target, exactly: what a loss with a finite best needs.

The residual r = b − y v·o of a margin to its target b is Σ_t s_t (b − y v·x_t). From the margin it
cancels once the top token has the score b; as this sum it does not, and what is left of it is
e^(log s) of the tokens that miss the target. Only scores on both sides of b cancel, and then r is
as exact as its own terms: its relative error is about ε Σ s_t |b − y v·x_t| / |r|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints, exact_product
from attsvm.errors import BadTokens
from attsvm.problem.tokens import Tokens


@dataclass(frozen=True, eq=False)
class Batch:
    """B instances: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq), labels (B, n) and
    present (B, n, T), the tokens that are there."""

    keys: Floats
    values: Floats
    queries: Floats
    labels: Floats
    present: Bools

    @classmethod
    def of(cls, tokens: Tokens | Sequence[Tokens]) -> Batch:
        """The batch of one instance, or of several of the same size."""
        listed = [tokens] if isinstance(tokens, Tokens) else list(tokens)
        if not listed:
            raise BadTokens("there is no instance to train on")
        for b, t in enumerate(listed):
            if t.labels is None:
                raise BadTokens(f"labels are missing in instance {b}: training needs -1 or +1")
            if (t.n, t.T, t.d, t.keys.shape[2], t.queries.shape[1]) != (
                listed[0].n,
                listed[0].T,
                listed[0].d,
                listed[0].keys.shape[2],
                listed[0].queries.shape[1],
            ):
                raise BadTokens(f"instance {b} has another size than instance 0: {t!r}")
        return cls(
            np.stack([_of_inputs(t, t.keys) for t in listed]),
            np.stack([_of_inputs(t, t.X) for t in listed]),
            np.ascontiguousarray(np.stack([t.queries for t in listed])),
            np.stack([np.asarray(t.labels) for t in listed]),
            np.stack([t.present() for t in listed]),
        )

    @property
    def size(self) -> int:
        """The number of instances."""
        return len(self.keys)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (d, dq) of W."""
        return int(self.keys.shape[3]), int(self.queries.shape[2])


def _of_inputs(tokens: Tokens, array: NDArray[Any]) -> Floats:
    """Keys or values (n, T, d) of each input; sequences that share keys are written out."""
    full = np.asarray(array, dtype=np.float64)
    return full if tokens.source is None else full[tokens.source]


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


def residual_of_heads(
    batch: Batch, v: Floats, best: float, logs: Floats, top: Ints
) -> tuple[Floats, Floats]:
    """(sign r, log |r|) of the residual r (B, n) of several heads, whose margins add up.

    r = (b − Σ_h γ_h,a) + Σ_h Σ_t s_ht (γ_h,a − γ_ht), a the top tokens: nothing cancels where the
    scores of these add up to b. v (B, H e): the prediction head; logs (B, H n, T) and top
    (B, H n): the inputs of each head one after the other.
    """
    B, n, _, e = batch.values.shape
    H = top.shape[1] // n
    v = np.broadcast_to(v, (B, H * e)).reshape(B, H, e)
    ends = [
        np.take_along_axis(batch.values, a[:, :, None, None], axis=2)
        for a in np.split(top, H, axis=1)
    ]
    whole = replace(batch, values=np.concatenate(ends, axis=3), present=np.ones((B, n, 1), bool))
    short, heights = [shortfalls(whole, v.reshape(B, H * e), best)], [np.zeros((B, n, 1))]
    for h, (end, own) in enumerate(zip(ends, np.split(logs, H, axis=1), strict=True)):
        short.append(shortfalls(replace(batch, values=batch.values - end), v[:, h], 0.0))
        heights.append(own)
    return residual(np.concatenate(short, axis=2), np.concatenate(heights, axis=2))
