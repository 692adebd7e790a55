"""The gradient of the attention loss from its textbook formula, in as many digits as it needs."""

import mpmath as mp
import numpy as np

from attsvm.training.heads.nonlinear import Quadratic, Relu

SLOPES = {
    "logistic": lambda x: -1 / (1 + mp.exp(x)),
    "exponential": lambda x: -mp.exp(-x),
    "linear": lambda x: mp.mpf(-1),
    "squared": lambda x: x - 1,
}


def exact(array):
    """The floats of an array as exact numbers, (...) of objects."""
    return np.vectorize(lambda x: mp.mpf(float(x)), otypes=[object])(array)


def read(head, b, o):
    """h(o) and ∇h(o) of instance b."""
    if isinstance(head, Relu):
        V = exact(head.V[b % len(head.V)])
        inner = o @ V
        active = [j for j in range(V.shape[1]) if inner[j] > 0]
        return sum((inner[j] for j in active), mp.mpf(0)), V[:, active].sum(axis=1) + 0 * o
    v = exact(head.v[b % len(head.v)])
    if isinstance(head, Quadratic):
        penalty = mp.mpf(head.penalty)
        return v @ o - penalty * (o @ o), v - 2 * penalty * o
    return v @ o, v


def gradient(model, params, batch, head, loss):
    """For each instance, block -> (unit direction as floats, log norm; −inf when it is zero)."""
    found = []
    reader = model.reads(params) if model.trains_head else head
    for b in range(batch.size):
        logits = np.einsum(
            "ntd,de,ne->nt", batch.keys[b], model.matrix(params)[b], batch.queries[b]
        )
        spread = np.ptp(logits, axis=1).max()
        # s, δ s and, for a bent head, δ s² must all keep fifty digits.
        with mp.workdps(60 + int(3 * spread / np.log(10))):
            found.append(_one(model, params, batch, reader, loss, b))
    return found


def _one(model, params, batch, head, loss, b):
    if model.name == "factored":
        K, Q = exact(params["K"][b]), exact(params["Q"][b])
        W = K @ Q.T
    else:
        W = exact(model.matrix(params)[b])
    n = batch.keys.shape[1]
    slope_head = 0 * exact(params[head.block][b]) if model.trains_head else None
    gradient_W = 0 * W
    largest = mp.mpf(0)
    for i in range(n):
        here = batch.present[b, i]
        k, x, z = (exact(a[b, i]) for a in (batch.keys, batch.values, batch.queries))
        k, x = k[here], x[here]
        y = mp.mpf(float(batch.labels[b, i]))
        weights = np.array([mp.exp(h) for h in k @ (W @ z)], dtype=object)
        s = weights / weights.sum()
        o = s @ x
        value, slope = read(head, b, o)
        outer = SLOPES[loss.name](y * value) * y / n
        largest = max(largest, abs(outer))
        scores = x @ slope
        gradient_W += np.outer((s * (scores - s @ scores)) @ k, z) * outer
        if isinstance(head, Relu) and model.trains_head:
            on = np.array([float(u > 0) for u in o @ exact(head.V[b])])
            slope_head += outer * np.outer(o, on)
        elif model.trains_head:
            slope_head += outer * o
    blocks = {"K": gradient_W @ Q, "Q": gradient_W.T @ K} if model.name == "factored" else {}
    if not blocks:
        name = "p" if model.prompt else "W"
        blocks = {name: gradient_W[:, 0] if model.prompt else gradient_W}
    if model.trains_head:
        blocks[head.block] = slope_head
    return {name: _split(G, largest) for name, G in blocks.items()}


def _split(G, largest):
    norm = mp.sqrt(sum((x * x for x in G.ravel()), mp.mpf(0)))
    # Below the digits in use the sum is zero: what is left of terms that cancel exactly.
    if norm <= largest * mp.mpf(10) ** (20 - mp.mp.dps):
        return np.zeros(G.shape), -np.inf
    return (G / norm).astype(float), float(mp.log(norm))
