"""Runs of the bench: records are whole and never rewritten, what is missing is said."""

import importlib.util
import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from attsvm.errors import BadTokens, Unsupported
from benchmarks import CONTESTANTS, WORKS, race, run
from benchmarks.machine import THREADS
from benchmarks.record import recording

MOMENT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_records_are_never_rewritten(tmp_path):
    paths = []
    for k in range(3):
        with recording(tmp_path, MOMENT) as lines:
            lines.add("row", {"k": k})
            assert not lines.path.exists()
        paths.append(lines.path)
    assert len(set(paths)) == 3
    assert paths[0] == tmp_path / "2030-01-02" / "030405.jsonl"
    assert [json.loads(p.read_text("utf-8")) for p in paths] == [
        {"kind": "row", "k": k} for k in range(3)
    ]


def test_a_broken_run_leaves_no_record(tmp_path):
    with pytest.raises(KeyError), recording(tmp_path, MOMENT) as lines:
        lines.add("row", {})
        raise KeyError
    assert [p.name for p in lines.path.parent.iterdir()] == ["030405.jsonl.part"]
    (tmp_path / "file").touch()
    with pytest.raises(BadTokens, match="no result can be written"):
        run(quick=True, only=["choices"], out=tmp_path / "file")


def test_a_run_measures_in_children_and_records_everything(tmp_path):
    work = WORKS["frobenius-small"]
    entries = {who: replace(work.entries[who], seeds=2) for who in ("scipy nnls", "ours")}
    said = []
    result = race.compete(
        {"frobenius-small": replace(work, entries=entries)}, CONTESTANTS,
        quick=False, only=None, out=tmp_path, progress=said.append,
    )  # fmt: skip
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert [r["contestant"] for r in result["rows"]] == ["ours", "scipy nnls"]
    assert all(r["gap"] <= 1e-9 and r["seeds"] == 2 and not r["note"] for r in result["rows"])
    assert len(said) == 2
    (file,) = tmp_path.rglob("*.jsonl")
    assert str(file) == result["file"]
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [line["kind"] for line in lines] == ["run", *(["measurement"] * 2 + ["row"]) * 2]
    assert lines[0]["machine"]["cpu"]
    assert lines[0]["machine"]["packages"]["numpy"] == np.__version__
    assert lines[0]["machine"]["threads"] == THREADS
    assert set(lines[1]["threads"].values()) == {"1"}


def test_a_contestant_that_fails_or_takes_too_long_is_noted():
    found, note = race._measure("frobenius-small", "nobody", 1, 60.0, quick=False)
    assert (found, note) == ([], "failed: KeyError: 'nobody'")
    found, note = race._measure("frobenius-small", "ours", 1, 0.01, quick=False)
    assert (found, note) == ([], "ended after 0 s")
    assert race._measure("frobenius-small", "ours", 1, 0.0, quick=True) == ([], "no time left")


def test_what_cannot_run_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    with pytest.raises(Unsupported, match="unknown work 'cubic': known are frobenius-small"):
        run(only=["cubic"], out=tmp_path)
    with pytest.raises(Unsupported, match="'frobenius-huge' is too long for a quick run"):
        run(quick=True, only=["frobenius-huge"], out=tmp_path)
    find = importlib.util.find_spec
    hidden = ("cvxpy", "daqp")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in hidden else find(name)
    )
    with pytest.raises(Unsupported, match=r"needs cvxpy, daqp: pip install '\.\[bench\]'"):
        run(quick=True, only=["frobenius-small"], out=tmp_path)
    assert not list(tmp_path.iterdir())
