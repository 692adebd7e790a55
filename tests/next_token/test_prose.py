"""Running text: where sentences end, what is left of words, and what is skipped."""

import numpy as np
import pytest

from attsvm import BadTokens, Sentences, read_sentences
from attsvm.datasets.sentences import cyclic, realizable
from attsvm.next_token.realizable import find_explained, realizability
from attsvm.next_token.text import read_text, split_prose, strip_word
from tests.next_token.test_reading import written


def split(text: str) -> list[str]:
    """The sentences of a text, without their places."""
    return [found for _, found in split_prose(enumerate(text.splitlines(), 1), "it")]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One two. Three four!", ["One two", "Three four"]),
        ("One\ntwo. Three\n\nfour", ["One two", "Three", "four"]),
        ("A Heading\n\nIt says so.", ["A Heading", "It says so"]),
        ("See e.g. this. Mr. Ek left.", ["See e.g. this", "Mr. Ek left"]),
        ("1. Source Code. 2. Terms.", ["1. Source Code", "2. Terms"]),
        ("A. One. B. Two.", ["A. One", "B. Two"]),
        ("By J. S. Bach. So it is.", ["By J. S. Bach", "So it is"]),
        ("It was I. You saw it.", ["It was I", "You saw it"]),
        ('He said "no." Then he left.', ['He said "no"', "Then he left"]),
        ("(All of it.) Some?! None…", ["(All of it)", "Some", "None"]),
        ("all is small. yes it is.", ["all is small", "yes it is"]),
        ("Version 3.0 of it. Go to a.b now.", ["Version 3.0 of it", "Go to a.b now"]),
        ("一 二 三。四 五！", ["一 二 三", "四 五"]),
        ("Wait ... what is it? And etc. and so on.", ["Wait ... what is it", "And etc. and so on"]),
    ],
)
def test_where_sentences_end(text, sentences):
    assert split(text) == sentences


def test_no_sentence_ends():
    with pytest.raises(BadTokens, match=r"no sentence of it ends: .* any of its 4 words") as error:
        split("One two\nthree\n\nfour")
    assert "\n" not in str(error.value)
    assert split("") == [] and split("\n \n") == []


def test_places_are_first_lines(tmp_path):
    file = written(tmp_path, "\nOne two\nthree. Four\nfive six. Seven.\n")
    data = read_sentences(file, prose=True)
    assert data.lines.tolist() == [2, 3]
    assert data.names == ("One", "two", "three", "Four", "five", "six")


def test_strip_word():
    assert [strip_word(w) for w in ("«a-b»", "--", "$5", "don't.", "-7", "(c)", "7.")] == [
        "a-b", "", "5", "don't", "-7", "c", "7",
    ]  # fmt: skip


def test_lower_strip_and_shortest_in_lines(tmp_path):
    file = written(tmp_path, "The Cat, sat.\n...\nA cat\nSo!\nthe cat sat\n")
    with pytest.raises(BadTokens, match=r"line 4 .* --shortest 2, or read .* --prose"):
        read_sentences(file, strip=True)
    found = read_text(file, lower=True, strip=True, shortest=2)
    assert found.skipped == 1 and found.mode is None
    assert found.sentences.counts.tolist() == [2] and found.sentences.names == (
        "the", "cat", "sat", "a",
    )  # fmt: skip
    assert found.sentences.follows[3] == 1  # the line of two tokens is still a collocation
    found = read_text(file, lower=True, strip=True, shortest=3)
    assert found.skipped == 2 and not (found.sentences.follows >= 0).any()
    with pytest.raises(BadTokens, match="no line of 9 or more tokens: 5 are shorter"):
        read_sentences(file, shortest=9)
    with pytest.raises(BadTokens, match="shortest is 0"):
        read_sentences(file, shortest=0)


def test_prose_takes_bigrams_and_skips_what_is_short(tmp_path):
    file = written(tmp_path, "Stop. The cat sat. The cat ran. Thank you.")
    found = read_text(file, prose=True)
    assert found.mode == "bigrams" and found.skipped == 2
    data = found.sentences
    assert data.size == 2 and data.word(int(data.follows[data.names.index("The")])) == "cat"
    assert read_text(file, collocations="copy", prose=True).mode == "copy"
    assert read_sentences(file, prose=True, limit=1).size == 1
    with pytest.raises(BadTokens, match="no sentence of 4 or more tokens: 4 are shorter"):
        read_sentences(file, prose=True, shortest=4)


def test_a_tokenizer_and_pairs_are_cleaned_too(tmp_path):
    file = written(tmp_path, "A-B-C. D-E-F!")
    data = read_sentences(file, prose=True, lower=True, tokenizer=lambda text: text.split("-"))
    assert data.names == ("a", "b", "c", "d", "e", "f")
    pairs = written(tmp_path, "A B,\n", "pairs.txt")
    lines = written(tmp_path, "a b c\n", "lines.txt")
    data = read_sentences(lines, collocations=pairs, lower=True, strip=True)
    assert data.follows.tolist() == [1, -1, -1]


@pytest.mark.parametrize("draw", [realizable, cyclic])
def test_explained_sentences_are_realizable_together(draw):
    for seed in range(5):
        data = Sentences.of(draw(seed=seed))
        fine = find_explained(data)
        assert fine.all() == realizability(data).realizable
        part = data.part(np.flatnonzero(fine))
        assert realizability(part).realizable


def test_random_words_are_explained_one_by_one():
    """Against the definition: one optimal token, and no other of its tokens reaches it."""
    rng = np.random.default_rng(0)
    lines = rng.integers(0, 4, (60, 4)).tolist()
    data = Sentences.of(lines, collocations="copy")
    from attsvm.next_token.order import orders

    every = orders(data)
    for s, said in enumerate(find_explained(data, every)):
        words = set(data.words[s, : data.lengths[s]].tolist())
        best = [w for w in words if data.follows[w] == data.labels[s]]
        order = every[int(data.queries[s])]
        alone = len(best) == 1 and all(
            not (order.comparable(best[0], w) and order.comparable(w, best[0]))
            or order.component[order.tokens.tolist().index(w)]
            != order.component[order.tokens.tolist().index(best[0])]
            for w in words - set(best)
        )
        assert alone == said
    assert 0 < find_explained(data).sum() < data.size
