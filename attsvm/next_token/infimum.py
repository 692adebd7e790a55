"""The infimum of the loss: over a frozen decoder, and with ties, where a part of W stays finite.

On realizable data every sentence can put all attention on its optimal token o, where the loss is
ℓ⋆ = −log softmax(V_o)_y with V_o = W_ov E[o]. With Δ = Σ_t s_t (V_t − V_o) and q⋆ = softmax(V_o)

    ℓ − ℓ⋆ = log(1 + Σ_{v≠y} q⋆_v (e^(Δ_v − Δ_y) − 1)),

in which nothing cancels, however close the run is.

Tokens on a common cycle of a query's order stay at finite distances while everything else parts
without bound. With the readout "mass" these distances maximize the likelihood of the choices that
are left when each sentence keeps only the tokens of its label's component:

    min_θ  Σ π(X) log Σ_{t ∈ X∩C} (c_t/c_o) e^(θ_t − θ_o),       Σ_{t ∈ C} θ_t = 0

(o: the token that the label follows; c_t: how often t occurs). Each component is strongly
connected, so the minimum is attained and unique; its value is the infimum of the loss. The loss of
any model is at least the entropy of the label given the context.

Theory: [huang2024nexttoken], [li2024mechanics], [hunter2004mm].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.result import Result, Summary
from attsvm.errors import BadTokens, NotConverged
from attsvm.next_token.attention import Contexts, attend, read_output
from attsvm.next_token.order import Order, check_orders
from attsvm.next_token.realizable import quote, tied_with_optimal
from attsvm.next_token.sentences import Sentences, check_sentences


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


def infima(contexts: Contexts, V: Floats) -> tuple[Floats, Bools]:
    """(ℓ⋆ (S,), whether it is the least loss over all attention (S,)) for V = E W_ovᵀ (N, N).

    The loss is convex in the attention, so the optimal token is best exactly when no other token
    improves on it to first order: (V_o − V_t)·(e_y − q⋆) ≥ 0.
    """
    place = optimal_places(contexts)
    alone = np.where(np.arange(contexts.tokens.shape[1]) == place[:, None], 0.0, -np.inf)
    loss, gap, _, _, _ = read_output(alone, place, contexts.tokens, V, contexts.labels)
    return loss, gap.min(axis=1) >= 0


def excess(contexts: Contexts, V: Floats, W: Floats) -> float:
    """Σ π (ℓ − ℓ⋆) at W_kq = W (d, d), exact to rounding in its own size."""
    place = optimal_places(contexts)
    rows = np.arange(len(place))
    logs, _ = attend(contexts.logits(W))
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


# Newton steps on one component, and where it is settled: what the two sides of the gradient may
# differ by, as a share of them.
_ROUNDS = 100
_SETTLED = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class FinitePart(Result):
    """W (N, N): θ in the column of each query, 0 outside components of several tokens.

    infimum: the infimum of the loss; entropy: that of the label given the context, below it;
    residual: the largest gradient of what was minimized; components: how many were.
    """

    W: Floats
    infimum: float
    entropy: float
    residual: float
    components: int

    def to_dict(self) -> dict[str, Any]:
        """The finite part as plain data for JSON; largest: the largest log-odds."""
        return {
            "components": self.components,
            "infimum": self.infimum,
            "entropy": self.entropy,
            "largest": float(np.abs(self.W).max(initial=0.0)),
            "residual": self.residual,
        }

    def _card(self) -> Summary:
        facts = {
            "infimum of the loss": self.infimum,
            "entropy of the label": self.entropy,
            "residual": self.residual,
            "W": str(self.W.shape),
        }
        return Summary("FinitePart", f"{self.components} components of several tokens", facts)


def finite_part(sentences: Sentences, orders: Mapping[int, Order]) -> FinitePart:
    """The finite part of all queries, for orthonormal tokens and the readout "mass".

    Every sentence needs exactly one token that its label follows: with several the likelihood is
    not concave.

    >>> import attsvm
    >>> from attsvm.next_token import orders
    >>> data = attsvm.Sentences.of([[0, 1, 2, 0], [0, 1, 2, 0], [0, 1, 2, 1]], collocations="copy")
    >>> W = finite_part(data, orders(data)).W
    >>> round(float(W[0, 2] - W[1, 2]), 4)  # log 2: label 0 comes twice as often as 1
    0.6931
    """
    tokens, counts = check_sentences(sentences).distinct
    check_orders(orders)
    right = sentences.right
    bad = np.flatnonzero(right.sum(axis=1) != 1)
    if len(bad):
        s = int(bad[0])
        raise BadTokens(
            f"{quote(sentences, s)} has {int(right[s].sum())} tokens that its label follows: the "
            "finite part needs exactly one; leave such sentences out"
        )
    kept, component = tied_with_optimal(sentences, orders)
    group = sentences.queries * (1 + component.max(initial=0)) + component
    W = np.zeros((sentences.vocabulary,) * 2)
    infimum = residual = 0.0
    number = 0
    several = kept.sum(axis=1) > 1
    for g in np.unique(group[several]):
        rows = np.flatnonzero(several & (group == g))
        order = orders[int(sentences.queries[rows[0]])]
        inside = order.tokens[order.component == component[rows[0]]]
        place = np.searchsorted(inside, np.where(kept[rows], tokens[rows], inside[0]))
        with np.errstate(divide="ignore"):
            base = np.where(kept[rows], np.log(counts[rows]), -np.inf)
        theta, value, left = _likeliest(
            place, base, right[rows].argmax(axis=1), sentences.weights[rows], len(inside)
        )
        W[inside, order.query] = theta
        infimum, residual, number = infimum + value, max(residual, left), number + 1
    return FinitePart(W, infimum, entropy(sentences), residual, number)


def entropy(sentences: Sentences) -> float:
    """The entropy of the label given the context, in nats, under the data's own frequencies."""
    context, weights = sentences.contexts, sentences.weights
    key = np.stack([context, sentences.labels], axis=1)
    _, pair = np.unique(key, axis=0, return_inverse=True)
    joint = np.bincount(pair.reshape(-1), weights)
    of_context = np.bincount(context, weights)[context]
    share = joint[pair.reshape(-1)] / of_context
    return float(-(weights @ np.log(share))) + 0.0


