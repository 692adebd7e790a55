"""Sentences: what the tables hold, against the same thing counted line by line."""

from collections import Counter

import numpy as np
import pytest

from attsvm import BadTokens, Sentences, TooLarge, Unsupported, embedding_of


def drawn(seed: int) -> Sentences:
    """Sentences of two to six tokens with repetitions, some of them equal."""
    rng = np.random.default_rng(seed)
    lines = [[x, (x + 1) % 5] for x in range(5)]
    lines += [rng.integers(0, 5, int(rng.integers(3, 8))).tolist() for _ in range(60)]
    return Sentences.of(lines)


@pytest.mark.parametrize("seed", range(5))
def test_the_tables_against_plain_lists(seed):
    data = drawn(seed)
    tokens, counts = data.distinct
    keys = {}
    for s in range(data.size):
        line = [int(w) for w in data.words[s] if w >= 0]
        assert data.lengths[s] == len(line) and data.queries[s] == line[-1]
        times = Counter(line)
        here = tokens[s] >= 0
        assert tokens[s, here].tolist() == sorted(times)
        assert counts[s, here].tolist() == [times[w] for w in sorted(times)]
        assert not counts[s, ~here].any()
        assert data.right[s].tolist() == [
            (w + 1) % 5 == data.labels[s] for w in tokens[s, here]
        ] + [False] * int((~here).sum())
        best = [(w + 1) % 5 == data.labels[s] for w in line]
        assert data.optimal[s].tolist() == best + [False] * (data.words.shape[1] - len(line))
        # Two sentences share a context when tokens, counts and query are the same.
        context = (frozenset(times.items()), line[-1])
        assert keys.setdefault(context, data.contexts[s]) == data.contexts[s]
    assert len(set(keys.values())) == len(keys)
    assert data.weights.sum() == pytest.approx(1.0)


def test_repeated_lines_are_counted_once():
    data = Sentences.of([[0, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1]], first=1)
    assert data.size == 2 and data.counts.tolist() == [2, 1] and data.lines.tolist() == [2, 3]
    assert data.where(1) == "line 3" and data.text(1) == "1 0 → 1"
    assert repr(data) == "Sentences(2 distinct of 3, 2 tokens, 1 collocations)"
    assert Sentences.of([[0, 1, 1]]).where(0) == "sentence 0"


def test_words_are_numbered_as_they_come():
    data = Sentences.of([["b", "a"], ["b", "c", "a"]])
    assert data.names == ("b", "a", "c") and data.text(0) == "b c → a"
    assert data.follows.tolist() == [1, -1, -1]
    fixed = Sentences.of([["b", "a"]], vocabulary=["a", "b", "z"])
    assert fixed.follows.tolist() == [-1, 0, -1]
    # A text is split into words, not into letters.
    assert Sentences.of(["bb aa", "bb cc aa"]).names == ("bb", "aa", "cc")


def test_a_larger_vocabulary_gives_unseen_tokens_names_of_their_own():
    data = Sentences.of([["<0>", "a", "a"]], vocabulary=4)
    assert data.vocabulary == 4 and len(set(data.names)) == 4
    assert Sentences.of([[0, 1, 1]], vocabulary=np.int64(7)).vocabulary == 7


def test_ways_to_give_collocations():
    lines = [[0, 1, 2], [0, 1, 0], [2, 0, 2]]
    assert Sentences.of(lines, collocations={0: 1, 2: 2}).follows.tolist() == [1, -1, 2]
    assert Sentences.of(lines, collocations=[(0, 1)]).follows.tolist() == [1, -1, -1]
    # 0 is followed by 1, 1, 2; 1 by 2 and 0, 2 seen first; 2 by 0.
    counted = Sentences.of(lines, collocations="bigrams")
    assert counted.follows.tolist() == [1, 2, 0] and counted.follow_counts.tolist() == [2, 1, 1]
    assert Sentences.of(lines, collocations="copy").follows.tolist() == [0, 1, 2]
    # Pairs stand beside two-token lines; bigrams and copy take their place.
    assert Sentences.of([[1, 0], *lines], collocations=[(0, 1)]).follows.tolist() == [1, 0, -1]
    assert Sentences.of([[1, 0], *lines], collocations="copy").follows.tolist() == [0, 1, 2]


