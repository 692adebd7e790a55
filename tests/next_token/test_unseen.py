"""Unseen sentences: drawn, predicted, and answered by a model; the order of kinds."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest

from attsvm import Sentences, two_stages
from attsvm.certificate import certify
from attsvm.certificate.exact import exact_tight
from attsvm.datasets.sentences import realizable
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.order import Order, orders
from attsvm.next_token.problems import Columns, solve_attention
from attsvm.next_token.unseen import (
    agreement,
    answer_unseen,
    draw_unseen,
    kinds_in_order,
    logit_accuracy,
    predict_unseen,
)

# With the query 4: 0 > 1 > 2 > 4 and 3 > 4; 5 is never seen. x is followed by x + 1.
CHAIN = [[x, (x + 1) % 6] for x in range(6)] + [
    [0, 1, 4, 1], [1, 2, 4, 2], [2, 4, 3], [3, 4, 4],
]  # fmt: skip
COLUMN = [1.5, 0.5, -0.5, 0.0, -1.5, 0.0]


@cache
def chain():
    data = Sentences.of(CHAIN)
    found = orders(data)
    return data, found, solve_attention(found, np.eye(6))


def test_the_confused_token_of_a_chain_is_above_a_slack_optimal_one():
    """0 > 1 > 2 > 4 alone is (3/2, 1/2, −1/2, −3/2); 3 ≥ −1/2 is met by 0 for nothing."""
    _, found, columns = chain()
    u = columns.W[:, 4]
    np.testing.assert_allclose(u, COLUMN, atol=1e-12)
    order = found[4]
    assert [order.kind(x) for x in range(6)] == [
        "optimal", "confused", "confused", "optimal", "non-optimal", "non-comparable",
    ]  # fmt: skip
    pairs = kinds_in_order(order, u)
    assert pairs == {
        ("optimal", "confused"): (3, 0, 1),  # 3 is below 1
        ("optimal", "non-comparable"): (1, 1, 0),  # 3 ties with 5
        ("optimal", "non-optimal"): (2, 0, 0),
        ("confused", "non-optimal"): (2, 0, 0),
        ("non-comparable", "non-optimal"): (1, 0, 0),
    }


def test_the_trained_model_answers_by_the_confused_token():
    data, _, _ = chain()
    run = two_stages(data)
    found = answer_unseen([[3, 1, 4], [5, 3, 4]], run.W_ov, run.W_kq, run.E)
    assert found.top.tolist() == [1, 3] and found.output.tolist() == [2, 4]
    assert found.mass[0] > 0.99  # it wins for good …
    assert 0.5 < found.mass[1] < 0.7  # … and a tie of the solution stays undecided


@cache
def all_columns(k):
    """(order, solution) of every order of k tokens, all in some relation, up to their names."""
    pairs = list(combinations(range(k), 2))
    asked = {}
    for number in range(1, 1 << len(pairs)):
        edges = {pair for bit, pair in enumerate(pairs) if number >> bit & 1}
        closed = all((a, d) in edges for a, b in edges for c, d in edges if b == c)
        if closed and len({x for edge in edges for x in edge}) == k:
            hi, lo = np.array(sorted(edges)).T
            asked[number] = Order(len(asked) % k, k, np.arange(k), hi, lo, np.zeros(len(hi), int))
    found = []
    for order in asked.values():
        piece = solve_attention({order.query: order}, np.eye(k))
        assert piece.gap < 1e-12
        found.append((order, piece.W[:, order.query]))
    return found


def test_smallest_orders_with_ties_and_reversals():
    """By going through all orders: an end at 0 needs four tokens, a reversed pair five."""
    zero, reversed_ = {}, {}
    for k in (2, 3, 4, 5):
        zero[k] = reversed_[k] = 0
        for order, u in all_columns(k):
            assert (u[order.kinds == "optimal"] > -1e-12).all()
            assert (u[order.kinds == "non-optimal"] < 1e-12).all()
            zero[k] += bool((np.abs(u[order.kinds != "confused"]) < 1e-9).any())
            reversed_[k] += sum(p.reversed for p in kinds_in_order(order, u).values()) > 0
    assert zero[2] == zero[3] == 0 < zero[4]
    assert reversed_[2] == reversed_[3] == reversed_[4] == 0 < reversed_[5]


def test_four_tokens_tie_an_optimal_token_with_one_never_seen():
    lines = [[x, (x + 1) % 5] for x in range(5)] + [[0, 1, 3, 1], [1, 3, 2], [2, 3, 3]]
    data = Sentences.of(lines)
    found = orders(data)
    columns = solve_attention(found, np.eye(5))
    exact = exact_tight(columns.pieces[0].problem, columns.pieces[0].multipliers)
    assert exact is not None and exact.square == 2
    numbers = exact.matrix.numerators[found[3].component, 0]
    assert (numbers == np.array([1, 0, 0, -1]) * exact.matrix.denominator).all()
    asked = predict_unseen([[2, 4, 3], [0, 4, 3]], columns.W, np.eye(5), data.follows)
    assert asked.tied.tolist() == [True, False]
    assert kinds_in_order(found[3], columns.W[:, 3])["optimal", "non-comparable"].tied == 1


def test_predictions_by_hand():
    data, _, columns = chain()
    words = np.array([[3, 1, 4], [3, 5, 4], [2, 4, -1], [4, 4, -1], [4, -1, -1], [0, 0, 4]])
    asked = predict_unseen(words, columns.W, np.eye(6), data.follows)
    assert asked.top.tolist() == [1, 3, 2, 4, 4, 0]
    assert asked.second.tolist() == [3, 5, 4, -1, -1, 4]
    np.testing.assert_allclose(asked.gap, [0.5, 0, 1, np.inf, np.inf, 3], atol=1e-12)
    assert asked.label.tolist() == [2, 4, 3, 5, 5, 1]
    assert asked.tied.tolist() == [False, True, False, False, False, False]
    assert asked.ahead(0.5).tolist() == [True, False, True, True, True, True]
    assert asked.ahead(0.6).tolist() == [False, False, True, True, True, True]


def test_sentences_of_one_token_only():
    asked = predict_unseen([[4], [2]], np.eye(6), np.eye(6), np.arange(6))
    assert asked.top.tolist() == [4, 2] and np.isinf(asked.gap).all() and not asked.tied.any()


def test_predictions_follow_the_embedding():
    data, _, columns = chain()
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    words = draw_unseen(data, 20, length=(2, 4), seed=1)
    plain = predict_unseen(words, columns.W, np.eye(6), data.follows)
    turned = predict_unseen(words, Q.T @ columns.W @ Q, Q, data.follows)
    assert (plain.tied == turned.tied).all()
    assert (plain.top == turned.top)[~plain.tied].all()
    np.testing.assert_allclose(plain.gap, turned.gap, atol=1e-12)


def test_accuracy_bounds_the_error_of_a_gap():
    """A feasible column that is not the solution: its distance is within what is promised."""
    _, found, columns = chain()
    piece = columns.pieces[0]
    off = np.array(piece.W)
    off[found[4].component[0]] += 0.3  # token 0, above the rest: still feasible
    worse = certify(piece.problem, "frobenius", off, piece.multipliers)
    radius = logit_accuracy(found, Columns(columns.W, (worse,), (1,)), np.eye(6))
    assert radius[4] >= 0.3 and (np.delete(radius, 4) == 0).all()
    tight = logit_accuracy(found, columns, np.eye(6))
    assert tight[4] < 1e-5
    E = np.random.default_rng(0).standard_normal((6, 9))
    whole = solve_attention(found, E)
    promised = logit_accuracy(found, whole, E)
    assert (promised[4] > 0) and promised.max() < 1e-3


@pytest.mark.parametrize("d", [5, 7])
def test_answers_are_those_of_the_plain_model(d):
    rng = np.random.default_rng(d)
    E, W_kq, W_ov = (rng.standard_normal(s) for s in ((5, d), (d, d), (5, d)))
    words = rng.integers(0, 5, (40, 6))
    words[::2, 4:] = -1
    found = answer_unseen(words, W_ov, W_kq, E)
    for s, row in enumerate(words):
        tokens = row[row >= 0]
        X = E[tokens]
        logits = X @ W_kq @ X[-1]
        a = np.exp(logits - logits.max())
        a /= a.sum()
        by_token = np.bincount(tokens, a, 5)
        assert found.top[s] == by_token.argmax()
        assert found.mass[s] == pytest.approx(by_token.max(), rel=1e-12)
        assert found.output[s] == (W_ov @ X.T @ a).argmax()


def test_agreement_by_hand():
    data, _, columns = chain()
    words = np.array([[3, 1, 4], [3, 5, 4], [2, 4, -1], [0, 4, -1], [5, 4, -1]])
    asked = predict_unseen(words, columns.W, np.eye(6), data.follows)  # gaps ½, 0, 1, 3, 1½
    W = columns.W.copy()
    W[1, 4] = -9.0  # the model prefers 3 to 1, and answers the first otherwise
    run = answer_unseen(words, 50 * np.eye(6)[data.follows].T, W, np.eye(6))
    found = agreement(asked, run, threshold=0.5)
    assert (found.total, found.ties) == (5, 1)
    assert (found.judged, found.agreed, found.attended) == (4, 3, 3)
    assert found.share == 0.75
    assert agreement(asked, run, threshold=1.0).share == 1.0


@pytest.mark.parametrize(
    ("words", "size", "says"),
    [
        ([[1, 6]], 6, "within 0…5"),
        ([[-1, 1]], 6, "left"),
        ([1, 2], 6, "table"),
        ([[1, 2], [1]], 6, "table"),
        ([[0.5, 1.0]], 6, "table"),
        ([[1, 2]], 5, "do not fit"),
    ],
)
def test_bad_sentences_are_named(words, size, says):
    with pytest.raises(BadTokens, match=says):
        predict_unseen(words, np.eye(size), np.eye(6), chain()[0].follows)


def test_a_column_of_another_size_is_named():
    with pytest.raises(BadTokens, match="shape"):
        kinds_in_order(chain()[1][4], np.zeros(5))


def context(row):
    tokens = row[row >= 0].tolist()
    return tokens[-1], frozenset(tokens)


def test_drawn_sentences_are_unseen_and_different():
    data = Sentences.of(realizable(6, 3, 40, seed=3))
    words = draw_unseen(data, 60, length=(2, 5), seed=0)
    known = {context(row) for row in data.words}
    assert not known & {context(row) for row in words}
    assert {int(n) for n in (words >= 0).sum(axis=1)} == {2, 3, 4, 5}
    keys = {(*sorted(row[row >= 0][:-1].tolist()), int(row[row >= 0][-1])) for row in words}
    assert len(keys) == 60
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in words)
    assert (words == draw_unseen(data, 60, length=(2, 5), seed=0)).all()
    assert (words != draw_unseen(data, 60, length=(2, 5), seed=1)).any()


@pytest.mark.parametrize(
    ("count", "length", "says"),
    [(200, 2, "were asked for"), (5, 7, "length is 7"), (5, 1, "length is 1")],
)
def test_what_cannot_be_drawn_is_named(count, length, says):
    data = Sentences.of(realizable(6, 3, 10, seed=0))
    with pytest.raises(Unsupported, match=says):
        draw_unseen(data, count, length=length, seed=0)


def test_a_length_of_numpy_and_data_without_sentences():
    data = Sentences.of(realizable(6, 3, 40, seed=3))
    assert draw_unseen(data, 5, length=np.int64(4), seed=0).shape == (5, 4)
    pairs = Sentences.of([[0, 1], [1, 0]])
    with pytest.raises(BadTokens, match="no sentence"):
        draw_unseen(pairs, 1, length=2, seed=0)
