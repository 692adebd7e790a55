"""Next-token prediction: a decoder W_ov (N, d) and attention W_kq (d, d) over a sentence's tokens.

    z(X) = W_ov Σ_t s_t E[w_t],     s = softmax over t of E[w_t]ᵀ W_kq E[w_L]
    L(W_ov, W_kq) = −Σ_X π(X) log softmax(z(X))_label
    L_0(W_ov)     = −Σ_x π_0(x) log softmax(W_ov E[x])_n(x)

"decoder" trains W_ov on L_0, the first stage; "next-token" trains W_kq on L with W_ov frozen, the
second; "joint-next-token" trains both on L (or on L_0 + L) at once. With the readout "mass" the
loss is −log of the attention on tokens that the label follows, and there is no decoder.

For optimizers that weigh small and large alike, the gradient is also given term by term. One
sentence, with the formulas of `attention` and outputs v measured against the label y:

    ∂ℓ/∂W_ov = Σ_{v≠y} Σ_t q_v s_t (e_v − e_y) E[w_t]ᵀ
    ∂ℓ/∂W_kq = Σ_{t≠a} s_t (G_t − δ) (E[w_t] − E[w_a]) E[w_L]ᵀ,        δ = Σ_t s_t G_t
    G_t = Σ_{v≠y} q_v ((V_ay − V_av) − (V_ty − V_tv)),       a the top token

Every s, q, G and δ is a wide number: no term is lost beside a larger one. Differences from the
label and the top token are taken before anything is weighed, so the sums cancel only where G does.
Left vectors are differences, of unit vectors for W_ov and of embeddings for W_kq.

Theory: [huang2024nexttoken]; the readout "mass" is that of [li2024mechanics].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints, plain
from attsvm._utils.compiled import ENTRY, njit
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
from attsvm.training.models.gradient.attention import LEAST, TIED
from attsvm.training.models.model import Evaluation
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.wide import NONE, Wide, normal, of_log, of_logs, shifted
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


# (parameters, what was found there) -> the terms of each block.
Terms = Callable[[Blocks, Evaluation], dict[str, Graded]]


def with_terms(look: LossAndGrad, terms: Terms) -> LossAndGrad:
    """The same look with the gradient's graded form added."""

    def finely(params: Blocks) -> Evaluation:
        found = look(params)
        return replace(found, gradient=replace(found.gradient, graded=terms(params, found)))

    return finely


def decoder_terms(E: Floats, tokens: Ints, after: Ints, weights: Floats) -> Terms:
    """Σ_c π_c Σ_{v≠y} q_v (e_v − e_y) E[x_c]ᵀ; arguments as in `decoder_loss`."""
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
            return {"W_kq": _moves(c, top, choice_terms(logs, c.right, top, c.weights))}
        log_q = outputs(logs, c.tokens, V, c.labels)
        G = gaps(log_q, top, c.tokens, V, c.labels)
        return {"W_kq": _moves(c, top, pulls(logs, top, *G, c.weights))}

    return terms


def joint_terms(contexts: Contexts, first: tuple[LossAndGrad, Terms] | None) -> Terms:
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
        log_q = outputs(logs, c.tokens, V, c.labels)
        G = gaps(log_q, top, c.tokens, V, c.labels)
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
            "W_kq": _moves(c, top, pulls(logs, top, *G, c.weights)),
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


@njit(**ENTRY)
def _outputs(logs: Floats, tokens: Ints, V: Floats, labels: Ints, out: Floats) -> None:
    """Writes log q_v (S, N) as in `outputs`."""
    S, K = logs.shape
    N = V.shape[1]
    for s in range(S):
        y = labels[s]
        peak = -np.inf
        for v in range(N):
            out[s, v] = -np.inf
            if v != y:
                m = 0.0
                for t in range(K):
                    if tokens[s, t] >= 0 and logs[s, t] > LEAST:
                        row = V[tokens[s, t]]
                        m += math.exp(logs[s, t]) * (row[v] - row[y])
                out[s, v] = m
                peak = max(peak, m)
        total = 0.0
        for v in range(N):
            if out[s, v] - peak > LEAST:
                total += math.exp(out[s, v] - peak)
        if total == 0.0:  # the label is the only token there is
            continue
        above = peak + math.log(total)
        loss = max(above, 0.0) + math.log1p(math.exp(-abs(above)))
        for v in range(N):
            out[s, v] -= loss


def outputs(logs: Floats, tokens: Ints, V: Floats, labels: Ints) -> Floats:
    """log q_v (S, N) of the outputs z = Σ_t s_t V_t, −inf at the label.

    logs (S, K): log s_t; tokens (S, K), −1 beyond the end; V (N, N): one row per token;
    labels (S,).
    """
    out = np.empty((len(logs), V.shape[1]))
    _outputs(plain(logs), plain(tokens), plain(V), plain(labels), out)
    return out


