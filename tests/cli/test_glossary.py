"""Every word of a report stands in the glossary, one flag away, and the page is the same."""

import re

import pytest

from attsvm.cli.parts.glossary import PROVED, RUN, SECTIONS, TEXT, glossary_page
from attsvm.cli.parts.sentence_tables import _HEADS
from attsvm.next_token.order import KINDS
from attsvm.next_token.realizable import FAULTS
from tests.cli.command import problem
from tests.cli.glossed import PAGE
from tests.cli.test_sentences import GOOD, TIED

# The left column of a table, and the matrices that stand before a word there.
LABEL = re.compile(r"^│ (\S[^│]*?) +│", re.M)
MATRIX = re.compile(r"^W_(?:ov|kq) | of W_kq$")
LABELS = {MATRIX.sub("", word) for terms in SECTIONS.values() for word in terms} | set().union(
    *SECTIONS.values()
)


def labels(output: str) -> set[str]:
    """The words at the left of a report."""
    found = {MATRIX.sub("", word).replace("_", " ") for word in LABEL.findall(output)}
    assert found
    return found


@pytest.mark.parametrize("words", [(), ("--ties",), ("--vocabulary", 3, "--shortest", 2)])
@pytest.mark.parametrize("content", [GOOD, TIED])
def test_words_of_sentences(run, text, content, words):
    done = run("sentences", text(content), *words)
    known = {word.replace("_", " ") for word in LABELS}
    assert done.code == 0 and labels(done.out) <= known
    assert "attsvm sentences --glossary" in done.out


def test_words_of_heads_kinds_and_faults():
    assert {*_HEADS, *KINDS, *FAULTS} <= set(TEXT)


def test_words_of_runs(run, text, tmp_path):
    done = run("train", problem(tmp_path), "--steps", 50)
    assert labels(done.out) <= set(RUN)
    done = run("train", text(GOOD), "--model", "next-token", "--steps", 20, "--unseen", 5)
    assert done.code == 0 and labels(done.out) <= set(RUN) | set(TEXT)


def test_words_of_certificates(run, tmp_path):
    done = run("solve", problem(tmp_path), "--out", "best.npz")
    assert labels(done.out) <= set(PROVED) | {"seconds"}
    done = run("certify", "tokens.npz", "best.npz", "--exact")
    assert labels(done.out) <= set(PROVED) and "exact check" in labels(done.out)


@pytest.mark.parametrize("command", ["sentences", "train"])
def test_the_flag_prints_every_word(run, command):
    done = run(command, "--glossary")
    assert done.code == 0 and done.err == ""
    for terms in SECTIONS.values():
        for word in terms:
            assert re.search(rf"^{re.escape(word)} ", done.out, re.M), word


def test_the_page_is_the_same():
    assert PAGE.read_text("utf-8") == glossary_page(), "run `make docs`"


def test_meanings_are_sentences():
    for terms in SECTIONS.values():
        for word, meaning in terms.items():
            assert meaning.endswith(".") and "|" not in meaning, word
