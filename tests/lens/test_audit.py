"""The audit of an inspection: an honest folder agrees, a fabricated one is caught."""

import copy
import json
import random
import shutil
import sys

import numpy as np
import pytest

from attsvm.cli import main
from attsvm.errors import BadTokens, Unsupported
from attsvm.lens import FIELDS
from attsvm.lens.audit import audit_inspection
from attsvm.lens.audit.again import Places, chosen_heads
from attsvm.lens.audit.own import own_doubts
from attsvm.lens.audit.within import TIMES, row_checks
from tests.cli.command import runner
from tests.lens.tiny import write

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def passages(seed):
    rng = np.random.default_rng(seed)
    lines = [" ".join(rng.choice(list(LETTERS), rng.integers(6, 13))) for _ in range(40)]
    return "\n".join(lines)


def inspected(place, kind, *more):
    """A folder with a model, a text, and what an inspection of them wrote."""
    model = write(place / "model", kind)
    (place / "text.txt").write_text(passages(0))
    words = ["inspect", model, "--text", place / "text.txt", "--quick", "--queries", 10]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
        patch.setattr(sys, "argv", ["attsvm", *map(str, [*words, *more, "--out", place / "out"])])
        main()
    assert not left.value.code
    return place / "out"


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    place = tmp_path_factory.mktemp("honest")
    before = write(place / "before", "bert", seed=1)
    return inspected(place, "bert", "--against", before)


@pytest.fixture
def forged(honest, tmp_path):
    """A copy of the honest folder, and a function that writes its results.json anew."""
    folder = tmp_path / "forged"
    shutil.copytree(honest, folder)

    def forge(change):
        report = json.loads((honest / "results.json").read_text())
        change(report)
        (folder / "results.json").write_text(json.dumps(report))
        return folder

    return forge


def doubts(folder, **options):
    found = audit_inspection(folder, share=1, seed=0, **options)
    said = [doubt for row in found["rows"] for doubt in row["doubts"]]
    assert found["agrees"] is (not said)
    return said


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_an_honest_folder_agrees(kind, tmp_path):
    found = audit_inspection(inspected(tmp_path, kind, "--layers", "1"), share=1)
    assert found["agrees"], found["rows"]
    assert found["again"] == found["heads"] > 0


def test_what_changed_agrees_too(honest):
    found = audit_inspection(honest, share=1)
    assert found["agrees"], found["rows"]
    assert "layer 1, what changed" in [row["what"] for row in found["rows"]]
    assert sum(row["figures"] for row in found["rows"]) > 1000


def test_part_of_the_heads_is_measured_again_and_the_seed_says_which(honest):
    one, again = (audit_inspection(honest, share=0.3, seed=3) for _ in range(2))
    assert one["again"] == 2
    assert [row["what"] for row in one["rows"]] == [row["what"] for row in again["rows"]]
    report = json.loads((honest / "results.json").read_text())
    assert len({tuple(chosen_heads(report, 0.3, seed)) for seed in range(9)}) > 1


def set_in(*path, to):
    def change(report):
        for step in path[:-1]:
            report = report[step]
        report[path[-1]] = to(report[path[-1]]) if callable(to) else to

    return change


def swapped_figures(report):
    one, two = report["heads"][0], report["heads"][3]
    report["heads"][0] = two | {name: one[name] for name in ("layer", "head")}
    report["heads"][3] = one | {name: two[name] for name in ("layer", "head")}


def swapped_rows(report):
    rows = report["heads"]
    rows[0], rows[3] = rows[3], rows[0]


def other_kind(report):
    row = report["heads"][0]
    words = [word for word in ("sink", "positional", "content") if word != row["kind"]]
    report["kinds"][row["kind"]] -= 1
    row["kind"] = words[0]
    report["kinds"][words[0]] += 1