def _likeliest(
    place: Ints, base: Floats, chosen: Ints, weights: Floats, k: int
) -> tuple[Floats, float, float]:
    """(θ (k,), Σ π ℓ at it, the largest entry of its gradient): damped Newton steps.

    place (S, K): the token of each choice among the component's k; base (S, K): log counts, −inf
    where there is none; chosen (S,): the column that was chosen.
    """
    S = len(place)
    rows = np.arange(S)
    scale = weights.sum()
    share = weights / scale
    theta = np.zeros(k)

    def look(theta: Floats) -> tuple[float, Floats, Floats]:
        """(the mean loss, the shares of what was not chosen (S, K), those of what was (S,)): none
        is 1 minus another, so that rare choices keep their digits."""
        h = theta[place] + base
        h -= h[rows, chosen][:, None]
        h[rows, chosen] = -np.inf
        total = np.logaddexp(0.0, np.logaddexp.reduce(h, axis=1))
        return float(share @ total), np.exp(h - total[:, None]), np.exp(-total)

    value, others, own = look(theta)
    for _ in range(_ROUNDS):
        dense = np.zeros((S, k))
        np.add.at(dense, (rows[:, None], place), others)
        into = share @ dense
        out_of = np.bincount(place[rows, chosen], share * others.sum(axis=1), k)
        gradient = into - out_of
        if (np.abs(gradient) <= _SETTLED * (into + out_of)).all():
            break
        dense[rows, place[rows, chosen]] = own
        hessian = -dense.T @ (share[:, None] * dense)
        np.fill_diagonal(hessian, 0.0)
        np.fill_diagonal(hessian, -hessian.sum(axis=1))
        # + 11ᵀ of the same size: the sum stays 0.
        step = np.linalg.solve(hessian + np.trace(hessian) / k**2, gradient)
        step -= step.mean()
        size, slope = 1.0, float(gradient @ step)
        while True:
            new, *moved = look(theta - size * step)
            if new <= value - 1e-4 * size * slope + 1e-15 * abs(value) or size < 1e-6:
                break
            size /= 2
        theta, value, (others, own) = theta - size * step, new, moved
    else:
        if np.abs(gradient).max() > 1e-8:
            raise NotConverged(
                f"the log-odds of a component of {k} tokens did not settle: the gradient is still "
                f"{np.abs(gradient).max():.1e}"
            )
    return theta - theta.mean(), value * scale, float(np.abs(gradient).max())
