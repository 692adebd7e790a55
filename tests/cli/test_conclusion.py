"""`attsvm sentences` ends with two plain sentences; texts are read with their options."""

import pytest

from attsvm.cli.sentences import conclude
from tests.cli.command import refused
from tests.cli.test_sentences import GOOD, TIED

PROSE = (
    "The dog sat on the mat. The dog ran to the mat. A cat, e.g. this one,\n"
    "looked at the dog. Why? She saw the dog and the dog.\n"
)


def sentences(text: str) -> int:
    """How many sentences a text has: all end with a full stop before a blank or the end."""
    return text.count(". ") + text.endswith(".")


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        (GOOD, (), ("All of the 4 sentences are realizable", "for 2 of 2 queries", "is silent on")),
        (TIED, (), ("1 of 4 sentences (25 %) is realizable", "in 3 it follows several", "--ties")),
        ("0 1 2\n1 2 0\n", (), ("cannot be said", "--collocations bigrams", "learn nothing")),
        ("0 1\n1 0\n", (), ("no sentence here", "learn nothing")),
        ("a b c\n", ("--collocations", "copy"), ("0 of 1 sentence (0 %)", "in 1 it follows none")),
    ],
)
def test_the_conclusion(run, text, content, words, said):
    report = run("sentences", text(content), *words, "--json").report
    told = report["conclusion"]
    assert sentences(told) == 2, told
    for word in said:
        assert word in told
    shown = run("sentences", "text.txt", *words)
    assert f"Conclusion: {told[:40]}" in shown.out


def test_the_numbers_of_the_conclusion_are_those_of_the_report(run, text):
    report = run("sentences", text(TIED), "--json").report
    assert (report["explained"], report["without_optimal"]) == (1, 0)
    assert report["ordered_queries"] == 2 and report["queries"] == 2
    share = 100 * report["solved"]["coverage"]["decided"]
    assert f"decides {share:.1f} % and is silent on {100 - share:.1f} %" in report["conclusion"]


def test_where_coverage_is_not_counted():
    report = {
        "sentences": 2, "explained": 2, "faults": {"no-collocations": 0}, "status": "realizable",
        "ordered_queries": 1, "queries": 1, "solved": {"coverage": None},
    }  # fmt: skip
    assert "are in no order." in conclude(report)


def test_shared_followers_alone(run, text):
    """Every sentence is fine, and yet two tokens have one follower."""
    report = run("sentences", text("a A\nb A\nc C\na c c A\n"), "--json").report
    assert report["status"] == "not-realizable" and report["explained"] == 1
    assert "but some tokens follow more than one other." in report["conclusion"]


def test_prose(run, text):
    file = text(PROSE)
    report = run("sentences", file, "--prose", "--lower", "--strip-punctuation", "--json").report
    assert (report["sentences"], report["skipped"], report["followers"]) == (4, 1, "bigrams")
    done = run("sentences", file, "--prose", "--shortest", 7)
    assert "2 (2 distinct)" in done.out and "3 too short" in done.out and "(bigrams)" in done.out
    refused(run("sentences", text("one two\nthree"), "--prose"), "no sentence of", "any of its 3")
    refused(run("sentences", text("one.\n"), "--prose"), "no sentence of 3 or more tokens")
    refused(run("sentences", text("one\n")), "--prose", "--shortest 2")
    refused(run("sentences", text(""), "--prose"), "is empty")
    refused(run("sentences", text(". ... !"), "--prose"), "holds no words")


def test_train_on_prose(run, text):
    file = text(PROSE)
    words = ("--model", "next-token", "--prose", "--lower", "--strip-punctuation", "--steps", 20)
    refused(run("train", file, *words), "not realizable", "--ties")
    done = run("train", file, *words, "--ties", "--json")
    assert done.code == 0 and done.report["steps"]["W_kq"] == 20


@pytest.mark.parametrize("option", ["--prose", "--lower", "--strip-punctuation", "--shortest=2"])
def test_options_of_texts_need_a_text(run, text, option):
    refused(run("train", text(GOOD), option), option.split("=")[0], "is for sentences")


def test_a_text_without_a_model_is_told_the_model(run, text):
    refused(run("train", text(GOOD)), "text.txt", "but a text", "--model next-token")
    refused(run("train", text("\ufeff" + "é " * 3000)), "but a text")
    done = run("train", text(b"PK\x00\xff\xfe"))
    refused(done, "is not an .npz file")
    assert "a text" not in done.err
    refused(run("train", text(b"")), "is not an .npz file")
