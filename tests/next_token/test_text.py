"""Text files as sentences: numbers, words, running text, and what is left out or refused."""

import numpy as np
import pytest

from attsvm import BadTokens, Sentences, TooLarge, Unsupported
from attsvm.datasets.sentences import cyclic, realizable
from attsvm.next_token.realizable import find_explained, realizability
from attsvm.next_token.text import read_sentences, split_prose, strip_word, write_lines


def written(folder, text: str | bytes, name: str = "text.txt"):
    """The path of a file with this text."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def same(found: Sentences, expected: Sentences) -> None:
    """Nothing; an assertion when two sets of sentences differ anywhere."""
    for name in ("words", "labels", "counts", "follows", "follow_counts"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert found.names == expected.names


def test_numbers(tmp_path):
    data = read_sentences(written(tmp_path, "0 1\n\n1 2\n0 1 2\n 007\t1  2 \n"))
    same(data, Sentences.of([[0, 1], [1, 2], [0, 1, 2], [7, 1, 2]]))
    # Blank lines hold nothing and count.
    assert data.lines.tolist() == [4, 5] and data.where(0) == "line 4"
    wide = read_sentences(written(tmp_path, "0 1 2\n"), vocabulary=9)
    assert wide.vocabulary == 9 and wide.names is None


@pytest.mark.parametrize(
    "raw",
    [
        b"a b\nb c a\n",
        b"\xef\xbb\xbfa b\nb c a\n",
        b"a b\r\nb c a\r\n",
        b"a b\rb c a",
        b"\xef\xbb\xbfa\tb\r\n\r\nb c a",
    ],
)
def test_line_ends_and_byte_order_marks(tmp_path, raw):
    same(read_sentences(written(tmp_path, raw)), Sentences.of([["a", "b"], ["b", "c", "a"]]))


def test_one_word_among_numbers_makes_words(tmp_path):
    data = read_sentences(written(tmp_path, "0 1 2\n0 x 2\n"))
    assert data.names == ("0", "1", "2", "x")
    for odd in ("1.5", "1e3", "½", "1_0", "+1", "٣"):  # not written as token numbers are
        assert read_sentences(written(tmp_path, f"0 1 {odd}\n")).names == ("0", "1", odd)


def test_hostile_words_are_kept_as_they_are(tmp_path):
    words = ["[red]", "\x1b[31m", "\u202e", "';--", "<0>", "{}", "a" * 5000, "👩\u200d🚀", "\\n"]
    data = read_sentences(written(tmp_path, " ".join(words)))
    assert data.names == tuple(words)


def test_limit(tmp_path):
    file = written(tmp_path, "\n0 1 2\n\n1 0 2\n2 1 x\n")
    assert read_sentences(file, limit=2).names is None  # the third is not even looked at
    assert read_sentences(file, limit=2).lines.tolist() == [2, 4]
    assert read_sentences(file, limit=99).size == 3


def test_the_most_frequent_words(tmp_path):
    text = "a b\na rare b a\nb a b\nodd a odd2\nodd b\nc a rare b\n"
    found = read_sentences(written(tmp_path, text), vocabulary=3)
    # a 5 times, b 5, rare 2, odd 2: the first seen among equals stays.
    data = found
    assert data.names == ("a", "b", "rare")
    assert [data.text(s) for s in range(data.size)] == ["a rare b → a", "b a → b", "a rare → b"]
    assert data.lines.tolist() == [2, 3, 6]
    assert data.follows.tolist() == [1, -1, -1]  # 'odd b' is gone, 'odd a odd2' is no pair
    assert (found.left_out["words"], found.left_out["tokens"]) == (3, 4)
    assert found.left_out["lines"] == 2
    whole = read_sentences(written(tmp_path, text), vocabulary=100)
    assert whole.vocabulary == 6 and not any(whole.left_out.values())


def test_a_shortened_sentence_is_no_collocation(tmp_path):
    """'a x b' without x would say that b follows a, against the line that says c does."""
    file = written(tmp_path, "a c\na x b\nb c a\n")
    found = read_sentences(file, vocabulary=3)
    assert found.size == 1 and found.left_out["lines"] == 1
    assert found.follows[found.names.index("a")] == 1
    counted = read_sentences(file, vocabulary=3, collocations="bigrams")  # a c, a b, b c, c a
    names, follows = counted.names, counted.follows
    assert {names[x]: names[y] for x, y in enumerate(follows)} == {"a": "c", "b": "c", "c": "a"}
    assert counted.left_out["lines"] == 1


def test_collocations_of_a_file(tmp_path):
    file = written(tmp_path, "a b\nb c a\n")
    pairs = written(tmp_path, "b c\n\nc c\nb c\n", "pairs.txt")
    data = read_sentences(file, collocations=pairs)
    assert data.follows.tolist() == [1, 2, 2]
    same(read_sentences(file, collocations=str(pairs)), data)
    fewer = read_sentences(file, collocations=pairs, vocabulary=2)  # c is left out
    assert fewer.left_out["collocations"] == 3 and fewer.follows.tolist() == [1, -1]
    numbers = written(tmp_path, "0 1 2\n", "numbers.txt")
    same(
        read_sentences(numbers, collocations=written(tmp_path, "2 0", "n.txt")),
        Sentences.of([[0, 1, 2]], collocations={2: 0}),
    )


def test_inferred_collocations(tmp_path):
    file = written(tmp_path, "a b c\nb c a\n")
    same(
        read_sentences(file, collocations="bigrams"),
        Sentences.of([["a", "b", "c"], ["b", "c", "a"]], collocations="bigrams"),
    )
    assert read_sentences(file, collocations="copy").follows.tolist() == [0, 1, 2]
    # A path is a file, whatever its name.
    with pytest.raises(BadTokens, match="bigrams does not exist"):
        read_sentences(file, collocations=(tmp_path / "bigrams"))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "text.txt is empty"),
        (b"\n \n\t\n", "holds only blank lines"),
        (b"\xef\xbb\xbf", "holds only blank lines"),
        (b"0 1\n5\n", "line 2 of .*text.txt has one token"),
        (b"a b\n\nc\n", "line 3 of .*text.txt has one token"),
        (b"a b\nb \xff a\n", r"line 2 of .*text.txt is not UTF-8 text \(byte 0xff\)"),
        ("a b\nc d e\n".encode("utf-16"), "line 1 of .* is not UTF-8"),
        ("a b\nc d e\n".encode("utf-16-le"), "line 1 of .* holds a zero byte"),
        ("a b\nc é e\n".encode("latin-1"), "line 2 of .* is not UTF-8"),
        (b"PK\x03\x04\x14\x00\x00", "line 1 of .* holds a zero byte"),
        (b"0 1 2\n0 -1 2\n", "token -1 in line 2 is out of range"),
        (b"0 1 " + b"9" * 5000, "token 999999999999999999… in line 1 of .* is out of range"),
        (b"0 1 999999999999999", "GB of memory"),
        (b"a b\na c\n", "'a' is followed by 'b' in line 1 and by 'c' in line 2.*bigrams"),
    ],
)
def test_files_that_are_refused(tmp_path, raw, said):
    with pytest.raises(TooLarge if "GB" in said else BadTokens, match=said):
        read_sentences(written(tmp_path, raw))


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ("", "pairs.txt holds no collocation"),
        ("a b c\n", "line 1 of .*pairs.txt has 3 tokens"),
        ("a\n", "line 1 of .*pairs.txt has 1 tokens"),
        ("a b\n\na c\n", "gives 'a' two followers, 'b' in line 1 and 'c' in line 3"),
        ("x a\n", "'x' is followed by 'y' in line 1 and by 'a' in the collocations"),
    ],
)
def test_collocations_that_are_refused(tmp_path, pairs, said):
    file = written(tmp_path, "x y\na b c\n")
    with pytest.raises(BadTokens, match=said):
        read_sentences(file, collocations=written(tmp_path, pairs, "pairs.txt"))


@pytest.mark.parametrize(
    ("text", "pairs", "options", "said"),
    [
        ("0 1\n\n0 1 7\n", "", {"vocabulary": 7}, r"token 7 in line 3 is out of range: .* 0…6"),
        ("0 1 7\n", "2 9", {"vocabulary": 8}, "token 9 in the collocations is out of range"),
        ("0 1 7\n", "2 b", {}, r"p\.txt holds words and .*text\.txt token numbers"),
        ("0 1 7\n", "", {"vocabulary": 0}, "vocabulary is 0"),
        ("0 1 7\n", "", {"limit": -1}, "limit is -1"),
        ("a b c\nd e f\n", "", {"vocabulary": 1}, "no line keeps enough of its words with the 1"),
    ],
)
def test_options_that_do_not_fit_the_file(tmp_path, text, pairs, options, said):
    given = written(tmp_path, pairs, "p.txt") if pairs else None
    with pytest.raises(BadTokens, match=said):
        read_sentences(written(tmp_path, text), collocations=given, **options)


def test_no_file(tmp_path):
    with pytest.raises(BadTokens, match="does not exist"):
        read_sentences(tmp_path / "none.txt")
    with pytest.raises(BadTokens, match="is a folder"):
        read_sentences(tmp_path)
    with pytest.raises(BadTokens, match=r"none\.txt does not exist"):
        read_sentences(written(tmp_path, "0 1 2"), collocations=tmp_path / "none.txt")


def test_a_file_too_large_for_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("attsvm._utils.memory.available", lambda: 1e4)
    file = written(tmp_path, "a b c\n" * 1000)
    with pytest.raises(TooLarge, match=r"text\.txt would need"):
        read_sentences(file)
    assert read_sentences(file, limit=3).counts.tolist() == [3]


def test_what_is_written_is_read_again(tmp_path):
    lines = [[0, 1], [1, 2, 0], [2, 2, 1, 1]]
    write_lines(tmp_path / "a.txt", lines)
    same(read_sentences(tmp_path / "a.txt"), Sentences.of(lines))
    with pytest.raises(BadTokens, match="exists"):
        write_lines(tmp_path / "a.txt", lines)
    write_lines(tmp_path / "a.txt", lines[:2], force=True)
    assert read_sentences(tmp_path / "a.txt").size == 1
    with pytest.raises(BadTokens, match="is a folder; give the name of a text file"):
        write_lines(tmp_path, lines, force=True)
    with pytest.raises(Unsupported, match=r"ends in \.txt"):
        write_lines(tmp_path / "a.npz", lines)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


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
        ("A. One. B. Two.", ["A. One", "B. Two"]),
        ("By J. S. Bach. So it is.", ["By J. S. Bach", "So it is"]),
        ("It was I. You saw it.", ["It was I", "You saw it"]),
        ('He said "no." Then he left.', ['He said "no"', "Then he left"]),
        ("(All of it.) Some?! None…", ["(All of it)", "Some", "None"]),
        ("all is small. yes it is.", ["all is small", "yes it is"]),
        ("Version 3.0 of it. Go to a.b now.", ["Version 3.0 of it", "Go to a.b now"]),
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
    found = read_sentences(file, lower=True, strip=True, shortest=2)
    assert found.left_out["skipped"] == 1
    assert found.counts.tolist() == [2] and found.names == (
        "the", "cat", "sat", "a",
    )  # fmt: skip
    assert found.follows[3] == 1  # the line of two tokens is still a collocation
    found = read_sentences(file, lower=True, strip=True, shortest=3)
    assert found.left_out["skipped"] == 2 and not (found.follows >= 0).any()
    with pytest.raises(BadTokens, match="no line of 9 or more tokens: 5 are shorter"):
        read_sentences(file, shortest=9)
    with pytest.raises(BadTokens, match="shortest is 0"):
        read_sentences(file, shortest=0)


def test_prose_takes_bigrams_and_skips_what_is_short(tmp_path):
    file = written(tmp_path, "Stop. The cat sat. The cat ran. Thank you.")
    found = read_sentences(file, prose=True)
    assert found.left_out["skipped"] == 2
    data = found
    assert data.size == 2 and data.word(int(data.follows[data.names.index("The")])) == "cat"
    assert read_sentences(file, prose=True, limit=1).size == 1
    with pytest.raises(BadTokens, match="no sentence of 4 or more tokens: 4 are shorter"):
        read_sentences(file, prose=True, shortest=4)


def test_pairs_are_cleaned_too(tmp_path):
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