@njit(**ENTRY)
def _gaps(
    log_q: Floats,
    top: Ints,
    tokens: Ints,
    V: Floats,
    labels: Ints,
    q: Wide,
    part: Floats,
    found: Wide,
) -> None:
    """Writes the wide G_t (S, K) as in `gaps` to found; q and part (N,) are room."""
    S, K = tokens.shape
    N = V.shape[1]
    mass, height = q
    share, power = found
    for s in range(S):
        y, best = labels[s], V[tokens[s, top[s]]]
        for v in range(N):
            mass[v] = 0.0
            if log_q[s, v] > -np.inf:
                x, extra = of_log(1.0, log_q[s, v])
                mass[v] = x
                height[v] = extra
        for t in range(K):
            share[s, t] = 0.0
            power[s, t] = 0
            if t == top[s] or tokens[s, t] < 0:
                continue
            row = V[tokens[s, t]]
            most = NONE
            for v in range(N):
                near, far = best[y] - best[v], row[y] - row[v]
                size = abs(best[y]) + abs(best[v]) + abs(row[y]) + abs(row[v])
                part[v] = near - far if abs(near - far) > TIED * size else 0.0
                if mass[v] != 0.0 and part[v] != 0.0:
                    most = max(most, height[v])
            g = whole = 0.0
            for v in range(N):
                if mass[v] != 0.0 and part[v] != 0.0:
                    x = shifted(mass[v] * part[v], height[v] - most)
                    g += x
                    whole += abs(x)
            if abs(g) > TIED * whole:
                x, extra = math.frexp(g)
                share[s, t] = x
                power[s, t] = most + extra


def gaps(log_q: Floats, top: Ints, tokens: Ints, V: Floats, labels: Ints) -> Wide:
    """The wide G_t (S, K), zero for the top token and for what cancels to its own rounding.

    log_q (S, N): those of `outputs`; top (S,): the place of the top token.
    """
    found, N = _wide(tokens.shape), V.shape[1]
    _gaps(
        plain(log_q),
        plain(top),
        plain(tokens),
        plain(V),
        plain(labels),
        _wide((N,)),
        np.empty(N),
        found,
    )
    return found


def _wide(shape: tuple[int, ...]) -> Wide:
    """Memory for wide numbers."""
    return np.empty(shape), np.empty(shape, np.int64)


@njit(**ENTRY)
def _pulls(logs: Floats, top: Ints, G: Wide, weights: Floats, room: Wide, found: Wide) -> None:
    """Writes the wide π s_t (G_t − δ) (S, K) as in `pulls` to found; room (K,)."""
    share, power = G
    mass, height = room
    out, powers = found
    S, K = logs.shape
    for s in range(S):
        level = NONE
        for t in range(K):
            out[s, t] = 0.0
            powers[s, t] = 0
            mass[t] = 0.0
            if t != top[s] and logs[s, t] > -np.inf:
                x, extra = of_log(1.0, logs[s, t])
                mass[t] = x
                height[t] = extra
                if share[s, t] != 0.0:
                    level = max(level, height[t] + power[s, t])
        if level == NONE:
            continue
        delta = 0.0
        for t in range(K):
            if mass[t] != 0.0 and share[s, t] != 0.0:
                delta += shifted(mass[t] * share[s, t], height[t] + power[s, t] - level)
        for t in range(K):
            if mass[t] == 0.0:
                continue
            most = max(level, power[s, t]) if share[s, t] != 0.0 else level
            x = shifted(share[s, t], power[s, t] - most) if share[s, t] != 0.0 else 0.0
            x -= shifted(delta, level - most)
            if x != 0.0:
                x, extra = math.frexp(x * mass[t] * weights[s])
                out[s, t] = x
                powers[s, t] = most + height[t] + extra


def pulls(logs: Floats, top: Ints, share: Floats, power: Ints, weights: Floats) -> Wide:
    """The wide π s_t (G_t − δ) (S, K), zero for the top token and where there is none.

    share, power (S, K): the wide G_t; weights (S,): π.
    """
    found, G = _wide(logs.shape), (plain(share), plain(power))
    _pulls(plain(logs), plain(top), G, plain(weights), _wide(logs.shape[1:]), found)
    return found


@njit(**ENTRY)
def _choice_terms(logs: Floats, right: Bools, top: Ints, weights: Floats, found: Wide) -> None:
    """Writes the wide π ∂ℓ/∂h_t (S, K) as in `choice_terms` to found."""
    share, power = found
    S, K = logs.shape
    for s in range(S):
        best = worst = -np.inf
        for t in range(K):
            share[s, t] = 0.0
            power[s, t] = 0
            if right[s, t]:
                best = max(best, logs[s, t])
            else:
                worst = max(worst, logs[s, t])
        if worst == -np.inf:
            continue
        inside = outside = 0.0
        for t in range(K):
            f = logs[s, t] - (best if right[s, t] else worst)
            if f > LEAST:
                if right[s, t]:
                    inside += math.exp(f)
                else:
                    outside += math.exp(f)
        for t in range(K):
            if t == top[s] or logs[s, t] == -np.inf:
                continue
            ratio, log = 1.0, logs[s, t]
            if right[s, t]:
                ratio, log = -outside / inside, logs[s, t] - best + worst
            x, extra = of_log(weights[s] * ratio, log)
            share[s, t] = x
            power[s, t] = extra


def choice_terms(logs: Floats, right: Bools, top: Ints, weights: Floats) -> Wide:
    """The wide π ∂ℓ/∂h_t (S, K) of ℓ = −log Σ_right s_t, zero for the top token.

    It is s_t outside and −(s_t/Σ_right s)(1 − Σ_right s) inside; right (S, K).
    """
    found = _wide(logs.shape)
    _choice_terms(plain(logs), plain(right), plain(top), plain(weights), found)
    return found
