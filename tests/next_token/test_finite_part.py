"""The finite part: log-odds in closed form, the infimum of the loss, and what training reaches."""

from dataclasses import replace

import numpy as np
import pytest

from attsvm import BadTokens, Sentences, train
from attsvm.datasets.sentences import cyclic, realizable
from attsvm.next_token.attention import Contexts
from attsvm.next_token.infimum import entropy, excess, finite_part, infima
from attsvm.next_token.order import orders
from attsvm.next_token.problems import solve_attention
from attsvm.next_token.training.gradient import attention_loss


def two_labels(a, b):
    """One context of two tokens and a query, whose label is the first a times, the second b."""
    return Sentences.of([[0, 1, 2, 0]] * a + [[0, 1, 2, 1]] * b, collocations="copy")


@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 1), (9, 2), (1, 50)])
def test_two_tokens_have_their_log_odds(a, b):
    data = two_labels(a, b)
    part = finite_part(data, orders(data))
    odds = np.log(a / b)
    np.testing.assert_allclose(part.W[:, 2], [odds / 2, -odds / 2, 0.0], atol=1e-10)
    p = np.array([a, b]) / (a + b)
    np.testing.assert_allclose(part.entropy, -(p * np.log(p)).sum(), rtol=1e-12)
    np.testing.assert_allclose(part.infimum, part.entropy, rtol=1e-10)
    assert part.components == 1 and part.residual < 1e-12


def test_repeated_tokens_count():
    # Token 0 stands twice: at θ = 0 it already has two thirds of the attention.
    data = Sentences.of([[0, 0, 1, 2, 0]] * 2 + [[0, 1, 0, 2, 1]], collocations="copy")
    part = finite_part(data, orders(data))
    np.testing.assert_allclose(part.W, 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_floor_is_the_least_loss(seed):
    data = Sentences.of(cyclic(8, (2, 4), 25, seed))
    found = orders(data)
    part, best = finite_part(data, found), solve_attention(found, np.eye(8))
    look = attention_loss(Contexts.of(data, np.eye(8)), None)
    at = [
        look({"W_kq": (part.W + R * best.W)[None]}).loss[0] - part.infimum for R in (5, 10, 20, 40)
    ]
    assert at[-1] == pytest.approx(0.0, abs=1e-12)
    assert at[0] > at[1] > at[2] > 0
    assert part.infimum >= part.entropy - 1e-12
    rng = np.random.default_rng(seed)
    for _ in range(50):
        W = part.W + 60 * best.W + 0.1 * rng.standard_normal((8, 8))
        assert look({"W_kq": W[None]}).loss[0] >= part.infimum - 1e-12


def test_training_reaches_both_parts():
    data = Sentences.of(cyclic(6, 3, 15, 0))
    found = orders(data)
    part, best = finite_part(data, found), solve_attention(found, np.eye(6))
    path = train(data, model="next-token", readout="mass", optimizer="gd", lr=10.0, steps=30_000)
    rest = path.weights["W_kq"][-1, 0] - part.W
    assert (rest * best.W).sum() / np.linalg.norm(rest) / best.upper > 0.99
    for q, order in found.items():
        for c in np.flatnonzero(np.bincount(order.component) > 1):
            inside = order.tokens[order.component == c]
            u = path.weights["W_kq"][-1, 0][inside, q]
            np.testing.assert_allclose(u - u.mean(), part.W[inside, q], atol=5e-3)
    assert 0 < path.loss[-1, 0] - part.infimum < 1e-3


def test_realizable_data_have_none():
    data = Sentences.of(realizable(8, 3, 20, 0))
    part = finite_part(data, orders(data))
    assert not part.W.any() and part.infimum == 0 and part.entropy == 0 and part.components == 0


def test_sentences_it_cannot_judge_are_named():
    data = Sentences.of([[0, 1], [1, 2], [0, 1, 0]], vocabulary=3)
    with pytest.raises(BadTokens, match=r"sentence 2 \(0 1 → 0\) has 0 tokens"):
        finite_part(data, orders(data))
    data = Sentences.of([[0, 2], [1, 2], [0, 1, 2]], vocabulary=3)
    with pytest.raises(BadTokens, match="has 2 tokens that its label follows"):
        finite_part(data, orders(data))


def test_entropy_is_of_contexts_not_of_lines():
    # The same tokens in another order are the same context; another query is another one.
    data = Sentences.of([[0, 1, 2, 0], [1, 0, 2, 1], [0, 2, 1, 0]], collocations="copy")
    np.testing.assert_allclose(entropy(data), 2 / 3 * np.log(2), rtol=1e-12)


def test_excess_is_exact_far_below_rounding():
    data = Sentences.of(realizable(8, 4, 30, 0))
    C = Contexts.of(data, np.eye(8))
    V = 12.0 * (np.eye(8)[data.follows] - 1 / 8)
    best = solve_attention(orders(data), np.eye(8))
    loss, least = infima(C, V)
    assert least.all()
    seen = []
    for R in (0.0, 3.0, 30.0, 300.0):
        above = excess(C, V, R * best.W)
        direct = attention_loss(C, V)({"W_kq": R * best.W[None]}).loss[0] - C.weights @ loss
        assert above == pytest.approx(direct, rel=1e-9, abs=1e-14)
        seen.append(above)
    # e^-R for the least margin 1, down to where a difference of losses would be rounding alone.
    assert 1e-140 < seen[-1] < 1e-120 and seen[0] > 0.1


def test_a_decoder_that_prefers_another_token_is_seen():
    data = Sentences.of([[0, 1], [1, 0], [0, 1, 1]], vocabulary=2)
    V = np.array([[0.0, 1.0], [0.0, 5.0]])  # token 1 says "1" louder than token 0, whose it is
    _, least = infima(Contexts.of(data, np.eye(2)), V)
    assert not least.any()


@pytest.mark.parametrize("times", [10**6, 10**9, 10**13, 10**16])
def test_rare_choices_keep_their_log_odds(times):
    lines = [[x, x + 1, 4, y] for x in range(3) for y in (x, x + 1)]
    data = Sentences.of(lines, collocations="copy")
    data = replace(data, counts=np.array([times, 1] * 3))
    theta = finite_part(data, orders(data)).W[:4, 4]
    np.testing.assert_allclose(-np.diff(theta), np.log(times), rtol=1e-11)


def test_no_sentence_has_no_finite_part():
    data = two_labels(2, 1)
    part = finite_part(data.part([]), orders(data))
    assert part.components == 0 and part.infimum == 0 and not part.W.any()
