"""The gradient of the attention loss from its textbook formula, in as many digits as it needs."""

import mpmath as mp
import numpy as np

from attsvm.training.heads import Linear, Quadratic, Relu
from tests.training.models.instances import vectors

SLOPES = {
    "logistic": lambda x: -1 / (1 + mp.exp(x)),
    "exponential": lambda x: -mp.exp(-x),
    "linear": lambda x: mp.mpf(-1),
    "squared": lambda x: x - 1,
}


def exact(array):
    """The floats of an array as exact numbers, (...) of objects."""
    return np.vectorize(lambda x: mp.mpf(float(x)), otypes=[object])(array)


def slope_at(loss, x):
    """ℓ'(x), by formula or, for a loss without one here, by the slope that `check_loss` checks."""
    if loss.name in SLOPES:
        return SLOPES[loss.name](x)
    if loss.from_best is None:
        sign, log = loss.slope(np.array(float(x)))
    else:
        r = loss.best - x
        log = np.array(-np.inf if r == 0 else float(mp.log(abs(r))))
        _, sign, log = loss.from_best(np.array(float(mp.sign(r))), log)
    return mp.mpf(float(sign)) * mp.exp(mp.mpf(float(log)))


def read(head, b, o, size):
    """h(o), ∇h(o) and ∂h(o) in the parameters of instance b of `size`.

    By formula or, for a head without one here, by the head itself at the float nearest to o.
    """
    if isinstance(head, Relu):
        V = exact(head.V[b % len(head.V)])
        inner = o @ V
        active = [j for j in range(V.shape[1]) if inner[j] > 0]
        on = np.array([float(u > 0) for u in inner])
        value = sum((inner[j] for j in active), mp.mpf(0))
        return value, V[:, active].sum(axis=1) + 0 * o, np.outer(o, on)
    if isinstance(head, Linear | Quadratic):
        v = exact(head.v[b % len(head.v)])
        penalty = mp.mpf(head.penalty if isinstance(head, Quadratic) else 0)
        return v @ o - penalty * (o @ o), v - 2 * penalty * o, o
    there = np.broadcast_to(o.astype(float), (size, 1, len(o)))
    pulled = exact(head.pull(there, np.ones((size, 1)))[b]) if head.block else None
    return mp.mpf(float(head.value(there)[b, 0])), exact(head.gradient(there)[b, 0]), pulled


def gradient(model, params, batch, head, loss):
    """For each instance, block -> (unit direction as floats, log norm; −inf when it is zero)."""
    found = []
    reader = model.reads(params) if model.trains_head else head
    for b in range(batch.size):
        w = vectors(model, params, batch.queries)[b]
        spread = np.ptp(np.einsum("ntd,hnd->hnt", batch.keys[b], w), axis=2).max()
        # s, δ s and, for a bent head, δ s² must all keep fifty digits.
        with mp.workdps(60 + int(3 * spread / np.log(10))):
            found.append(_one(model, params, batch, reader, loss, b))
    return found


def _one(model, params, batch, head, loss, b):
    # The model's own arithmetic, on exact numbers.
    blocks = {name: exact(block[b : b + 1]) for name, block in params.items()}
    queries = exact(batch.queries[b : b + 1])
    w = vectors(model, blocks, queries)[0]
    n = batch.keys.shape[1]
    g, slope_head = 0 * w, 0
    largest = mp.mpf(0)
    for i in range(n):
        here = batch.present[b, i]
        k, x = (exact(a[b, i])[here] for a in (batch.keys, batch.values))
        y = mp.mpf(float(batch.labels[b, i]))
        attention = []
        for own in w[:, i]:
            weights = np.array([mp.exp(h) for h in k @ own], dtype=object)
            attention.append(weights / weights.sum())
        value, slope, pulled = read(head, b, np.concatenate([s @ x for s in attention]), batch.size)
        outer = slope_at(loss, y * value) * y / n
        largest = max(largest, abs(outer))
        for h, (s, v) in enumerate(zip(attention, np.split(slope, len(w)), strict=True)):
            g[h, i] = (s * (x @ v - s @ (x @ v))) @ k * outer
        if model.trains_head:
            slope_head = slope_head + outer * pulled
    if model.layer is None:
        chained = model.chain(blocks, g[0].T[None] @ queries)
    else:
        chained, _ = model.layer.chain(blocks, queries, g[None], np.zeros((1, *g.shape[:2])))
    found = {name: G[0] for name, G in chained.items()}
    if model.trains_head:
        found[head.block] = slope_head
    return {name: _split(G, largest) for name, G in found.items()}


def _split(G, largest):
    norm = mp.sqrt(sum((x * x for x in G.ravel()), mp.mpf(0)))
    # Below the digits in use the sum is zero: what is left of terms that cancel exactly.
    if norm <= largest * mp.mpf(10) ** (20 - mp.mp.dps):
        return np.zeros(G.shape), -np.inf
    return (G / norm).astype(float), float(mp.log(norm))
