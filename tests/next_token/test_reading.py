"""Text files as sentences: numbers, words, what a vocabulary leaves out, and what is refused."""

import numpy as np
import pytest

from attsvm import BadTokens, Sentences, TooLarge, Unsupported
from attsvm.next_token.text import read_sentences, read_text, write_lines


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
    found = read_text(written(tmp_path, text), vocabulary=3)
    # a 5 times, b 5, rare 2, odd 2: the first seen among equals stays.
    data = found.sentences
    assert data.names == ("a", "b", "rare")
    assert [data.text(s) for s in range(data.size)] == ["a rare b → a", "b a → b", "a rare → b"]
    assert data.lines.tolist() == [2, 3, 6]
    assert data.follows.tolist() == [1, -1, -1]  # 'odd b' is gone, 'odd a odd2' is no pair
    assert (found.left_out_words, found.left_out_tokens) == (3, 4)
    assert found.left_out_lines == 2
    whole = read_text(written(tmp_path, text), vocabulary=100)
    assert whole.sentences.vocabulary == 6 and whole.left_out_words == whole.left_out_lines == 0


def test_a_shortened_sentence_is_no_collocation(tmp_path):
    """'a x b' without x would say that b follows a, against the line that says c does."""
    file = written(tmp_path, "a c\na x b\nb c a\n")
    found = read_text(file, vocabulary=3)
    assert found.sentences.size == 1 and found.left_out_lines == 1
    assert found.sentences.follows[found.sentences.names.index("a")] == 1
    counted = read_text(file, vocabulary=3, collocations="bigrams")  # a c, a b, b c, c a
    names, follows = counted.sentences.names, counted.sentences.follows
    assert {names[x]: names[y] for x, y in enumerate(follows)} == {"a": "c", "b": "c", "c": "a"}
    assert counted.left_out_lines == 1


def test_collocations_of_a_file(tmp_path):
    file = written(tmp_path, "a b\nb c a\n")
    pairs = written(tmp_path, "b c\n\nc c\nb c\n", "pairs.txt")
    data = read_sentences(file, collocations=pairs)
    assert data.follows.tolist() == [1, 2, 2]
    same(read_sentences(file, collocations=str(pairs)), data)
    fewer = read_text(file, collocations=pairs, vocabulary=2)  # c is left out
    assert fewer.left_out_collocations == 3 and fewer.sentences.follows.tolist() == [1, -1]
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


def test_a_tokenizer(tmp_path):
    file = written(tmp_path, "ab\n \nabc\n!\n")
    data = read_sentences(file, tokenizer=lambda line: [c for c in line if c.isalpha()])
    same(data, Sentences.of([["a", "b"], ["a", "b", "c"]]))
    codes = read_sentences(file, tokenizer=lambda line: [ord(c) % 8 for c in line if c != "!"])
    same(codes, Sentences.of([[1, 2], [1, 2, 3]]))
    for bad, said in (
        (lambda line: line, "makes str of line 1"),
        (len, "makes int of line 1"),
        (lambda line: ["x", 3], "makes 3 of line 1 and words of others"),
        (lambda line: [0.5, 1.5], "no whole number"),
    ):
        with pytest.raises(BadTokens, match=said):
            read_sentences(file, tokenizer=bad)


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


def test_numbers_that_do_not_fit(tmp_path):
    file = written(tmp_path, "0 1\n\n0 1 7\n")
    with pytest.raises(BadTokens, match=r"token 7 in line 3 is out of range: .* 0…6"):
        read_sentences(file, vocabulary=7)
    with pytest.raises(BadTokens, match="token 9 in the collocations is out of range"):
        read_sentences(file, vocabulary=8, collocations=written(tmp_path, "2 9", "p.txt"))
    with pytest.raises(BadTokens, match=r"p\.txt holds words and .*text\.txt token numbers"):
        read_sentences(file, collocations=written(tmp_path, "2 b", "p.txt"))
    with pytest.raises(BadTokens, match="vocabulary is 0"):
        read_sentences(file, vocabulary=0)
    with pytest.raises(BadTokens, match="limit is -1"):
        read_sentences(file, limit=-1)


def test_a_vocabulary_that_leaves_nothing(tmp_path):
    with pytest.raises(BadTokens, match="no line keeps enough of its words with the 1 most"):
        read_sentences(written(tmp_path, "a b c\nd e f\n"), vocabulary=1)


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