FORGERIES = {
    "a figure": (
        set_in("heads", 1, "economy_seen", to=lambda x: min(1.0, 1.2 * x)),
        "economy_seen",
    ),
    "a share": (set_in("heads", 1, "svm_agreement", to=0.123), "no share of"),
    "an aggregate": (set_in("kinds", "sink", to=99), "kinds is"),
    "another": (set_in("change", "rank_correlation", to=0.9), "rank_correlation is 0.9"),
    "heads swapped": (swapped_figures, "in the inspection"),
    "rows swapped": (swapped_rows, "in order"),
    "the seed": (set_in("plan", "seed", to=7), "change has another plan"),
    "the length": (set_in("settings", "length", to=12), "on file"),
    "the query": (set_in("settings", "at", to=0), "on file"),
    "a kind": (other_kind, "its agreements make it"),
    "a violation": (set_in("heads", 2, "violations", to=1), "attacks on guarantees succeeded"),
    "a bound": (set_in("heads", 2, "economy_lower", to=0.99), "economy"),
    "attention": (set_in("details", 0, "samples", 1, "attention", 0, to=0.9), "sums to"),
    "a token": (set_in("details", 0, "samples", 1, "tokens", 1, to="x"), "sample 1: tokens"),
    "a gap": (set_in("details", 1, "gaps", "head", -1, to=lambda x: 1.1 * x), "gaps"),
    "a head less": (lambda report: report["heads"].pop(), "rows are not the"),
    "texts": (set_in("texts", to=29), "30 queries of 29 texts"),
    "the growth": (
        set_in("change", "heads", 0, "change_norm", to=lambda x: 1.1 * x),
        "change_norm",
    ),
    "sizes": (set_in("about", "features", to=9), "about.features"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_caught(name, forged):
    change, said = FORGERIES[name]
    assert any(said in doubt for doubt in doubts(forged(change))), name


def test_heads_swapped_everywhere_are_caught(forged):
    """Nothing within the file tells: only heads measured again do."""

    def change(report):
        swapped_figures(report)
        report["change"] = report["settings"]["against"] = None
        shown = report["details"]
        shown[0], shown[3] = shown[3] | {"layer": 0, "head": 0}, shown[0] | {"layer": 1, "head": 1}

    folder = forged(change)
    assert all(row.agrees for row in own_doubts(json.loads((folder / "results.json").read_text())))
    assert any("when it is measured again" in doubt for doubt in doubts(folder))


def test_a_forged_page_is_caught(honest, forged):
    folder = forged(lambda report: None)
    page = (honest / "report.html").read_text("utf-8")
    assert "4 heads" in page
    (folder / "report.html").write_text(page.replace("4 heads", "5 heads", 1), "utf-8")
    assert any("is not what its results make" in doubt for doubt in doubts(folder))
    (folder / "report.html").unlink()
    assert doubts(folder) == ["report.html is not there, or cannot be read"]


def test_a_seed_changed_everywhere_is_caught(forged):
    def change(report):
        report["plan"]["seed"] = report["change"]["plan"]["seed"] = 7

    assert any("when it is measured again" in doubt for doubt in doubts(forged(change)))


def test_every_figure_of_a_row_is_compared(honest):
    rows = json.loads((honest / "results.json").read_text())["heads"]
    of = dict.fromkeys(FIELDS, 1000)
    assert all(fine for fine, _ in row_checks(rows[0], rows[0], of=of))
    for name, value in rows[0].items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        other = rows[0] | {name: 1.5 * value + 30 if number else "forged"}
        said = [said for fine, said in row_checks(other, rows[0], of=of) if not fine]
        assert [doubt.split()[0] for doubt in said] == ([] if name in TIMES else [name])


def test_another_model_is_one_sentence(honest, tmp_path):
    other = write(tmp_path / "other", "bert", seed=5)
    found = audit_inspection(honest, share=1, places=Places(model=str(other)))
    (doubt,) = [doubt for row in found["rows"] for doubt in row["doubts"]]
    assert "is not the model that was inspected: its model.safetensors" in doubt
    assert found["again"] == 0


def test_another_model_with_forged_digests_is_caught(forged, tmp_path):
    from attsvm.lens.sources import model_digests

    other = write(tmp_path / "other", "bert", seed=5)

    def change(report):
        report["settings"]["model"] = str(other)
        report["sources"]["model"] = model_digests(other)

    assert any("when it is measured again" in doubt for doubt in doubts(forged(change)))


def test_another_text_is_one_sentence(honest, tmp_path):
    file = tmp_path / "other.txt"
    file.write_text(passages(1))
    (doubt,) = doubts(honest, places=Places(text=file))
    assert "other.txt is not the text that was read" in doubt


def test_what_has_moved_is_found_where_it_is_now(honest, tmp_path):
    for name in ("model", "before", "text.txt"):
        copy_of = shutil.copytree if (honest.parent / name).is_dir() else shutil.copy
        copy_of(honest.parent / name, tmp_path / name)
    places = Places(*(str(tmp_path / name) for name in ("model", "before", "text.txt")))
    assert doubts(honest, places=places) == []


def test_no_broken_file_breaks_the_audit(honest):
    """Any entry of any depth taken away, or replaced by what no inspection writes."""
    report = json.loads((honest / "results.json").read_text())
    draw = random.Random(0)
    odd = [None, -1, 1e308, 10**400, "x", [], {}, True, [[]], float("inf"), float("nan"), 0.5]
    caught = 0
    for _ in range(400):
        broken = copy.deepcopy(report)
        place, step = broken, draw.choice(list(broken))
        while isinstance(place[step], dict | list) and place[step] and draw.random() < 0.85:
            place = place[step]
            step = draw.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if draw.random() < 0.3:
            del place[step]
        else:
            place[step] = draw.choice(odd)
        caught += not all(row.agrees for row in own_doubts(broken))
    assert caught > 200


def test_the_command_says_what_agreed(honest, forged, capsys, monkeypatch):
    attsvm = runner(capsys, monkeypatch)
    found = attsvm("inspect", "--audit", "--out", honest, "--share", 0.5, "--seed", 1)
    assert found.code == 0
    assert "the folder agrees: 2 of 4 heads measured again, chosen by --seed 1" in found.out
    folder = forged(set_in("kinds", "sink", to=99))
    found = attsvm("inspect", "--audit", "--out", folder)
    assert found.code == 5
    assert "differs" in found.out
    assert "kinds is" in found.out
    found = attsvm("inspect", "--audit", "--out", folder, "--json")
    assert (found.code, found.report["status"]) == (5, "failed")


def test_what_cannot_be_audited_is_one_sentence(honest, forged, tmp_path, capsys, monkeypatch):
    attsvm = runner(capsys, monkeypatch)
    for words, said in (
        (["--audit"], "--audit needs the folder"),
        (["--audit", "--out", tmp_path / "none"], "has no results.json"),
        (["--audit", "--out", honest, "--quick"], "--quick is in results.json"),
        (["--audit", "--out", honest, "--share", 0], "share is 0"),
        (["--share", 0.5], "--share is of an audit"),
    ):
        found = attsvm("inspect", *words)
        assert (found.code, found.err.count("\n")) == (2, 1), words
        assert said in found.err
    with pytest.raises(Unsupported, match="neither a folder nor a known model"):
        audit_inspection(forged(set_in("settings", "model", to="nowhere")))
    (forged(lambda report: None) / "results.json").write_text('{"kind": "mine"}')
    with pytest.raises(BadTokens, match="by no inspection"):
        audit_inspection(tmp_path / "forged")


def test_a_folder_of_an_earlier_version_says_so(forged):
    (doubt,) = doubts(forged(lambda report: report.pop("settings")))
    assert "it does not say how it was made" in doubt
