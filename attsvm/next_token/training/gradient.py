"""Next-token prediction: a decoder W_ov (N, d) and attention W_kq (d, d) over a sentence's tokens.

    z(X) = W_ov Σ_t s_t E[w_t],     s = softmax over t of E[w_t]ᵀ W_kq E[w_L]
    L(W_ov, W_kq) = −Σ_X π(X) log softmax(z(X))_label
    L_0(W_ov)     = −Σ_x π_0(x) log softmax(W_ov E[x])_n(x)

"decoder" trains W_ov on L_0, the first stage; "next-token" trains W_kq on L with W_ov frozen, the
second; "joint-next-token" trains both on L (or on L_0 + L) at once. With the readout "mass" the
loss is −log of the attention on tokens that the label follows, and there is no decoder.

For optimizers that weigh small and large alike, the gradient is also given term by term: with the
formulas of `attention`, v over the outputs other than the label y, and a the top token,

    ∂ℓ/∂W_ov = Σ_{v≠y} Σ_t q_v s_t (e_v − e_y) E[w_t]ᵀ
    ∂ℓ/∂W_kq = Σ_{t≠a} (∂ℓ/∂h_t) (E[w_t] − E[w_a]) E[w_L]ᵀ

Left vectors are differences, of unit vectors for W_ov and of embeddings for W_kq. The weights of a
sentence share one exponent, so that sentences of any difference in size stay apart.

Theory: [huang2024nexttoken]; the readout "mass" is that of [li2024mechanics].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.next_token.attention import (
    Contexts,
    attend,
    fine_gaps,
    followers_of,
    logit_slopes,
    read_choice,
    read_followers,
    read_output,
    shares,
)
from attsvm.next_token.sentences import orthonormal
from attsvm.training.models.model import Evaluation
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.wide import Wide, of_logs
from attsvm.training.optimizers.optimizer import Blocks, Gradient

LossAndGrad = Callable[[Blocks], Evaluation]
READOUTS = ("softmax", "mass")


def strengths(V: Floats, follows: Ints) -> Floats | None:
    """How far each row of V (N, N) rises at the token's follower above one level elsewhere (N,).

    None unless every row is level elsewhere: as W_ov is when trained from zero on orthonormal
    tokens. Rows of tokens without a follower must be level.
    """
    N = len(V)
    rows = np.arange(N)
    has = follows >= 0
    at = np.where(has, follows, 0)
    other = np.where(at == 0, min(1, N - 1), 0)
    level = V[rows, other]
    apart = level[:, None] != V
    apart[rows[has], at[has]] = False
    if N == 1 or apart.any():
        return None
    return np.where(has, V[rows, at] - level, 0.0)


def decoder_loss(
    E: Floats, tokens: Ints, after: Ints, weights: Floats, *, graded: bool = False
) -> LossAndGrad:
    """Loss L_0 and its gradient in W_ov: tokens (C,) and their followers (C,), weights π_0 (C,).

    graded: with the terms of the gradient.
    """
    X, N = E[tokens], len(E)
    plain = E.shape[0] == E.shape[1] and orthonormal(E)
    rows = np.arange(len(tokens))
    log_weights = np.log(weights)

    def loss_and_grad(params: Blocks) -> Evaluation:
        W = params["W_ov"][0]
        z = W.T[tokens] if plain else X @ W.T
        loss, residual, odds, others = _odds(z, after)
        height = log_weights - odds - loss
        peak = float(height.max())
        lifted = np.exp(height - peak)[:, None] * residual
        if plain:
            G = np.zeros_like(W)
            G[:, tokens] = lifted.T
        else:
            G = lifted.T @ X
        logs = others - loss[:, None] - z[rows, after][:, None]
        logs[rows, after] = -loss
        terms = {}
        if graded:
            v, y = np.broadcast_arrays(np.arange(N), after[:, None])
            x = of_logs(np.ones(logs.shape), logs + log_weights[:, None])
            terms["W_ov"] = _contrasts(np.eye(N), v, y, x, X, np.repeat(rows, N))
        return _evaluation(
            float(weights @ loss),
            {"W_ov": G},
            {"W_ov": peak},
            (logs, logs.argmax(axis=1), odds),
            terms,
        )

    return loss_and_grad


def attention_loss(contexts: Contexts, V: Floats | None, *, graded: bool = False) -> LossAndGrad:
    """Loss L and its gradient in W_kq, for frozen V = E W_ovᵀ (N, N); V None: readout "mass", which
    needs a token that the label follows in every sentence. graded: with the gradient's terms."""
    c = contexts
    log_weights = np.log(c.weights)
    strength = None if V is None else strengths(V, c.follows)
    followers = None if strength is None else followers_of(c, strength)

    def loss_and_grad(params: Blocks) -> Evaluation:
        logs, top = attend(c.logits(params["W_kq"][0]))
        if V is None:
            loss, x, slope = read_choice(logs, c.right)
            height = slope
        else:
            if followers is not None:
                loss, gap, slope = read_followers(logs, top, followers)
            else:
                loss, gap, slope, r, _ = read_output(logs, top, c.tokens, V, c.labels)
                gap = fine_gaps(top, c.tokens, V, c.labels, r) if graded else gap
            x, height = logit_slopes(logs, top, gap, slope)
        height = height + log_weights
        G, peak = _gathered(c, x, height)
        terms = {}
        if graded and V is None:
            # By their logarithms: here the size of every slope is known.
            rival = np.where(c.right, (slope + loss)[:, None], 0.0) + log_weights[:, None]
            terms["W_kq"] = _moves(c, top, np.where(c.right, -1.0, 1.0), logs + rival)
        elif graded:
            terms["W_kq"] = _moves(c, top, x, height[:, None])
        found = logs, top, -(slope + loss)
        return _evaluation(float(c.weights @ loss), {"W_kq": G}, {"W_kq": peak}, found, terms)

    return loss_and_grad


