"""Texts: files of one's own, and the samples that are shipped."""

import re

import pytest

import attsvm
from attsvm.inspection import read_passages, sample_texts


@pytest.mark.parametrize(
    ("raw", "passages"),
    [
        (b"One.\nTwo.\n", ["One.", "Two."]),
        (b"One\ntwo.\n\nThree.\n \nFour.", ["One two.", "Three.", "Four."]),
        (b"One.\r\n\r\nTwo.\r\n", ["One.", "Two."]),
        ("\ufeffÜber  alles.\n".encode(), ["Über alles."]),
        (b"\n\n\nOne line.\n\n\n", ["One line."]),
    ],
)
def test_blank_lines_part_passages_or_else_lines_do(raw, passages, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_bytes(raw)
    assert read_passages(file) == passages


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "holds no text"),
        (b" \n\t\n", "holds no text"),
        (b"fine\nna\xefve\n", "is not UTF-8"),
        (b"a\0b", "holds no text"),
    ],
)
def test_files_that_are_no_text_are_refused(raw, message, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_bytes(raw)
    with pytest.raises(attsvm.BadTokens, match=message):
        read_passages(file)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(attsvm.BadTokens, match="does not exist"):
        read_passages(tmp_path / "mine.txt")
    with pytest.raises(attsvm.BadTokens, match="is a folder; give a text file"):
        read_passages(tmp_path)


def test_the_prose_is_plain_and_no_passage_comes_twice():
    texts = sample_texts()
    assert len(set(texts)) == len(texts) >= 600
    assert all(15 <= len(text.split()) <= 40 for text in texts)
    assert all(text.isascii() and text[-1] in '."' for text in texts)
    assert len({" ".join(text.split()[:3]) for text in texts}) > 0.9 * len(texts)
    with pytest.raises(attsvm.Unsupported, match="there are prose and reactions"):
        sample_texts("poems")


def test_reactions_are_well_formed_and_no_two_are_alike():
    texts = sample_texts("reactions")
    assert len(set(texts)) == len(texts) == 1000
    for text in texts:
        left, right = text.split(">>")
        for molecule in [*left.split("."), *right.split(".")]:
            assert molecule
            assert molecule.count("(") == molecule.count(")")
            bare = re.sub(r"\[[^\]]+\]", "X", molecule)
            assert all(bare.count(digit) % 2 == 0 for digit in "123456789")
