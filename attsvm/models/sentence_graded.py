"""The graded form of the gradients on sentences, for rules that weigh small and large alike.

Each function here makes from a sentence model's data a function that turns the parameters and what
`next_token` found there into the terms of each block. Left vectors are differences, of unit vectors
for W_ov and of embeddings for W_kq: every pair of tokens has one, from the lower to the higher number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import numpy as np

from attsvm.models import sentence_terms
from attsvm.models.contexts import Contexts
from attsvm.models.model import Evaluation
from attsvm.models.next_token import Look
from attsvm.rules.graded import Graded
from attsvm.rules.graded.wide import Wide, normal, of_logs
from attsvm.rules.rule import Blocks
from attsvm.tokens import Floats, Ints

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
    pairs = _Pairs(np.arange(N)[None, :], after[:, None], np.eye(N))
    right = np.repeat(np.arange(len(tokens)), N)
    log_weights = np.log(weights)[:, None]

    def terms(params: Blocks, found: Evaluation) -> dict[str, Graded]:
        x = of_logs(np.ones((len(tokens), N)), found.logs[0] + log_weights)
        return {"W_ov": pairs.graded(x, E[tokens], right)}

    return terms


def attention_terms(
    contexts: Contexts, V: Floats | None, *, kernels: ModuleType = sentence_terms
) -> Terms:
    """The terms of W_kq for frozen V = E W_ovᵀ (N, N); V None: readout "mass".

    kernels: `sentence_terms` or its twin.
    """
    c = contexts

    def terms(params: Blocks, found: Evaluation) -> dict[str, Graded]:
        logs, top = found.logs[0], found.top[0]
        if V is None:
            return {"W_kq": _moves(c, top, kernels.choices(logs, c.right, top, c.weights))}
        log_q = kernels.outputs(logs, c.tokens, V, c.labels)
        G = kernels.gaps(log_q, top, c.tokens, V, c.labels)
        return {"W_kq": _moves(c, top, kernels.pulls(logs, top, *G, c.weights))}

    return terms


def joint_terms(
    contexts: Contexts, first: tuple[Look, Terms] | None, *, kernels: ModuleType = sentence_terms
) -> Terms:
    """The terms of both blocks of L, or of L_0 + L with the first stage's look and terms."""
    c = contexts
    S, K = c.tokens.shape
    N = c.vocabulary
    shape = (S, K, N)
    pairs = _Pairs(
        np.broadcast_to(np.arange(N), shape),
        np.broadcast_to(c.labels[:, None, None], shape),
        np.eye(N),
    )
    there = c.tokens >= 0
    right = np.repeat(np.where(there, c.tokens, 0).ravel(), N)

    def terms(params: Blocks, found: Evaluation) -> dict[str, Graded]:
        logs, top = found.logs[0], found.top[0]
        V = np.ascontiguousarray(c.E @ params["W_ov"][0].T)
        log_q = kernels.outputs(logs, c.tokens, V, c.labels)
        G = kernels.gaps(log_q, top, c.tokens, V, c.labels)
        # q_v and s_t apart: the sum of their logarithms would round by the size of both.
        q, height = of_logs(np.ones_like(log_q), log_q)
        mass, level = of_logs(np.where(there, c.weights[:, None], 0.0), logs)
        x = normal(mass[:, :, None] * q[:, None, :], level[:, :, None] + height[:, None, :])
        W_ov = pairs.graded(x, c.E, right)
        if first is not None:
            own = {"W_ov": params["W_ov"]}
            W_ov = W_ov.plus(first[1](own, first[0](own))["W_ov"])
        return {"W_ov": W_ov, "W_kq": _moves(c, top, kernels.pulls(logs, top, *G, c.weights))}

    return terms


def _moves(contexts: Contexts, top: Ints, x: Wide) -> Graded:
    """Σ x_t (E[w_t] − E[w_a]) E[w_L]ᵀ over sentences and tokens, x (S, K) wide."""
    c = contexts
    best = np.take_along_axis(c.tokens, top[:, None], 1)
    pairs = _Pairs(np.where(c.tokens >= 0, c.tokens, best), best, c.E)
    queries, place = np.unique(c.queries, return_inverse=True)
    return pairs.graded(x, c.E[queries], np.repeat(place, c.tokens.shape[1]))


class _Pairs:
    """The left vectors rows_u − rows_w of terms with tokens u and w, arrays of one shape.

    (u, w) and (w, u) share a vector, and its terms add up before anything else happens to them.
    """

    def __init__(self, u: Ints, w: Ints, rows: Floats) -> None:
        u, w = np.broadcast_arrays(u, w)
        N = len(rows)
        low, high = np.minimum(u, w), np.maximum(u, w)
        codes, place = np.unique(low * N + high, return_inverse=True)
        self.at = place.ravel()
        self.sign = np.where(u > w, 1.0, -1.0) * (u != w)
        self.left = np.ascontiguousarray(rows[codes % N] - rows[codes // N])[None]

    def graded(self, x: Wide, right: Floats, into: Ints) -> Graded:
        """Σ_k x_k (rows_u − rows_w)_k right_into_kᵀ; right (q, c), into (terms,)."""
        share, power = x
        return Graded(
            self.left, np.ascontiguousarray(right)[None], self.at, into,
            (self.sign * share).reshape(1, -1), power.reshape(1, -1),
        )  # fmt: skip