def joint_loss(
    contexts: Contexts, first: LossAndGrad | None, *, graded: bool = False
) -> LossAndGrad:
    """Loss and gradient in both matrices: L, or L_0 + L with the first stage's `decoder_loss`.

    graded: with the terms of the gradient, which `first` gives as well.
    """
    c = contexts
    log_weights = np.log(c.weights)

    def loss_and_grad(params: Blocks) -> Evaluation:
        V = c.E @ params["W_ov"][0].T
        logs, top = attend(c.logits(params["W_kq"][0]))
        loss, gap, slope, r, mass = read_output(logs, top, c.tokens, V, c.labels)
        gap = fine_gaps(top, c.tokens, V, c.labels, r) if graded else gap
        x, height = logit_slopes(logs, top, gap, slope)
        height = height + log_weights
        G, peak = _gathered(c, x, height)
        # ∂L/∂W_ov = Σ π (q − e_y)(Σ_t s_t E[w_t])ᵀ with q − e_y = −(1 − q_y) r.
        rise = slope + log_weights
        most = float(rise.max())
        D = -(np.exp(rise - most)[:, None] * r).T @ (mass @ c.E)
        total, terms = float(c.weights @ loss), {}
        if graded:
            terms = {
                "W_ov": _outer_terms(c, r, logs, rise),
                "W_kq": _moves(c, top, x, height[:, None]),
            }
        if first is not None:
            found = first({"W_ov": params["W_ov"]})
            other = float(found.gradient.log_scale["W_ov"][0])
            both = max(most, other)
            D = np.exp(most - both) * D
            D += np.exp(other - both) * found.gradient.direction["W_ov"][0]
            most, total = both, total + float(found.loss[0])
            if graded:
                terms["W_ov"] = terms["W_ov"].plus(found.gradient.graded["W_ov"])
        scales = {"W_ov": most, "W_kq": peak}
        return _evaluation(
            total, {"W_ov": D, "W_kq": G}, scales, (logs, top, -(slope + loss)), terms
        )

    return loss_and_grad


def _odds(z: Floats, labels: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """(ℓ (S,), (q − e_y)/(1 − q_y) (S, N), log q_y/(1 − q_y) (S,), z with −inf at the label)."""
    rows = np.arange(len(z))
    others = z.copy()
    others[rows, labels] = -np.inf
    residual, outside = shares(others)
    odds = z[rows, labels] - outside
    residual[rows, labels] = -1.0
    return np.logaddexp(0.0, -odds), residual, odds, others


def _gathered(contexts: Contexts, x: Floats, height: Floats) -> tuple[Floats, float]:
    """(G (d, d), M): Σ x e^height E[w] E[q]ᵀ = e^M G; M = −inf when all is zero."""
    peak = float(height.max())
    if peak == -np.inf:
        return np.zeros((contexts.E.shape[1],) * 2), peak
    return contexts.combine(x * np.exp(height - peak)[:, None]), peak


def _evaluation(
    loss: float,
    G: Blocks,
    scale: dict[str, float],
    found: tuple[Floats, Ints, Floats],
    terms: dict[str, Graded],
) -> Evaluation:
    """One instance, with the stack axis in front; found: log attention, top tokens, margins."""
    gradient = Gradient(
        {name: block[None] for name, block in G.items()},
        {name: np.array([value]) for name, value in scale.items()},
        terms,
    )
    logs, top, margins = found
    return Evaluation(np.array([loss]), gradient, logs[None], top[None], margins[None])


def _outer_terms(contexts: Contexts, r: Floats, logs: Floats, rise: Floats) -> Graded:
    """Σ s_t q_v (e_v − e_y) E[w_t]ᵀ over sentences, q_v = −r_v e^rise; r (S, N), rise (S,)."""
    c, N = contexts, contexts.vocabulary
    shape = (*c.tokens.shape, N)
    v = np.broadcast_to(np.arange(N), shape)
    y = np.broadcast_to(c.labels[:, None, None], shape)
    height = np.broadcast_to((logs + rise[:, None])[:, :, None], shape)
    x = of_logs(np.broadcast_to(-r[:, None, :], shape), height)
    right = np.repeat(np.where(c.tokens >= 0, c.tokens, 0).ravel(), N)
    return _contrasts(np.eye(N), v, y, x, c.E, right)


def _moves(contexts: Contexts, top: Ints, x: Floats, height: Floats) -> Graded:
    """Σ x_t e^height (E[w_t] − E[w_a]) E[w_L]ᵀ over sentences and tokens, x (S, K)."""
    c = contexts
    size = of_logs(x, np.broadcast_to(height, x.shape))
    best = np.take_along_axis(c.tokens, top[:, None], 1)
    token, best = np.broadcast_arrays(np.where(c.tokens >= 0, c.tokens, best), best)
    queries, place = np.unique(c.queries, return_inverse=True)
    right, into = c.E[queries], np.repeat(place, token.shape[1])
    if orthonormal(c.E):
        return _contrasts(c.E, token, best, size, right, into)
    # Entries of embeddings that are close must be taken apart before they are weighed.
    N = c.vocabulary
    low, high = np.minimum(token, best), np.maximum(token, best)
    codes, at = np.unique(low * N + high, return_inverse=True)
    left = c.E[codes % N] - c.E[codes // N]
    share = np.where(token == best, 0.0, np.where(token == high, 1.0, -1.0)) * size[0]
    return Graded(
        left[None], right[None], at.ravel(), into, share.reshape(1, -1), size[1].reshape(1, -1)
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
