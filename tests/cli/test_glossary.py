"""Every word of a report stands in docs/glossary.md."""

import re

import pytest

from attsvm.next_token.order import KINDS
from attsvm.next_token.realizable import FAULTS
from tests.cli.command import problem
from tests.cli.test_sentences import GOOD, TIED
from tests.conventions.tree import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text("utf-8")
TERMS = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE, re.M))
# The left column of a table or of a summary, and the matrices that stand before a word there.
LABEL = re.compile(r"^(?:│ (\S[^│]*?) +│|  (?!matrix|W_)(\S.*?)  +\S)", re.M)
MATRIX = re.compile(r"^W_(?:ov|kq) | of W_kq$")
KNOWN = {word.replace("_", " ") for term in TERMS for word in (term, MATRIX.sub("", term))}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GOOD, ("sentences", "text.txt")),
        (TIED, ("sentences", "text.txt")),
        (TIED, ("sentences", "text.txt", "--vocabulary", 3, "--shortest", 2)),
        (GOOD, ("train", "tokens.npz", "--steps", 50)),
        (GOOD, ("train", "text.txt", "--model", "next-token", "--steps", 20, "--unseen", 5)),
        (GOOD, ("solve", "tokens.npz", "--out", "best.npz")),
        (GOOD, ("certify", "tokens.npz", "best.npz", "--exact")),
    ],
)
def test_words_of_reports(run, text, tmp_path, content, words):
    text(content)
    problem(tmp_path)
    if words[0] == "certify":
        run("solve", "tokens.npz", "--out", "best.npz")
    done = run(*words)
    labels = {
        MATRIX.sub("", word).replace("_", " ")
        for pair in LABEL.findall(done.out)
        for word in pair
        if word
    }
    assert done.code == 0 and labels and labels <= KNOWN


def test_kinds_and_faults():
    assert {*KINDS, *FAULTS} <= set(TERMS)
