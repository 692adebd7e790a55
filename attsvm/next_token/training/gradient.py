"""Next-token prediction: a decoder W_ov (N, d) and attention W_kq (d, d) over a sentence's tokens.

    z(X) = W_ov Σ_t s_t E[w_t],     s = softmax over t of E[w_t]ᵀ W_kq E[w_L]
    L(W_ov, W_kq) = −Σ_X π(X) log softmax(z(X))_label
    L_0(W_ov)     = −Σ_x π_0(x) log softmax(W_ov E[x])_n(x)

"decoder" trains W_ov on L_0, the first stage; "next-token" trains W_kq on L with W_ov frozen, the
second; "joint-next-token" trains both on L (or on L_0 + L) at once. With the readout "mass" the
loss is −log of the attention on tokens that the label follows, and there is no decoder.

Theory: [huang2024nexttoken]; the readout "mass" is that of [li2024mechanics].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.errors import BadTokens
from attsvm.next_token.attention import (
    Contexts,
    attend,
    followers_of,
    logit_slopes,
    read_choice,
    read_followers,
    read_output,
    shares,
)
from attsvm.next_token.sentences import orthonormal
from attsvm.training.models.model import Evaluation
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


def decoder_loss(E: Floats, tokens: Ints, after: Ints, weights: Floats) -> LossAndGrad:
    """Loss L_0 and its gradient in W_ov: tokens (C,) and their followers (C,), weights π_0 (C,)."""
    X = E[tokens]
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
        return _evaluation(
            float(weights @ loss), {"W_ov": G}, {"W_ov": peak}, logs, logs.argmax(axis=1), odds
        )

    return loss_and_grad


def attention_loss(contexts: Contexts, V: Floats | None) -> LossAndGrad:
    """Loss L and its gradient in W_kq, for frozen V = E W_ovᵀ (N, N); V None: readout "mass"."""
    c = contexts
    log_weights = np.log(c.weights)
    strength = None
    if V is None:
        wrong = np.flatnonzero(~c.right.any(axis=1))
        if len(wrong):
            raise BadTokens(
                f"sentence {int(wrong[0])} has no token that its label follows: the readout mass "
                "needs one; leave such sentences out, or take the readout softmax"
            )
    else:
        strength = strengths(V, c.follows)
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
                loss, gap, slope, _, _ = read_output(logs, top, c.tokens, V, c.labels)
            x, height = logit_slopes(logs, top, gap, slope)
        G, peak = _gathered(c, x, height + log_weights)
        odds = -(slope + loss)
        return _evaluation(float(c.weights @ loss), {"W_kq": G}, {"W_kq": peak}, logs, top, odds)

    return loss_and_grad


def joint_loss(contexts: Contexts, first: LossAndGrad | None) -> LossAndGrad:
    """Loss and gradient in both matrices: L, or L_0 + L with the first stage's `decoder_loss`."""
    c = contexts
    log_weights = np.log(c.weights)

    def loss_and_grad(params: Blocks) -> Evaluation:
        V = c.E @ params["W_ov"][0].T
        logs, top = attend(c.logits(params["W_kq"][0]))
        loss, gap, slope, r, mass = read_output(logs, top, c.tokens, V, c.labels)
        x, height = logit_slopes(logs, top, gap, slope)
        G, peak = _gathered(c, x, height + log_weights)
        # ∂L/∂W_ov = Σ π (q − e_y)(Σ_t s_t E[w_t])ᵀ with q − e_y = −(1 − q_y) r.
        rise = slope + log_weights
        most = float(rise.max())
        D = -(np.exp(rise - most)[:, None] * r).T @ (mass @ c.E)
        total = float(c.weights @ loss)
        if first is not None:
            found = first({"W_ov": params["W_ov"]})
            other = float(found.gradient.log_scale["W_ov"][0])
            both = max(most, other)
            D = np.exp(most - both) * D
            D += np.exp(other - both) * found.gradient.direction["W_ov"][0]
            most, total = both, total + float(found.loss[0])
        return _evaluation(
            total, {"W_ov": D, "W_kq": G}, {"W_ov": most, "W_kq": peak}, logs, top, -(slope + loss)
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
    loss: float, G: Blocks, scale: dict[str, float], logs: Floats, top: Ints, margins: Floats
) -> Evaluation:
    """One instance, with the stack axis in front."""
    gradient = Gradient(
        {name: block[None] for name, block in G.items()},
        {name: np.array([value]) for name, value in scale.items()},
    )
    return Evaluation(np.array([loss]), gradient, logs[None], top[None], margins[None])
