"""Drawn sentences are unseen, different, and shifted as asked."""

import numpy as np
import pytest

from attsvm import Sentences
from attsvm.datasets.sentences import realizable
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.unseen import draw_unseen, zipf


def context(row):
    tokens = row[row >= 0].tolist()
    return tokens[-1], frozenset(tokens)


@pytest.mark.parametrize("repeats", [False, True])
def test_drawn_sentences_are_unseen_and_different(repeats):
    data = Sentences.of(realizable(6, 3, 40, seed=3))
    words = draw_unseen(data, 60, length=(2, 5), seed=0, repeats=repeats)
    known = {context(row) for row in data.words}
    assert not known & {context(row) for row in words}
    assert {int(n) for n in (words >= 0).sum(axis=1)} == {2, 3, 4, 5}
    keys = {(*sorted(row[row >= 0][:-1].tolist()), int(row[row >= 0][-1])) for row in words}
    assert len(keys) == 60
    twice = [len(set(row[row >= 0])) < (row >= 0).sum() for row in words]
    assert any(twice) == repeats
    again = draw_unseen(data, 60, length=(2, 5), seed=0, repeats=repeats)
    assert (words == again).all()
    assert (words != draw_unseen(data, 60, length=(2, 5), seed=1, repeats=repeats)).any()


def test_shifts_change_what_is_drawn():
    data = Sentences.of(realizable(20, 4, 68, seed=0))
    share = zipf(20, exponent=2.0)
    assert share.sum() == pytest.approx(1) and share[0] / share[3] == pytest.approx(16)
    plain = draw_unseen(data, 1000, length=4, seed=0)
    rare = draw_unseen(data, 1000, length=4, seed=0, frequencies=share)
    asked = draw_unseen(data, 1000, length=4, seed=0, queries=share)
    # Before the query, token 0 is one of three in 3 of 19 sentences; with Zipf in most.
    assert (plain[:, :-1] == 0).any(axis=1).mean() == pytest.approx(3 / 20, abs=0.05)
    assert (rare[:, :-1] == 0).any(axis=1).mean() > 0.4
    assert (asked[:, -1] == 0).mean() == pytest.approx(share[0], abs=0.1)
    never = np.where(np.arange(20) < 10, 1.0, 0.0)
    assert draw_unseen(data, 100, length=4, seed=0, frequencies=never)[:, :-1].max() < 10
    assert draw_unseen(data, 100, length=4, seed=0, queries=never)[:, -1].max() < 10


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"count": 200, "length": 2}, Unsupported, "were asked for"),
        ({"length": 7}, Unsupported, "length is 7"),
        ({"length": 1}, Unsupported, "length is 1"),
        ({"length": 2, "queries": [1]}, BadTokens, "queries must"),
        ({"length": 2, "frequencies": [0] * 6}, BadTokens, "frequencies must"),
        ({"length": 5, "frequencies": [1, 1, 0, 0, 0, 0]}, Unsupported, "too few tokens"),
    ],
)
def test_what_cannot_be_drawn_is_named(options, error, says):
    data = Sentences.of(realizable(6, 3, 10, seed=0))
    count = options.get("count", 5)
    rest = {name: value for name, value in options.items() if name != "count"}
    with pytest.raises(error, match=says):
        draw_unseen(data, count, seed=0, **rest)


def test_a_length_of_numpy_and_data_without_sentences():
    data = Sentences.of(realizable(6, 3, 40, seed=3))
    assert draw_unseen(data, 5, length=np.int64(4), seed=0).shape == (5, 4)
    pairs = Sentences.of([[0, 1], [1, 0]])
    with pytest.raises(BadTokens, match="no sentence"):
        draw_unseen(pairs, 1, length=2, seed=0)
    assert draw_unseen(pairs, 1, length=2, seed=0, queries=[1, 0]).tolist() == [[1, 0]]
