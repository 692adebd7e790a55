"""The least loss that attention can reach over a frozen decoder, and how far above it a run is.

On realizable data every sentence can put all attention on its optimal token o, where the loss is
ℓ⋆ = −log softmax(V_o)_y with V_o = W_ov E[o]. With Δ = Σ_t s_t (V_t − V_o) and q⋆ = softmax(V_o)

    ℓ − ℓ⋆ = log(1 + Σ_{v≠y} q⋆_v (e^(Δ_v − Δ_y) − 1)),

in which nothing cancels, however close the run is.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.errors import BadTokens
from attsvm.next_token import choices_twin
from attsvm.next_token.contexts import Contexts


def optimal_places(contexts: Contexts) -> Ints:
    """The place of the one optimal token of each sentence (S,).

    Raises BadTokens where there is none, or several.
    """
    count = contexts.right.sum(axis=1)
    if (count != 1).any():
        s = int(np.flatnonzero(count != 1)[0])
        raise BadTokens(
            f"sentence {s} has {int(count[s])} tokens that its label follows: the infimum of the "
            "loss is known where there is exactly one"
        )
    return contexts.right.argmax(axis=1)


def floors(contexts: Contexts, V: Floats) -> tuple[Floats, Bools]:
    """(ℓ⋆ (S,), whether it is the least loss over all attention (S,)) for V = E W_ovᵀ (N, N).

    The loss is convex in the attention, so the optimal token is best exactly when no other token
    improves on it to first order: (V_o − V_t)·(e_y − q⋆) ≥ 0.
    """
    place = optimal_places(contexts)
    alone = np.where(np.arange(contexts.tokens.shape[1]) == place[:, None], 0.0, -np.inf)
    loss, gap, _, _, _ = choices_twin.read_output(alone, place, contexts.tokens, V, contexts.labels)
    return loss, gap.min(axis=1) >= 0


def excess(contexts: Contexts, V: Floats, W: Floats) -> float:
    """Σ π (ℓ − ℓ⋆) at W_kq = W (d, d), exact to rounding in its own size."""
    place = optimal_places(contexts)
    rows = np.arange(len(place))
    logs, _ = choices_twin.attend(contexts.logits(W))
    there = contexts.tokens >= 0
    away = np.where(there, np.exp(logs), 0.0)
    away[rows, place] = 0.0
    best = contexts.tokens[rows, place]
    mass = np.zeros((len(rows), len(V)))
    np.add.at(mass, (np.nonzero(there)[0], contexts.tokens[there]), away[there])
    delta = mass @ V - away.sum(axis=1)[:, None] * V[best]
    y = contexts.labels
    rise = delta - delta[rows, y][:, None]
    log_q = V[best] - np.logaddexp.reduce(V[best], axis=1)[:, None]
    q = np.exp(log_q)
    with np.errstate(over="ignore"):
        terms = np.where(rise > 1, np.exp(log_q + rise) - q, q * np.expm1(np.minimum(rise, 1)))
    terms[rows, y] = 0.0
    total = terms.sum(axis=1)
    # Far from the infimum 1 + Σ may cancel or overflow, and its log is a sum of all v without harm.
    near = np.abs(total) < 0.5
    far = np.logaddexp.reduce(log_q + rise, axis=1)
    return float(contexts.weights @ np.where(near, np.log1p(np.where(near, total, 0.0)), far))
