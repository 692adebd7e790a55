"""`attsvm sentences` and the example texts: reports, conclusions, figures, and what is refused."""

import os

import pytest

from attsvm import Sentences
from attsvm.datasets import EXAMPLES, SENTENCES
from attsvm.next_token.order import orders
from attsvm.next_token.realizable import realizability
from tests.cli.command import refused

GOOD = "a A\nb B\nc C\nd D\na b d A\nb c d B\nc d c C\n\na a d A\n"
TIED = "a A\nb B\nc C\na b c A\nb a c B\na b c A\nc c a C\n"
KEYS = (
    "status", "file", "sentences", "distinct", "vocabulary", "collocations", "queries", "left_out",
    "faults", "reasons", "dominant", "exceptions", "kinds", "orders", "seconds",
)  # fmt: skip


def test_a_realizable_file(run, text):
    done = run("sentences", text(GOOD), "--json")
    assert done.code == 0 and done.err == ""
    report = done.report
    assert set(KEYS) <= set(report)
    assert report["status"] == "realizable" and report["reasons"] == []
    assert (report["sentences"], report["distinct"], report["vocabulary"]) == (4, 4, 8)
    assert (report["collocations"], report["queries"]) == (4, 2)
    assert report["dominant"]
    # Query d: a > b > c and a > d, b > d; query c: c > d. Eight tokens each.
    assert report["kinds"] == {
        "optimal": 2, "confused": 1, "non-optimal": 3, "non-comparable": 10,
    }  # fmt: skip
    first, second = report["orders"]
    assert first == {
        "query": "c", "sentences": 1, "tokens": 2, "edges": 1, "covers": 1, "optimal": 1,
        "confused": 0, "non-optimal": 1, "chain": 2, "components": 2,
    }  # fmt: skip
    assert (second["query"], second["tokens"], second["edges"], second["covers"]) == ("d", 4, 4, 3)


def test_the_table(run, text):
    done = run("sentences", text(GOOD))
    assert done.code == 0 and done.err == ""
    for word in ("4 (4 distinct)", "realizable", "yes", "10 non-comparable", "query", "chain"):
        assert word in done.out
    assert "several labels" not in done.out and "left out" not in done.out
    assert "learns an order of tokens for 2 of 2 queries" in done.out


def test_one_query_in_full(run, text):
    done = run("sentences", text(GOOD), "--query", "d")
    assert done.code == 0
    # The covers are a > b, b > c and b > d: a > b > c, and b > d once more.
    assert "\na > b > c\n" in done.out and "\nb > d\n" in done.out
    report = run("sentences", "text.txt", "--query", "d", "--json").report
    assert report["orders"][0]["chains"] == [[["a"], ["b"], ["c"]], [["b"], ["d"]]]
    assert report["queries"] == 2 and len(report["orders"]) == 1


def test_not_realizable_is_a_finding(run, text):
    done = run("sentences", text(TIED), "--json")
    assert done.code == 0 and done.err == ""
    report = done.report
    assert report["status"] == "not-realizable"
    assert report["faults"]["contradiction"] == 1 and report["faults"]["cycle"] == 1
    kinds = {reason["kind"]: reason for reason in report["reasons"]}
    assert kinds["contradiction"]["lines"] == [4, 5]
    assert "a > b > a" in kinds["cycle"]["message"]
    shown = run("sentences", "text.txt")
    assert shown.code == 0 and "no: 1 contradiction, 1 cycle" in shown.out
    assert "contradiction: line 4 (a b c → A) and line 5 (b a c → B)" in shown.out
    assert "--ties" in shown.out


def test_ties(run, text):
    shown = run("sentences", text(TIED), "--query", "c")
    assert "\n{a = b} > c\n" in shown.out and "With train --ties, attention learns" in shown.out


def test_collocations_vocabulary_and_limit(run, text):
    file = text("the cat sat on the mat\nthe dog sat on the cat\nrarely the dog sat on a mat\n")
    report = run("sentences", file, "--collocations", "bigrams", "--json").report
    assert report["status"] == "not-realizable" and report["vocabulary"] == 8
    report = run("sentences", file, "--collocations", "copy", "--limit", 1, "--json").report
    assert (report["sentences"], report["vocabulary"], report["collocations"]) == (1, 5, 5)
    done = run("sentences", file, "--vocabulary", 6)
    assert "2 words, 2 tokens" in done.out and "no-collocations" in done.out
    pairs = text("cat cat\nthe mat\n", "pairs.txt")
    report = run("sentences", file, "--collocations", pairs, "--json").report
    assert report["collocations"] == 2