def test_collocations_alone():
    data = Sentences.of([[0, 1], [1, 0]])
    assert data.size == 0 and data.contexts.shape == (0,) and data.queries.shape == (0,)
    assert data.distinct[0].shape == (0, 0) and data.weights.shape == (0,)


def test_a_part_keeps_the_collocations():
    data = drawn(1)
    some = data.part(np.array([3, 1]))
    assert some.size == 2 and some.text(0) == data.text(3) and some.where(1) == data.where(1)
    assert np.array_equal(some.follows, data.follows)
    one = data.part(3)
    assert one.size == 1 and one.text(0) == data.text(3)


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ([], {}, "no sentences"),
        ([[]], {}, "line 0 has 0 of the tokens"),
        ([[0, 1], [3]], {"first": 1}, "line 2 has 1 of the tokens"),
        ([[0, 1], [0, 2]], {}, "token 0 is followed by 1 in line 0 and by 2 in line 1"),
        ([["a\n", "b"], ["a\n", "c"]], {}, r"token 'a\\n' is followed by 'b' in line 0"),
        ([[0, 1]], {"collocations": {0: 2}}, "by 1 in line 0 and by 2 in the collocations"),
        ([[0, 5]], {"vocabulary": 5}, r"token 5 in line 0 is out of range: .* 0…4"),
        ([[0, 1]], {"vocabulary": 5, "collocations": [(0, 9)]}, "token 9 in the collocations"),
        ([[0, -1]], {}, "token -1 in line 0 is out of range"),
        ([[0, 1]], {"vocabulary": 0}, "the vocabulary is 0"),
        ([[0, "a"]], {}, "'a' in line 0 is no whole number"),
        ([[0, 1.5]], {}, "1.5 in line 0 is no whole number"),
        ([["a", 0]], {}, "token 0 in line 0 is no word"),
        ([["a", "b"]], {"vocabulary": ["a"]}, "'b' in line 0 is not in the vocabulary"),
        ([["a", "a"]], {"vocabulary": ["a", "a"]}, "holds the word 'a' twice"),
        ([["a", "b"]], {"vocabulary": 1}, "2 different words for a vocabulary of 1"),
        ([[0, 1]], {"collocations": [(0, 1, 2)]}, "is no pair"),
        ([[0, 1, 2]], {"collocations": [(0,)]}, "is no pair"),
        ([[0, 10**15]], {}, "GB of memory"),
        ([[0, 10**400]], {}, "GB of memory"),
        ([[0, 1, 2]], {"collocations": "trigrams"}, "'trigrams': give pairs, or one of bigrams"),
        ([[0, 1, 0]], {"collocations": 5}, "pair"),
        ([[0, 1, 0]], {"collocations": [3, 4]}, "pair"),
        ("0 1 2\n1 2", {}, "splitlines"),
        ([1, 2, 3], {}, "a list of token numbers"),
        (None, {}, "lines"),
        (7, {}, "lines"),
        ([[0, 1, 2]], {"vocabulary": 3.0}, "its size, or its words"),
        ([[0, 1, 2]], {"numbers": [1, 2]}, "2 numbers of lines for 1 lines"),
    ],
)
def test_what_is_refused(lines, options, said):
    with pytest.raises((BadTokens, TooLarge, Unsupported), match=said):
        Sentences.of(lines, **options)


def test_one_long_sentence_does_not_fill_the_memory(monkeypatch):
    """The table has the width of the longest sentence: it is refused before it is made."""
    monkeypatch.setattr("attsvm._utils.memory.available", lambda: 1e6)
    lines = [[0] * 1000, *([k % 7, 1 + k // 7, 2] for k in range(100))]
    with pytest.raises(TooLarge, match="101 sentences of 999 tokens would need"):
        Sentences.of(lines)


@pytest.mark.parametrize(("size", "seed"), [(3.0, 0), (None, 0), (0, 0), (3, -1)])
def test_an_embedding_needs_whole_numbers(size, seed):
    with pytest.raises(Unsupported, match="whole number"):
        embedding_of(size, "normal", seed=seed)
