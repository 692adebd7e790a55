"""Training in plain NumPy, one instance at a time: the textbook formula, which cancels.

s = softmax(X W z),   γ = y X v,   G = (1/n) Σ_i ℓ'_i (Σ_t s_t (γ_t − s·γ) x_t) z_iᵀ,
W ← W − η G/(‖G‖ + ε)
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from benchmarks.task import EPS, Answer, Task


def answer(task: Task) -> list[Answer]:
    """The last W of each instance."""
    return [Answer(_train(task, k), None) for k in range(task.stack)]


def _train(task: Task, k: int) -> Floats:
    if task.training is None or task.z is None:
        raise Unsupported("the numpy loop trains a weight only")
    run, X, z = task.training, task.X[k], task.z[k]
    W = run.start[k].copy()
    score = run.y[k][:, None] * (X @ run.v[k])
    for _ in range(run.steps):
        h = np.matmul(X, (z @ W.T)[:, :, None])[:, :, 0]
        s = np.exp(h - h.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        f = (s * score).sum(axis=1)
        slope = -1.0 / (1.0 + np.exp(f))
        C = slope[:, None] * s * (score - f[:, None])
        G = np.matmul(C[:, None, :], X)[:, 0].T @ z / len(X)
        W -= run.lr * G / (np.sqrt((G * G).sum()) + EPS)
    return W
