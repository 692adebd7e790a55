"""The gradients of next-token training: differences, many digits, and the kernels' twins."""

import mpmath
import numpy as np
import pytest

from attsvm import BadTokens, Sentences
from attsvm.datasets.sentences import cyclic, realizable
from attsvm.next_token import attention
from attsvm.next_token.attention import Contexts, followers_of
from attsvm.next_token.training.gradient import (
    attention_loss,
    decoder_loss,
    joint_loss,
    strengths,
)
from attsvm.training.models import SENTENCE_MODELS
from attsvm.training.models.model import log_norm
from tests.twins import sentence_attention as twin

DIGITS = 1500
# Logits of size L round by L units in the last place, and so do the exponents of the gradient.
PRECISE = 2e-12
STENCIL = ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12))
STEP = 1e-3


def sentences(kind, seed=0):
    """A small set: realizable, with ties, with repeated tokens, or with shared followers."""
    rng = np.random.default_rng(seed)
    if kind == "realizable":
        return Sentences.of(realizable(6, 3, 10, seed))
    if kind == "cyclic":
        return Sentences.of(cyclic(6, (2, 4), 8, seed))
    lines = [[x, int(y)] for x, y in enumerate(rng.permutation(6))]
    if kind == "shared":  # three tokens have one follower, one has none
        lines = [[0, 3], [1, 3], [2, 3], [3, 4], [4, 1]]
    drawn = rng.integers(0, 6, (12, 5)).tolist()
    drawn[0] = [0, 1, 0, 2, 3]  # one token of the label, others with it where followers are shared
    return Sentences.of(lines + drawn, vocabulary=6)


def embedding(name, seed=0):
    """The identity, or six tokens in four dimensions."""
    if name == "orthonormal":
        return np.eye(6)
    return np.random.default_rng(seed).standard_normal((6, 4)) / 2


def looks(kind, name, seed=0):
    """Every loss of next-token training on one set: name -> (look, shapes of its blocks)."""
    data, E = sentences(kind, seed), embedding(name, seed)
    N, d = E.shape
    C = Contexts.of(data, E)
    rng = np.random.default_rng([seed, 5])
    W_ov = rng.standard_normal((N, d))
    tokens = np.flatnonzero(data.follows >= 0)
    share = rng.random(len(tokens)) + 0.1
    first = decoder_loss(E, tokens, data.follows[tokens], share / share.sum())
    found = {
        "decoder": (first, {"W_ov": (N, d)}),
        "next-token": (attention_loss(C, E @ W_ov.T), {"W_kq": (d, d)}),
        "joint-next-token": (joint_loss(C, None), {"W_ov": (N, d), "W_kq": (d, d)}),
        "joint with collocations": (joint_loss(C, first), {"W_ov": (N, d), "W_kq": (d, d)}),
    }
    if name == "orthonormal":
        found["level decoder"] = (attention_loss(C, level(data)), {"W_kq": (d, d)})
    if C.right.any(axis=1).all():
        found["mass"] = (attention_loss(C, None), {"W_kq": (d, d)})
    return found


def level(data, size=3.0):
    """A decoder whose rows rise at the follower only, by different heights."""
    V = np.zeros((data.vocabulary,) * 2)
    has = np.flatnonzero(data.follows >= 0)
    V[has, data.follows[has]] = size + np.arange(len(has)) / 4
    V[has] -= 0.5
    return V


CASES = [
    (kind, name)
    for kind in ("realizable", "cyclic", "repeated", "shared")
    for name in ("orthonormal", "any")
]


def drawn(shapes, seed, size):
    rng = np.random.default_rng([seed, 9])
    return {k: size * rng.standard_normal((1, *shape)) for k, shape in shapes.items()}


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_central_differences(kind, name):
    seen = set()
    for what, (look, shapes) in looks(kind, name).items():
        params = drawn(shapes, 1, 0.7)
        found = look(params).gradient
        for block, value in params.items():
            slope = np.zeros_like(value)
            for place in np.ndindex(value.shape[1:]):
                for times, weight in STENCIL:
                    moved = value.copy()
                    moved[(0, *place)] += times * STEP
                    there = look(params | {block: moved}).loss[0]
                    slope[(0, *place)] += weight * there / STEP
            G = found.direction[block] * np.exp(found.log_scale[block])[:, None, None]
            assert np.abs(slope).max() > 1e-6, what
            np.testing.assert_allclose(
                G, slope, atol=2e-9 * np.abs(slope).max(), rtol=0, err_msg=what
            )
        seen.add(what)
    assert set(SENTENCE_MODELS) <= seen


def precise_attention(C, V, W):
    """(W_kq's gradient / its norm, the log of its norm), in numbers of many digits."""
    with mpmath.workdps(DIGITS):
        N = C.vocabulary
        U = C.E @ W @ C.E.T
        G = mpmath.zeros(N, N)
        for s in range(len(C.tokens)):
            tokens = [int(w) for w in C.tokens[s] if w >= 0]
            q, y = int(C.queries[s]), int(C.labels[s])
            h = [mpmath.mpf(float(U[w, q])) + mpmath.mpf(float(C.log_counts[s, k]))
                 for k, w in enumerate(tokens)]  # fmt: skip
            e = [mpmath.exp(x) for x in h]
            a = [x / mpmath.fsum(e) for x in e]
            if V is None:
                mass = mpmath.fsum(
                    p for p, k in zip(a, range(len(a)), strict=True) if C.right[s, k]
                )
                slope = [p - (p / mass if C.right[s, k] else 0) for k, p in enumerate(a)]
            else:
                rows = [[mpmath.mpf(float(x)) for x in V[w]] for w in tokens]
                z = [mpmath.fsum(p * row[v] for p, row in zip(a, rows, strict=True))
                     for v in range(N)]  # fmt: skip
                e = [mpmath.exp(x) for x in z]
                r = [x / mpmath.fsum(e) - (v == y) for v, x in enumerate(e)]
                gain = [mpmath.fsum(x * g for x, g in zip(row, r, strict=True)) for row in rows]
                mean = mpmath.fsum(p * g for p, g in zip(a, gain, strict=True))
                slope = [p * (g - mean) for p, g in zip(a, gain, strict=True)]
            for w, x in zip(tokens, slope, strict=True):
                G[w, q] += mpmath.mpf(float(C.weights[s])) * x
        size = mpmath.sqrt(mpmath.fsum(x**2 for x in G))
        unit = np.array([[float(G[i, j] / size) for j in range(N)] for i in range(N)])
        return unit, float(mpmath.log(size))