def test_collocations_alone(run, text, tmp_path):
    done = run("sentences", text("0 1\n1 0\n"), "--json")
    assert done.code == 0
    assert done.report["status"] == "realizable" and done.report["orders"] == []
    assert "0 (0 distinct)" in run("sentences", "text.txt").out


def test_no_collocations(run, text, tmp_path):
    """Nothing can be compared."""
    done = run("sentences", text("0 1 2\n1 2 0\n"), "--json")
    assert done.code == 0 and done.report["kinds"] == {
        "optimal": 0, "confused": 0, "non-optimal": 0, "non-comparable": 6,
    }  # fmt: skip
    assert [reason["kind"] for reason in done.report["reasons"]] == ["no-collocations"]


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        (b"", "", ("text.txt is empty", "one sentence a line")),
        (b"a b\nc\n", "", ("line 2", "one token")),
        (b"0 1 2\n0 1 9\n", "--vocabulary 9", ("token 9 in line 2", "0…8", "vocabulary 9")),
        (b"a b\nc \xe9 d\n", "", ("line 2", "UTF-8")),
        (b"a b\na c\n", "", ("'a'", "'b' in line 1", "'c' in line 2", "bigrams")),
        (b"a b\n", "--collocations text2.txt", ("text2.txt does not exist",)),
        (b"a b\n", "--collocations .", ("is a folder",)),
        (b"a b c\n", "--collocations text.txt", ("line 1 of text.txt has 3 tokens",)),
        (b"a b c\n", "--vocabulary 0", ("--vocabulary",)),
        (b"a b c\n", "--vocabulary some", ("--vocabulary",)),
        (b"a b c\n", "--limit 0", ("--limit",)),
        (b"a b c\n", "--query z", ("'z' is the query of no sentence", "queries are b")),
        (b"a b c\n", "--query a", ("queries are b",)),
        (b"0 1 2\n", "--query one", ("queries are 1",)),
        (b"0 1 2\n", "--query 7", ("queries are 1",)),
        (b"0 1\n", "--query 0", ("queries are none",)),
        (b"a b c\n", "--tie", ("--tie",)),
    ],
)
def test_refusals(run, text, tmp_path, content, words, said):
    text(content)
    refused(run("sentences", "text.txt", *words.split()), *said)
    refused(run("sentences", "text.txt", "--json", *words.split()), *said)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_files_that_are_none(run, tmp_path):
    refused(run("sentences", "nowhere.txt"), "nowhere.txt does not exist")
    refused(run("sentences", tmp_path), "is a folder", "text file")
    refused(run("sentences"), "FILE")
    os.mkfifo("pipe")
    refused(run("sentences", "pipe"), "pipe is not a regular file")
    refused(run("sentences", "n" * 300), "too long")


def test_hostile_words(run, text):
    """Escapes and markup are shown, not obeyed; in JSON the words are as they were."""
    words = ["[red]", "\x1b[31mx", "\u202e", "a" * 3000, "{}", "\x07"]
    lines = [f"{x} {y}" for x, y in zip(words, words[1:] + words[:1], strict=True)]
    file = text("\n".join([*lines, " ".join([*words, words[1]]), " ".join([*words, "[/red]"])]))
    done = run("sentences", file, "--query", "\x07")
    assert done.code == 0 and done.err == ""
    assert not {"\x1b", "\x07", "\u202e"} & set(done.out)
    assert "[red] > \\x1b[31mx" in done.out and "\\u202e" in done.out
    report = run("sentences", file, "--query", "\x07", "--json").report
    assert report["orders"][0]["query"] == "\x07"
    clash = text("\x1b[1m b\n\x1b[1m c\n", "clash.txt")
    done = run("sentences", clash)
    refused(done, "\\x1b[1m")
    assert "\x1b" not in done.err


def test_long_lists_are_cut_for_a_reader(run, text):
    lines = [f"{k} {k + 50}" for k in range(50)]
    lines += [f"{k} {(k + 1) % 50} 99" for k in range(40)]
    file = text("\n".join(lines))
    done = run("sentences", file)
    assert done.out.count("no-optimal: line") == 5 and "no-optimal: 35 more" in done.out
    assert "25 more queries" in done.out
    report = run("sentences", file, "--json").report
    assert len(report["reasons"]) == 20 and report["faults"]["no-optimal"] == 40
    assert len(report["orders"]) == 40


