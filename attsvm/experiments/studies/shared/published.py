"""The papers' random instances, and their arithmetic: the softmax Jacobian in plain floats.

    ∇L = (1/n) Σ ℓ'_i Xᵀ(diag(s) − s sᵀ)γ zᵀ,      W ← W − η ∇L/(‖∇L‖ + ε)

γ_a − Σ s γ cancels to the rounding of γ once attention saturates, and the normalization makes
steps of full length out of what is left; with ε > 0 the run stops where the gradient falls below
it. `train` is exact; this loop is here to be compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.datasets.instances import TorchRandom
from attsvm.experiments.group import Drawn
from attsvm.problem.tokens import Tokens
from attsvm.training.heads import Head, head_of
from attsvm.training.models.gradient.batch import Batch

# What the released code adds to the norm of a gradient.
EPS = float(np.finfo(np.float64).eps)


def unit(a: Floats) -> Floats:
    """Each vector along the last axis over its length."""
    return a / np.linalg.norm(a, axis=-1, keepdims=True)


def published_instance(seed: int, n: int = 6, T: int = 8, d: int = 10) -> tuple[Tokens, Floats]:
    """The tokens and the head of the papers' averaged runs, from torch's own stream of a seed.

    v, y, X and z are drawn in this order in float32, y as the signs of n normals.
    """
    draw = TorchRandom(seed)
    v = unit(draw.randn(d))
    y = np.where(draw.randn(n) > 0, 1.0, -1.0)
    X = unit(draw.randn(n, T, d))
    return Tokens(X, queries=unit(draw.randn(n, d)), labels=y), v


def published_stack(seeds: Sequence[int]) -> tuple[list[Tokens], Floats]:
    """The papers' instances of these seeds and their heads (B, d)."""
    tokens, heads = zip(*map(published_instance, seeds), strict=True)
    return list(tokens), np.stack(heads)


def published_family(seeds: Sequence[int]) -> Drawn:
    """The papers' instances, as a family of studies."""
    return Drawn(*published_stack(seeds))


def plain_gradient(batch: Batch, head: Head, W: Floats) -> Floats:
    """∇L of the logistic loss (B, d, dq) at W (B, d, dq), by the formula above."""
    logits = np.einsum("bntd,bnd->bnt", batch.keys, np.einsum("bde,bne->bnd", W, batch.queries))
    s = np.exp(logits - logits.max(axis=2, keepdims=True))
    s /= s.sum(axis=2, keepdims=True)
    o = np.einsum("bnt,bntd->bnd", s, batch.values)
    slope = head.gradient(o)
    score = np.einsum("bntd,bnd->bnt", batch.values, slope) * batch.labels[:, :, None]
    f = (s * score).sum(axis=2, keepdims=True)
    reads = f if head.linear else (head.value(o) * batch.labels)[:, :, None]
    C = -s * (score - f) / (1 + np.exp(reads)) / batch.keys.shape[1]
    return np.einsum("bnd,bne->bde", np.einsum("bnt,bntd->bnd", C, batch.keys), batch.queries)


def _normalized(G: Floats, eps: float = 0.0) -> Floats:
    """Each matrix over its length and eps; 0 where it is 0."""
    size = np.linalg.norm(G, axis=(1, 2), keepdims=True) + eps
    return G / np.where(size > 0, size, 1.0)


State = tuple[Floats, ...]


def _at_marks(state: State, step: Callable[..., State], marks: Ints) -> State:
    """What a loop is at the steps `marks`, stacked."""
    found, wanted = [], set(marks.tolist())
    for k in range(int(marks[-1]) + 1):
        if k in wanted:
            found.append(state)
        state = step(*state)
    return tuple(np.stack(part) for part in zip(*found, strict=True))


def plain_run(
    tokens: Sequence[Tokens], heads: Floats | Head, W: Floats, *, lr: float, marks: Ints, eps: float
) -> Floats:
    """The weights (R, B, d, dq) of the published loop at the steps `marks`, from W (B, d, dq)."""
    batch, head = Batch.of(list(tokens)), head_of(heads, tokens[0].d)

    def step(W: Floats) -> State:
        return (W - lr * _normalized(plain_gradient(batch, head, W), eps),)

    return _at_marks((W,), step, marks)[0]


def factored_run(
    tokens: Sequence[Tokens], heads: Floats, factors: State, *, lr: float, marks: Ints, ridge: float
) -> State:
    """K (R, B, d, m) and Q (R, B, dq, m) of the published loop on L(K Qᵀ) + ridge (‖K‖² + ‖Q‖²).

    Each factor's gradient is normalized by itself.
    """
    batch, head = Batch.of(list(tokens)), head_of(heads, tokens[0].d)

    def step(K: Floats, Q: Floats) -> State:
        G = plain_gradient(batch, head, K @ Q.swapaxes(1, 2))
        turned = G.swapaxes(1, 2) @ K + 2 * ridge * Q
        return K - lr * _normalized(G @ Q + 2 * ridge * K), Q - lr * _normalized(turned)

    return _at_marks(factors, step, marks)
