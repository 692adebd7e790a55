"""Audits: honest folders agree; every kind of forged row is named, and the chance is as stated."""

import csv
import json
from itertools import count
from math import comb

import numpy as np
import pytest
from scipy import stats

from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.audit import audit_folder
from attsvm.experiments.runner import run_studies
from tests.experiments.made_studies import STUDIES

KNOWN = {study.id: study for study in STUDIES}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    out = tmp_path_factory.mktemp("audit") / "out"
    run_studies(STUDIES, out)
    return out


@pytest.fixture
def folder(honest, tmp_path):
    import shutil

    return shutil.copytree(honest, tmp_path / "out")


def as_run(record):
    return KNOWN[record["id"]].at(seeds=record["seeds"], first=record["first"])


def audit(folder, share=1.0, **how):
    found = audit_folder(folder, as_run, share=share, seed=3, **how)
    return {row["id"]: row["differences"] for row in found["studies"]}, found


def test_an_honest_folder_agrees(folder):
    differences, found = audit(folder)
    assert not any(differences.values())
    assert found["instances"] == found["drawn"] == 60 + 10
    part = audit_folder(folder, as_run, share=0.1, seed=4)
    assert part["drawn"] == 7 or part["drawn"] == 8, "a tenth, and one of each study at least"


def rows(folder, name="Z.sizes"):
    with (folder / f"tables/{name}.csv").open(newline="") as stream:
        head, *body = csv.reader(stream)
    return head, body


def write(folder, head, body, name="Z.sizes"):
    with (folder / f"tables/{name}.csv").open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([head, *body])


def value(column, new, row=7):
    """Forge one value."""

    def forge(folder):
        head, body = rows(folder)
        k = head.index(column)
        body[row][k] = new(body[row][k]) if callable(new) else new
        write(folder, head, body)

    return forge


def lines(change, name="Z.sizes"):
    """Forge the list of rows."""

    def forge(folder):
        head, body = rows(folder, name)
        write(folder, head, change(body), name)

    return forge


def swapped(column, i, j):
    def forge(folder):
        head, body = rows(folder)
        k = head.index(column)
        body[i][k], body[j][k] = body[j][k], body[i][k]
        write(folder, head, body)

    return forge


def record(change, name="Z.sizes"):
    def forge(folder):
        file = folder / f"studies/{name}.json"
        kept = json.loads(file.read_text())
        change(kept)
        file.write_text(json.dumps(kept))

    return forge


def column(folder):
    head, body = rows(folder)
    write(folder, [*head, "extra"], [[*row, "1"] for row in body])


def exchanged(head, body):
    """The values of the point in each other's columns."""
    return head, [[row[1], row[0], *row[2:]] for row in body]


def no_column(folder):
    head, body = rows(folder)
    write(folder, head[:-1], [row[:-1] for row in body])


FORGED = {
    "a value": value("size", "1.5"),
    "the sixth digit": value("size", lambda x: repr(float(x) * (1 + 3e-6))),
    "a sign": value("size", lambda x: f"-{x}"),
    "a value that is gone": value("size", ""),
    "infinity": value("size", "inf"),
    "a truth": value("large", lambda x: "True" if x == "False" else "False"),
    "a text": value("word", "c"),
    "no number": value("size", "small"),
    "no truth": value("large", "1"),
    "a seed": value("seed", "77"),
    "a seed that is there": value("seed", "3"),
    "a point": value("n", "2"),
    "a point that is nowhere": value("n", "5"),
    "values of neighbours swapped": swapped("size", 3, 4),
    "values of points swapped": swapped("size", 3, 33),
    "seeds swapped": swapped("seed", 3, 4),
    "a row dropped": lines(lambda body: body[:9] + body[10:]),
    "half the rows dropped": lines(lambda body: body[:30]),
    "a row twice": lines(lambda body: [*body, body[5]]),
    "a row in place of another": lines(lambda body: [*body[:9], body[8], *body[10:]]),
    "a row invented": lines(lambda body: [*body, ["1", "1.0", "10", "1.0", "False", "17"]]),
    "no row": lines(lambda body: []),
    "NaN": value("size", "nan"),
    "the table of another study": lambda folder: write(folder, *rows(folder, "Z.steps")),
    "a row of another study": lines(lambda body: [["0", "1", "0.5", "", "", ""], *body[1:]]),
    "columns exchanged": lambda folder: write(folder, *exchanged(*rows(folder))),
    "a column more": column,
    "a column less": no_column,
    "one of two rows of an instance": lines(lambda body: body[1:], "Z.steps"),
    "rows of an instance exchanged": lines(
        lambda body: [[body[0][0], *body[1][1:]], [body[1][0], *body[0][1:]], *body[2:]], "Z.steps"
    ),
    "the verdict": record(lambda kept: kept.update(verdict="fails")),
    "a judged number": record(lambda kept: kept["checks"][0].update(seen=1.0)),
    "a threshold": record(lambda kept: kept["checks"][0].update(asked="≤ 5")),
    "a check invented": record(lambda kept: kept["checks"].append(
        {"what": "more", "seen": 1.0, "asked": "= 1", "met": True})),
    "a check dropped": record(lambda kept: kept["checks"].pop(0)),
    "the count of rows": record(lambda kept: kept.update(rows=61)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_row_is_named(folder, name):
    FORGED[name](folder)
    differences, found = audit(folder)
    assert any(differences.values()), "the forgery is not found"
    assert all("\n" not in words for said in differences.values() for words in said)
    assert [row["agrees"] for row in found["studies"]] == [not s for s in differences.values()]


def test_what_differs_is_said(folder):
    value("size", "1.5")(folder)
    (words,) = audit(folder)[0]["Z.sizes"]
    assert words.startswith("size of n = 1, scale = 1, seed = 7 is 1.5 on file, ")


@pytest.mark.parametrize("forged", [1, 10])
def test_a_tenth_finds_forged_rows_with_the_stated_chance(folder, forged):
    """Some of 60 instances are forged and 6 drawn: the chance is 1 − C(60 − k, 6)/C(60, 6)."""
    (folder / "studies/Z.steps.json").unlink()
    for row in range(forged):
        value("word", "forged", row)(folder)
    found = sum(
        bool(audit_folder(folder, as_run, share=0.1, seed=seed)["studies"][0]["differences"])
        for seed in range(100)
    )
    chance = 1 - comb(60 - forged, 6) / comb(60, 6)
    low, high = stats.binom.interval(0.999, 100, chance)
    assert low <= found <= high


def test_nothing_is_changed(folder):
    before = {f: f.read_bytes() for f in folder.rglob("*") if f.is_file()}
    audit(folder)
    assert before == {f: f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_bad_input(folder, tmp_path):
    with pytest.raises(Unsupported, match="share is 0"):
        audit(folder, share=0.0)
    with pytest.raises(BadTokens, match="there is no folder"):
        audit(tmp_path / "none")
    (folder / "studies/Z.sizes.json").write_text("{")
    assert audit(folder)[0]["Z.sizes"] == ["studies/Z.sizes.json is not there or cannot be read"]


def test_an_instance_that_cannot_be_run_again(folder, monkeypatch):
    from attsvm.experiments import audit as module

    calls = count()

    def broken(task):
        if next(calls) == 0:
            raise RuntimeError("no")
        return module.measure_chunk(task[1])

    monkeypatch.setattr(module, "_measure", broken)
    with_error = audit_folder(folder, as_run, share=1.0, seed=0)
    assert np.any(["differences" in row for row in with_error["studies"]])
