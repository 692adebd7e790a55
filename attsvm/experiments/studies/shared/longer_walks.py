"""Descent from given weights by its definition: what a proof of convergence says of it is seen.

Nothing of training and nothing of the proofs is used here. With a_k = (x_iα − x_it) z_iᵀ for the
tokens t that are not selected, margins m_k = ⟨a_k, W⟩, scores γ and the logistic loss,

    −∇L = Σ_k q_k e^−m_k a_k,    q_k = (f_i − γ_it) / (n (1 + e^f_i)(1 + Σ_t e^−m_it)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.experiments.group import selected_by
from attsvm.problem.tokens import Tokens

# Records of a walk, the last included.
_MARKS = 8


@dataclass(frozen=True, eq=False)
class ReferenceWalk:
    """A walk of B instances: weights (R, B, d, dq) at some of its steps, and the least margin (B,)
    of all steps; it is positive where the selection was kept."""

    W: Floats
    least: Floats


@dataclass(frozen=True, eq=False)
class WalkRows:
    """Rows (B, n, T − 1, d dq) of the tokens selected at W, with the gaps of scores to them
    (B, n, T − 1) and the scores of the selected ones (B, n)."""

    a: Floats
    gap: Floats
    top: Floats

    @staticmethod
    def of(tokens: Sequence[Tokens], heads: Floats, alpha: Ints) -> WalkRows:
        """The rows of selections alpha (B, n)."""
        made = [_rows(t, v, one) for t, v, one in zip(tokens, heads, alpha, strict=True)]
        return WalkRows(*(np.stack(part) for part in zip(*made, strict=True)))

    def margins(self, W: Floats) -> Floats:
        """(B, n, T − 1) at W (B, d dq)."""
        return np.einsum("bntx,bx->bnt", self.a, W)

    def gradient(self, m: Floats, level: Floats) -> Floats:
        """−∇L e^level (B, d dq) where the margins are m, level (B,)."""
        e = np.exp(-m)
        share = 1 / (1 + e.sum(axis=2))
        lost = (e * self.gap).sum(axis=2) * share
        steep = share / (1 + np.exp(self.top - lost)) / self.gap.shape[1]
        weight = (self.gap - lost[:, :, None]) * steep[:, :, None]
        weight *= np.exp(level[:, None, None] - m)
        return np.einsum("bnt,bntx->bx", weight, self.a)


def _rows(tokens: Tokens, v: Floats, alpha: Ints) -> tuple[Floats, Floats, Floats]:
    keys, values = np.asarray(tokens.keys, dtype=np.float64), np.asarray(tokens.X) @ v
    score = values if tokens.labels is None else values * np.asarray(tokens.labels)[:, None]
    n, T = score.shape
    others = np.array([[t for t in range(T) if t != kept] for kept in alpha])
    i = np.arange(n)
    apart = keys[i, alpha][:, None] - keys[i[:, None], others]
    a = apart[:, :, :, None] * tokens.queries[:, None, None, :]
    top = score[i, alpha]
    return a.reshape(n, T - 1, -1), top[:, None] - score[i[:, None], others], top


def walk_on(
    tokens: Sequence[Tokens],
    heads: Floats,
    W: Floats,
    sizes: Floats,
    *,
    steps: int,
    p: float = 2.0,
    plain: bool = False,
) -> ReferenceWalk:
    """So many more steps from W (B, d, dq), of length sizes (B,), or of sizes times the gradient.

    p: the exponent of mirror descent, whose steps have their length in the dual norm.
    """
    alpha = np.stack([selected_by(t, M) for t, M in zip(tokens, W, strict=True)])
    rows = WalkRows.of(tokens, heads, alpha)
    q = p / (p - 1)
    x = W.reshape(len(W), -1)
    y = np.sign(x) * np.abs(x) ** (p - 1)
    m = rows.margins(x)
    least = m.min(axis=(1, 2))
    marks = set(np.unique(np.linspace(1, steps, _MARKS).round().astype(int)).tolist())
    found = []
    for step in range(1, steps + 1):
        level = np.zeros(len(W)) if plain else m.min(axis=(1, 2))
        g = rows.gradient(m, level)
        if not plain:
            g /= (np.abs(g) ** q).sum(axis=1, keepdims=True) ** (1 / q)
        y = y + sizes[:, None] * g
        x = y if p == 2 else np.sign(y) * np.abs(y) ** (q - 1)
        m = rows.margins(x)
        least = np.minimum(least, m.min(axis=(1, 2)))
        if step in marks:
            found.append(x.reshape(W.shape))
    return ReferenceWalk(np.stack(found), least)
