"""attsvm inspect: the table, the folder, the page and its words, exit codes, refusals."""

import json
from html.parser import HTMLParser

import numpy as np
import pytest

from attsvm.inspection import load
from attsvm.inspection.capturing import Run
from attsvm.inspection.page import render
from tests.cli.command import runner

pytest.importorskip("transformers")
from tests.inspection.tiny import build, write

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def attsvm(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture
def text(tmp_path):
    """Forty passages of six to twelve letters; the first is markup, which must stay text."""
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(list(LETTERS), rng.integers(6, 13))) for _ in range(40)]
    file = tmp_path / "text.txt"
    file.write_text("\n".join(["<script> a b c d e f </script>", *lines]))
    return file


class Tags(HTMLParser):
    """Which tags a page opens and which it leaves open."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "path", "use", "rect", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def reached(self):
        """What the page would fetch: drawings hold their own picture, and links stay inside."""
        links = [a.get(name) or "" for _, a in self.seen for name in ("src", "href")]
        return [link for link in links if link and not link.startswith(("data:", "#"))]


def words(attsvm, model, text, *more):
    return attsvm("inspect", model, "--text", text, "--quick", "--queries", 12, *more)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
def test_a_folder_is_inspected_and_its_page_is_whole(kind, attsvm, text, tmp_path):
    folder = tmp_path / "out"
    found = words(attsvm, write(tmp_path / "mine", kind), text, "--out", folder)
    assert found.code == 0, found.err
    assert "0 broken" in found.out
    report = json.loads((folder / "results.json").read_text())
    heads = {r["name"] for r in report["heads"]}
    assert heads == {f"L{layer}H{head}" for layer in range(2) for head in range(4)}
    page = Tags()
    page.feed((folder / "report.html").read_text())
    assert page.open == []
    ids = {a["id"] for tag, a in page.seen if tag == "article"}
    assert ids == heads
    links = {a["href"][1:] for tag, a in page.seen if tag == "a" and a.get("href", "")[:2] == "#L"}
    assert links == ids
    text = (folder / "report.html").read_text()
    assert "Quick run:" in text and text.count(">quick</span>") > 5 * len(heads)
    assert ("posed in head space" in text) == (kind == "llama")
    assert ("needed by no later query" in text) == (kind != "bert")
    assert sum(tag == "script" for tag, _ in page.seen) == 2, "the data and the page's own"
    assert page.reached() == []


@pytest.fixture
def inspected(attsvm, text, tmp_path):
    """A tiny BERT that was inspected, and the results of it."""
    model = write(tmp_path / "mine", "bert")
    assert words(attsvm, model, text, "--out", tmp_path / "out").code == 0
    return model, json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))


def test_a_page_is_made_again_from_its_results(inspected):
    """With tokens that attack it, which stay text, and a caption that speaks of what is drawn."""
    _, report = inspected
    evil = '"><img src=x onerror=alert(1)>'
    for details in report["details"]:
        for one in details["samples"]:
            one["tokens"] = [evil] * len(one["tokens"])
    report["model"] = evil
    page = Tags()
    page.feed(render(report))
    assert page.open == []
    assert page.reached() == [] and not [a for _, a in page.seen if "onerror" in a]


def test_attention_on_the_page_is_that_of_the_head(inspected, text):
    model, report = inspected
    run = Run(load(model), text, length=32)
    shown = report["details"][3]
    assert shown["name"] == "L0H3"
    rows, positions = run.draw(36, 0, None)
    view = run.view("L0H3", rows, positions)
    for i, one in enumerate(shown["samples"]):
        assert tuple(one["tokens"]) == view.texts[i]
        mine = (view.keys[i] @ view.W @ view.queries[i])[: len(one["tokens"])]
        share = np.exp(mine - mine.max())
        assert one["attention"] == pytest.approx(share / share.sum(), abs=1e-6)
        assert one["chosen"] == mine.argmax()


def test_one_object_is_printed_as_json(attsvm, text, tmp_path):
    found = words(attsvm, write(tmp_path / "mine", "bert"), text, "--heads", "L1H0,1.3", "--json")
    assert found.code == 0
    assert [r["name"] for r in found.report["heads"]] == ["L1H0", "L1H3"]


def test_a_sentence_is_enough(attsvm, tmp_path):
    file = tmp_path / "one.txt"
    file.write_text("a b c d e")
    found = words(attsvm, write(tmp_path / "mine"), file, "--out", tmp_path / "out")
    assert found.code == 0
    assert "needs at least 30 queries" in found.out
    assert "needs 30 queries" in (tmp_path / "out" / "report.html").read_text()


def test_an_inspection_replaces_its_own_folder_and_no_other(attsvm, text, tmp_path):
    model, folder = write(tmp_path / "mine", "bert"), tmp_path / "out"
    assert words(attsvm, model, text, "--heads", "L0", "--out", folder).code == 0
    assert words(attsvm, model, text, "--heads", "L0", "--out", folder).code == 0
    assert sorted(f.name for f in folder.iterdir()) == [
        "attsvm.json", "report.html", "results.json",
    ]  # fmt: skip
    (folder / "attsvm.json").rename(folder / "mine.json")
    refused = words(attsvm, model, text, "--heads", "L0", "--out", folder)
    assert refused.code == 2
    assert "holds other files; give an empty or a new folder" in refused.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--heads", "L9"], "layers run from L0 to L1"),
        (["--heads", "L1H5"], "heads from H0 to H3"),
        (["--heads", "x"], "give names such as L3H5"),
        (["--heads", ""], "give names such as L3H5"),
        (["--length", "65"], "length is 65"),
        (["--queries", "0"], "queries is 0"),
        (["--text", "none.txt"], "none.txt"),
        (["--at", "99"], "at is 99"),
    ],
)
def test_bad_options_are_one_sentence(options, message, attsvm, text, tmp_path):
    found = words(attsvm, write(tmp_path / "mine", "bert"), text, *options)
    assert found.code == 2
    assert message in found.err
    assert found.err.count("\n") == 1


def test_what_changed_is_told_and_shown(attsvm, text, tmp_path):
    after, before = write(tmp_path / "after", "bert"), write(tmp_path / "before", "bert", seed=1)
    folder = tmp_path / "out"
    found = words(attsvm, after, text, "--against", before, "--heads", "L0", "--out", folder)
    assert found.code == 0, found.err
    report = json.loads((folder / "results.json").read_text())
    rows = report["change"]["heads"]
    sharper = sum(row["sharpness_after"] > row["sharpness_before"] for row in rows)
    assert f"Attention heads that sharpened: {sharper} of 4" in found.out
    assert 'id="change"' in (folder / "report.html").read_text()
    found = words(attsvm, after, text, "--against", write(tmp_path / "other", "gpt2"))
    assert found.code == 2
    assert "are not two checkpoints of one model" in found.err


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_run(attsvm, text, tmp_path):
    (tmp_path / "file").write_text("mine")
    none = tmp_path / "no-model"  # were it looked for first, this would be what is said
    for out in (tmp_path / "file", tmp_path / "file" / "below", "/proc/x", "/proc/x/y"):
        found = words(attsvm, none, text, "--out", out)
        assert str(out) in found.err
        assert found.code == 2
        assert found.err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"
    found = words(attsvm, none, text, "--out", tmp_path / "out")
    assert (found.code, "no-model" in found.err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_a_head_without_a_choice_is_diffuse(attsvm, text, tmp_path):
    folder, model = write(tmp_path / "mine"), build("bert")
    for layer in model.encoder.layer:
        layer.attention.self.key.weight.data.zero_()
    model.save_pretrained(folder)
    found = words(attsvm, folder, text, "--out", tmp_path / "out")
    assert found.code == 0
    assert "8 diffuse" in found.out
    assert "no query has a clear choice" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_texts_that_are_equal_once_they_are_cut_count_once(attsvm, tmp_path):
    """Otherwise one would be fitted on and held out as well."""
    model = write(tmp_path / "mine", "bert")
    file = tmp_path / "again.txt"
    lines = ["a b c d", "c d e f", "g h i j", "k l m n", "o p q r"]
    file.write_text("\n".join([*lines, *lines, *(f"{line} x {k}" for k, line in enumerate(lines))]))
    found = words(attsvm, model, file, "--json")
    assert (found.report["texts"], found.report["repeated"]) == (10, 5)
    found = words(attsvm, model, file, "--json", "--length", 6)  # four letters and two marks
    assert (found.report["texts"], found.report["repeated"]) == (5, 10)
    assert "repetitions: 10 texts" in words(attsvm, model, file, "--length", 6).out


def test_causal_queries_that_see_the_same_tokens_count_once(attsvm, tmp_path):
    model = write(tmp_path / "mine", "gpt2")
    file = tmp_path / "again.txt"
    lines = [f"{first} b {last}" for first in "acdefg" for last in "hij"]
    file.write_text("\n".join(lines))
    found = words(attsvm, model, file, "--json", "--at", 3)  # the first token is a mark
    assert (found.report["texts"], found.report["repeated"]) == (18, 0)
    found = words(attsvm, model, file, "--json", "--at", 2)
    assert (found.report["texts"], found.report["repeated"]) == (6, 12)