@pytest.mark.parametrize("readout", ["level", "any", "mass"])
@pytest.mark.parametrize("depth", [1.0, 60.0, 500.0, 1500.0])
def test_many_digits(readout, depth, record_property):
    worst, least = 0.0, 0.0
    for seed in range(3):
        data = sentences("realizable", seed)
        C = Contexts.of(data, np.eye(6))
        rng = np.random.default_rng([seed, 3])
        V = {"level": level(data, 30.0), "any": rng.standard_normal((6, 6)), "mass": None}[readout]
        W = depth * np.round(rng.standard_normal((6, 6)), 3)
        if seed == 0:  # every sentence on its optimal token, all gradients tiny
            place = C.tokens[np.arange(len(C.tokens)), C.right.argmax(axis=1)]
            W = np.zeros((6, 6))
            for _ in range(6):
                for s, q in enumerate(C.queries):
                    others = [w for w in C.tokens[s] if w >= 0 and w != place[s]]
                    W[place[s], q] = max(W[place[s], q], W[others, q].max() + depth)
        found = attention_loss(C, V)({"W_kq": W[None]})
        unit, log_size = precise_attention(C, V, W)
        G = found.gradient.direction["W_kq"][0]
        apart = abs(log_norm(found.gradient)[0] - log_size) / max(1.0, abs(log_size) / 100)
        worst = max(worst, np.abs(G / np.linalg.norm(G) - unit).max(), apart)
        least = min(least, log_size)
    record_property("log_norm", least)
    if depth >= 500 and readout != "any":
        assert least < -400
    assert worst < PRECISE


@pytest.mark.parametrize("scale", [0.0, 1.0, 40.0, 900.0])
def test_kernels_and_twins(scale):
    for kind in ("realizable", "cyclic", "repeated", "shared"):
        data = sentences(kind)
        C = Contexts.of(data, np.eye(6))
        W = scale * np.random.default_rng(2).standard_normal((6, 6))
        logits = C.logits(W)
        logs, top = attention.attend(logits)
        plain_logs, plain_top = twin.attend(logits)
        np.testing.assert_array_equal(top, plain_top)
        np.testing.assert_allclose(logs, plain_logs, rtol=1e-14, atol=1e-15)
        given = followers_of(C, strengths(level(data), data.follows))
        read = attention.read_followers(logs, top, given)
        plain = twin.read_followers(logs, top, given.strength, C.slot, C.known, C.right, 6)
        for mine, other in zip(read, plain, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-13, atol=1e-14)
        pairs = [("logit_slopes", (logs, top, *read[1:]))]
        if C.right.any(axis=1).all():
            pairs.append(("read_choice", (logs, C.right)))
        for name, args in pairs:
            found = getattr(attention, name)(*args), getattr(twin, name)(*args)
            for mine, other in zip(*found, strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["realizable", "cyclic", "repeated", "shared"])
def test_a_level_decoder_read_as_any_other(kind):
    data = sentences(kind)
    C = Contexts.of(data, np.eye(6))
    W = {"W_kq": np.random.default_rng(4).standard_normal((1, 6, 6))}
    V = level(data)
    assert strengths(V, data.follows) is not None
    nearly = V.copy()
    nearly[0, (data.follows[0] + 1) % 6] += 1e-14  # no longer level: the general way is taken
    assert strengths(nearly, data.follows) is None
    found, other = attention_loss(C, V)(W), attention_loss(C, nearly)(W)
    np.testing.assert_allclose(found.loss, other.loss, rtol=1e-12)
    a, b = found.gradient, other.gradient
    np.testing.assert_allclose(
        a.direction["W_kq"] * np.exp(a.log_scale["W_kq"]),
        b.direction["W_kq"] * np.exp(b.log_scale["W_kq"]), atol=1e-12,
    )  # fmt: skip


def test_tokens_of_one_follower_tie_in_score():
    data = Sentences.of([[0, 2], [1, 2], [2, 0], [0, 1, 2]], vocabulary=3)
    C = Contexts.of(data, np.eye(3))
    found = attention_loss(C, level(data) * 0 + np.eye(3)[[2, 2, 0]])({"W_kq": np.zeros((1, 3, 3))})
    # Both tokens lead to the label: no attention is better than another.
    assert np.isneginf(found.gradient.log_scale["W_kq"]).all()
    assert not found.gradient.direction["W_kq"].any()


def test_what_cannot_be_read_is_refused():
    data = Sentences.of([[0, 1], [1, 2], [0, 1, 0]], vocabulary=3)
    with pytest.raises(BadTokens, match="sentence 0 has no token that its label follows"):
        attention_loss(Contexts.of(data, np.eye(3)), None)
    with pytest.raises(BadTokens, match="no sentence of three or more"):
        Contexts.of(Sentences.of([[0, 1], [1, 0]]), np.eye(2))
