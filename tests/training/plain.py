"""The published loops: softmax Jacobian in plain floats, an eps in the norm, a ridge on factors."""

from __future__ import annotations

import numpy as np

from attsvm import Problem, Selection, measures
from attsvm._utils.arrays import Floats, Ints
from attsvm.solvers.solve_many import solve_many
from attsvm.training.models.gradient.batch import Batch
from tests.training.stacks import Stack

# What the published code adds to norms, and times squared norms of the factors to the loss.
EPS = float(np.finfo(np.float64).eps)


def slope(batch: Batch, heads: Floats, W: Floats) -> tuple[Floats, Ints]:
    """∇_W of the logistic loss as (1/n) Σ ℓ' Xᵀ(diag(s) − s sᵀ)γ zᵀ, and the top tokens."""
    logits = np.einsum("bntd,bnd->bnt", batch.keys, np.einsum("bde,bne->bnd", W, batch.queries))
    s = np.exp(logits - logits.max(axis=2, keepdims=True))
    s /= s.sum(axis=2, keepdims=True)
    score = np.einsum("bntd,bd->bnt", batch.values, heads) * batch.labels[:, :, None]
    f = (s * score).sum(axis=2, keepdims=True)
    C = -s * (score - f) / (1 + np.exp(f)) / batch.keys.shape[1]
    C = np.einsum("bnt,bntd->bnd", C, batch.keys)
    return np.einsum("bnd,bne->bde", C, batch.queries), logits.argmax(axis=2)


def _normalized(G: Floats, eps: float = EPS) -> Floats:
    """G over its norm and eps; nothing where both are zero."""
    size = np.linalg.norm(G, axis=(1, 2), keepdims=True) + eps
    return G / np.where(size > 0, size, 1.0)


def weight_run(
    made: Stack, W: Floats, lr: float, steps: int, eps: float = EPS
) -> tuple[Floats, Ints]:
    """The weights and selections that the published loop ends with."""
    batch, top = Batch.of(made[0]), np.zeros(0, np.int64)
    for _ in range(steps):
        G, top = slope(batch, made[1], W)
        W = W - lr * _normalized(G, eps)
    return W, top


def factored_run(
    made: Stack, K: Floats, Q: Floats, lr: float, steps: int, ridge: float = EPS
) -> tuple[Floats, Ints]:
    """The product K Qᵀ and the selections that the published loop on factors ends with."""
    batch, top = Batch.of(made[0]), np.zeros(0, np.int64)
    for _ in range(steps):
        G, top = slope(batch, made[1], np.matmul(K, Q.transpose(0, 2, 1)))
        in_K = np.matmul(G, Q) + 2 * ridge * K
        in_Q = np.matmul(G.transpose(0, 2, 1), K) + 2 * ridge * Q
        K, Q = K - lr * _normalized(in_K), Q - lr * _normalized(in_Q)
    return np.matmul(K, Q.transpose(0, 2, 1)), top


def correlations(made: Stack, W: Floats, top: Ints, norm: str = "frobenius") -> Floats:
    """The correlation of each W with the certified solution at its selection."""
    tokens = made[0]
    problems = [
        Problem.of(t, Selection.of(t, alpha)) for t, alpha in zip(tokens, top, strict=True)
    ]  # fmt: skip
    found = [c.require() for c in solve_many(problems, norm)]
    return np.asarray(measures.correlation(W, found))
