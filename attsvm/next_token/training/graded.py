"""The graded form of the gradients on sentences, for optimizers that weigh small and large alike.

Each function here makes from a sentence model's data a function that turns the parameters and what
`next_token` found there into the terms of each block. Left vectors are differences, of unit vectors
for W_ov and of embeddings for W_kq.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.next_token.contexts import Contexts
from attsvm.next_token.embedding import orthonormal
from attsvm.next_token.training import terms as sentence_terms
from attsvm.next_token.training.next_token import Look
from attsvm.training.models.model import Evaluation
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.wide import Wide, normal, of_logs
from attsvm.training.optimizers.optimizer import Blocks

# (parameters, what was found there) -> the terms of each block.
Terms = Callable[[Blocks, Evaluation], dict[str, Graded]]


def graded_look(look: Look, terms: Terms) -> Look:
    """The same look with the gradient's graded form added."""

    def finely(params: Blocks) -> Evaluation:
        found = look(params)
        return replace(found, gradient=replace(found.gradient, graded=terms(params, found)))

    return finely


def decoder_terms(E: Floats, tokens: Ints, after: Ints, weights: Floats) -> Terms:
    """Σ_c π_c Σ_{v≠y} q_v (e_v − e_y) E[x_c]ᵀ; arguments as in `decoder_look`."""
    N = len(E)
    v, y = np.broadcast_arrays(np.arange(N), after[:, None])
    unit = np.eye(N)
    right = np.repeat(np.arange(len(tokens)), N)
    log_weights = np.log(weights)[:, None]

    def terms(params: Blocks, found: Evaluation) -> dict[str, Graded]:
        x = of_logs(np.ones((len(tokens), N)), found.logs[0] + log_weights)
        return {"W_ov": _contrasts(unit, v, y, x, E[tokens], right)}

    return terms


def attention_terms(contexts: Contexts, V: Floats | None) -> Terms:
    """The terms of W_kq for frozen V = E W_ovᵀ (N, N); V None: readout "mass"."""
    c = contexts

    def terms(params: Blocks, found: Evaluation) -> dict[str, Graded]:
        logs, top = found.logs[0], found.top[0]
        if V is None:
            return {"W_kq": _moves(c, top, sentence_terms.choices(logs, c.right, top, c.weights))}
        log_q = sentence_terms.outputs(logs, c.tokens, V, c.labels)
        G = sentence_terms.gaps(log_q, top, c.tokens, V, c.labels)
        return {"W_kq": _moves(c, top, sentence_terms.pulls(logs, top, *G, c.weights))}

    return terms


def joint_terms(contexts: Contexts, first: tuple[Look, Terms] | None) -> Terms:
    """The terms of both blocks of L, or of L_0 + L with the first stage's look and terms."""
    c = contexts
    S, K = c.tokens.shape
    N = c.vocabulary
    shape = (S, K, N)
    v = np.broadcast_to(np.arange(N), shape)
    y = np.broadcast_to(c.labels[:, None, None], shape)
    unit = np.eye(N)
    there = c.tokens >= 0
    right = np.repeat(np.where(there, c.tokens, 0).ravel(), N)

    def terms(params: Blocks, found: Evaluation) -> dict[str, Graded]:
        logs, top = found.logs[0], found.top[0]
        V = np.ascontiguousarray(c.E @ params["W_ov"][0].T)
        log_q = sentence_terms.outputs(logs, c.tokens, V, c.labels)
        G = sentence_terms.gaps(log_q, top, c.tokens, V, c.labels)
        # q_v and s_t apart: the sum of their logarithms would round by the size of both.
        q, height = of_logs(np.ones_like(log_q), log_q)
        mass, level = of_logs(np.where(there, c.weights[:, None], 0.0), logs)
        x = normal(mass[:, :, None] * q[:, None, :], level[:, :, None] + height[:, None, :])
        W_ov = _contrasts(unit, v, y, x, c.E, right)
        if first is not None:
            own = {"W_ov": params["W_ov"]}
            W_ov = W_ov.plus(first[1](own, first[0](own))["W_ov"])
        return {
            "W_ov": W_ov,
            "W_kq": _moves(c, top, sentence_terms.pulls(logs, top, *G, c.weights)),
        }

    return terms


def _moves(contexts: Contexts, top: Ints, x: Wide) -> Graded:
    """Σ x_t (E[w_t] − E[w_a]) E[w_L]ᵀ over sentences and tokens, x (S, K) wide."""
    c = contexts
    best = np.take_along_axis(c.tokens, top[:, None], 1)
    token, best = np.broadcast_arrays(np.where(c.tokens >= 0, c.tokens, best), best)
    queries, place = np.unique(c.queries, return_inverse=True)
    right, into = c.E[queries], np.repeat(place, token.shape[1])
    if orthonormal(c.E):
        return _contrasts(c.E, token, best, x, right, into)
    # Entries of embeddings that are close must be taken apart before they are weighed.
    N = c.vocabulary
    low, high = np.minimum(token, best), np.maximum(token, best)
    codes, at = np.unique(low * N + high, return_inverse=True)
    left = c.E[codes % N] - c.E[codes // N]
    sign = np.where(token == high, 1.0, -1.0)
    return Graded(
        left[None], right[None], at.ravel(), into, (sign * x[0]).reshape(1, -1), x[1].reshape(1, -1)
    )


def _contrasts(rows: Floats, u: Ints, w: Ints, x: Wide, right: Floats, into: Ints) -> Graded:
    """Σ_k x_k (rows_u − rows_w)_k right_into_kᵀ of unit rows (p, d); u, w and x of one shape."""
    share, power = x
    return Graded(
        np.ascontiguousarray(rows)[None],
        np.ascontiguousarray(right)[None],
        u.ravel(),
        into,
        (share * (u != w)).reshape(1, -1),
        power.reshape(1, -1),
        w.ravel(),
    )