def test_the_paper_s_example(run):
    assert run("example", "sentences-paper", "--out", "paper.txt").code == 0
    report = run("sentences", "paper.txt", "--json").report
    assert report["outside"] == [] and report["unclosed"] == 0 and report["vocabulary"] == 4
    assert "inside; prefix-closed" in run("sentences", "paper.txt").out
    refused(run("example", "sentences-paper", "--out", "other.txt", "--seed", 1), "takes no --seed")


@pytest.mark.parametrize("name", SENTENCES)
@pytest.mark.parametrize("out", ["text.txt", "text"])
def test_example_texts(run, tmp_path, name, out):
    done = run("example", name, "--out", out, "--seed", 5)
    assert done.code == 0 and f"wrote {out}" in done.out
    lines = [[int(x) for x in line.split()] for line in (tmp_path / out).read_text().splitlines()]
    assert lines == SENTENCES[name](seed=5)
    report = run("sentences", out, "--json").report
    finding = realizability(data := Sentences.of(lines))
    assert report["faults"] == finding.counts and report["queries"] == len(orders(data))
    inside = name in ("sentences-unconfused", "sentences-closed")
    assert (not report["outside"]) == inside and report["outside"] == list(finding.outside)
    assert (report["unclosed"] == 0) == (name == "sentences-closed")
    assert (report["status"] == "realizable") == (name != "sentences-cyclic")
    refused(run("example", name, "--out", out), "exists", "--force")
    again = run("example", name, "--out", out, "--force", "--json").report
    assert again["lines"] == len(SENTENCES[name]())


def test_example_refusals(run, tmp_path):
    refused(run("example", "sentences", "--out", "text.npz"), "text.npz", ".txt")
    refused(run("example", "sentences", "--out", "no/text.txt"), "folder no does not exist")
    refused(run("example", "sentences", "--out", tmp_path), "is a folder")
    known = (*EXAMPLES, *SENTENCES)
    refused(run("example", "sentence", "--out", "x.txt"), "'sentence'", *known)
    assert list(tmp_path.iterdir()) == []


def test_the_problems_are_solved_in_the_report(run, tmp_path):
    file = tmp_path / "s.txt"
    file.write_text("0 0\n1 1\n2 2\n3 3\n0 1 2 0\n1 2 0 2 1\n", encoding="utf-8")
    report = run("sentences", file, "--query", "2", "--json").report["solved"]
    assert report["attention"]["status"] == "optimal" and report["attention"]["gap"] < 1e-10
    assert report["decoder"]["upper"] == pytest.approx(3**0.5, rel=1e-9)
    # 0 above 1 and 2, and 1 above 0 and 2: 0 and 1 tie at 1/3, 2 is at −2/3.
    assert report["column"] == pytest.approx({"0": 1 / 3, "1": 1 / 3, "2": -2 / 3}, rel=1e-9)
    assert report["finite"]["components"] == 1 and report["finite"]["sentences"] == 2
    shown = run("sentences", file, "--query", "2").out
    assert "0.33333  1" in shown and "infimum" in shown


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
        (GOOD, (), ("All of 4 sentences can be realized", "for 2 of 2 queries.")),
        (TIED, (), ("1 of 4 sentences (25 %)", "of 0 follows no", "3 contradict", "--ties")),
        ("0 1 2\n1 2 0\n", (), ("known follower", "--collocations bigrams", "learns nothing")),
        ("0 1\n1 0\n", (), ("no sentence here", "learns nothing")),
        ("a b c\n", ("--collocations", "copy"), ("0 of 1 sentence (0 %)", "of 1 follows no token")),
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
    assert report["conclusion"].endswith("learns an order of tokens for 2 of 2 queries.")


def test_shared_followers_alone(run, text):
    """Every sentence is fine, and yet two tokens have one follower."""
    report = run("sentences", text("a A\nb A\nc C\na c c A\n"), "--json").report
    assert report["status"] == "not-realizable" and report["explained"] == 1
    assert "1 of 1 sentence (100 %) can be realized" in report["conclusion"]


def test_prose(run, text):
    file = text(PROSE)
    report = run("sentences", file, "--prose", "--lower", "--strip-punctuation", "--json").report
    assert (report["sentences"], report["left_out"]["skipped"]) == (4, 1)
    done = run("sentences", file, "--prose", "--shortest", 7)
    assert "2 (2 distinct)" in done.out and "3 skipped" in done.out
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
