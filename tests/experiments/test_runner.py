"""Runs of studies: tables, records, what is kept, what is tried again, what is refused."""

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from attsvm._utils import files
from attsvm.errors import BadTokens
from attsvm.experiments import runner
from attsvm.experiments.executors import ExecutorConfig
from attsvm.experiments.runner import (
    chunks_of,
    keeping,
    kept,
    read_record,
    read_table,
    run_studies,
)
from attsvm.experiments.study import BadStudy
from attsvm.experiments.table import as_frame, read_csv, write_table
from tests.experiments.made_studies import made, nothing, steps, unlucky

TABLE = "tables/Z.sizes.csv"


def test_a_run_leaves_table_figure_and_record(tmp_path):
    (record,) = run_studies([made()], tmp_path / "out")
    assert record["verdict"] == "holds" and record["rows"] == 60 and record["judged"] == 60
    assert [c["met"] for c in record["checks"]] == [True, True, None]
    frame = as_frame(read_table(tmp_path / "out", record))
    assert list(frame.columns) == ["n", "scale", "seed", "size", "large", "word"]
    assert (
        frame.seed.tolist() == [*range(10)] * 6
        and frame.n.tolist() == [1] * 20 + [2] * 20 + [3] * 20
    )
    assert frame.large.dtype == bool and set(frame.word) == {"a, b", "17"}
    names = {str(f.relative_to(tmp_path / "out")) for f in (tmp_path / "out").rglob("*.*")}
    assert {TABLE, "figures/Z.sizes.svg", "figures/Z.sizes.png", "results.json"} <= names
    assert json.loads((tmp_path / "out/results.json").read_text())[0]["id"] == "Z.sizes"


def test_tables_do_not_depend_on_the_executor(tmp_path):
    run_studies([made()], tmp_path / "a")
    run_studies([made()], tmp_path / "b", engine="local", asked=ExecutorConfig(jobs=2))
    with ThreadPoolExecutor(2) as pool:
        run_studies([made()], tmp_path / "c", engine=pool)
    tables = {(tmp_path / name / TABLE).read_bytes() for name in "abc"}
    assert len(tables) == 1


def test_numbers_keep_every_digit(tmp_path):
    study = made(measure=unlucky, family=None, grid={}, checks=None, figure=None, seeds=14)
    (record,) = run_studies([study], tmp_path)
    (chunk, *_) = chunks_of(replace(study, group=14))
    wanted = runner.measure_chunk(chunk)[0]["value"]
    assert read_table(tmp_path, record)["value"].tobytes() == wanted.tobytes()


def test_texts_of_digits_stay_texts(tmp_path):
    columns = {"word": np.array(["1", "", "True"]), "b": np.array([True, False, True]),
               "x": np.array([1.0, np.nan, np.inf]), "k": np.array([1, 2, 3])}  # fmt: skip
    write_table(tmp_path / "t.csv", columns)
    found = read_csv(
        tmp_path / "t.csv", {"word": "text", "b": "truth", "x": "number", "k": "whole"}
    )
    for name, values in columns.items():
        assert found[name].dtype.kind == values.dtype.kind
        assert found[name].tolist() == values.tolist() or name == "x"
    with pytest.raises(BadTokens, match="has the columns word, b, x, k, not word"):
        read_csv(tmp_path / "t.csv", {"word": "text"})


def test_a_measure_may_give_several_rows(tmp_path):
    study = made(measure=steps, family=None, grid={}, checks=None, figure=None, seeds=3, group=2)
    (record,) = run_studies([study], tmp_path)
    frame = as_frame(read_table(tmp_path, record))
    assert frame.seed.tolist() == [0, 0, 1, 1, 2, 2] and frame.step.tolist() == [0, 1] * 3
    assert record["verdict"] == "measured"


def test_no_rows_are_undecided(tmp_path):
    (record,) = run_studies([made(measure=nothing)], tmp_path)
    assert record["verdict"] == "undecided" and record["rows"] == 0 and not record["figure"]


def counted(monkeypatch):
    """How many chunks are measured from here on."""
    calls, plain = [], runner.measure_chunk
    monkeypatch.setattr(runner, "measure_chunk", lambda chunk: calls.append(chunk) or plain(chunk))
    return calls


def test_what_is_finished_is_not_run_again(tmp_path, monkeypatch):
    first = run_studies([made()], tmp_path)
    before = (tmp_path / TABLE).read_bytes()
    calls = counted(monkeypatch)
    states = []
    again = run_studies([made()], tmp_path, watch=lambda name, state: states.append(state))
    assert not calls and states == ["on file"] and again == first
    run_studies([made()], tmp_path, again=True)
    assert len(calls) == 18 and (tmp_path / TABLE).read_bytes() == before


def test_the_first_seeds_of_every_point_are_measured_first(tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    run_studies([made()], tmp_path)
    first = [chunk.seeds[0] for chunk in calls]
    assert first == [0] * 6 + [4] * 6 + [8] * 6


def test_more_seeds_keep_the_chunks_on_file(tmp_path, monkeypatch):
    run_studies([made(seeds=8)], tmp_path)
    calls = counted(monkeypatch)
    (record,) = run_studies([made(seeds=16)], tmp_path)
    assert len(calls) == 12 and record["rows"] == 96


def test_other_thresholds_judge_again_and_measure_nothing(tmp_path, monkeypatch):
    run_studies([made()], tmp_path)
    calls = counted(monkeypatch)
    (record,) = run_studies([made(thresholds={"limit": 0.0, "rows": 60})], tmp_path)
    assert record["verdict"] == "fails" and not calls


def test_other_code_measures_again(tmp_path, monkeypatch):
    run_studies([made()], tmp_path)
    calls = counted(monkeypatch)
    monkeypatch.setattr(runner, "package_hash", lambda: "other")
    run_studies([made()], tmp_path)
    assert len(calls) == 18


@pytest.mark.parametrize("harm", [b"", b"PK\x03\x04 cut", b"nothing"])
def test_a_broken_part_is_made_again(tmp_path, monkeypatch, harm):
    run_studies([made()], tmp_path)
    wanted = (tmp_path / TABLE).read_bytes()
    (tmp_path / "studies/Z.sizes.json").unlink()
    next(iter((tmp_path / "parts").iterdir())).write_bytes(harm)
    calls = counted(monkeypatch)
    run_studies([made()], tmp_path)
    assert len(calls) == 1 and (tmp_path / TABLE).read_bytes() == wanted


@pytest.mark.parametrize("lost", [TABLE, "figures/Z.sizes.png", "studies/Z.sizes.json"])
def test_a_lost_file_is_written_again(tmp_path, monkeypatch, lost):
    run_studies([made()], tmp_path)
    wanted = (tmp_path / lost).read_bytes()
    (tmp_path / lost).unlink()
    calls = counted(monkeypatch)
    run_studies([made()], tmp_path)
    assert not calls and (tmp_path / lost).read_bytes() == wanted


def test_a_chunk_that_fails_leaves_the_others(tmp_path):
    said = []
    bad = made("Z.bad", run={"fault": 5})
    records = run_studies([bad, made()], tmp_path, say=said.append, retries=1)
    assert [r["verdict"] for r in records] == ["undecided", "holds"]
    assert records[0]["error"] == "ValueError: seed 5 is at fault" == said[0].partition(": ")[2]
    assert len(list((tmp_path / "parts").iterdir())) == 12 + 18
    (mended,) = run_studies([made("Z.bad", run={"fault": -1})], tmp_path)
    assert mended["verdict"] == "holds" and read_record(tmp_path, "Z.bad") == mended


def test_a_check_that_raises_is_undecided(tmp_path):
    def broken(table, thresholds):
        raise ZeroDivisionError("no rows of this kind")
        yield

    (record,) = run_studies([made(checks=broken)], tmp_path)
    assert record["verdict"] == "undecided" and "no rows of this kind" in record["reason"]
    assert not (tmp_path / "figures/Z.sizes.svg").exists()


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (lambda group: {"x": [1.0]}, "cannot be found by other processes"),
        ("separable", None),
    ],
)
def test_measures_are_found_by_other_processes(tmp_path, measure, said):
    study = made(measure=measure, checks=None, figure=None, grid={"n": [1]}, seeds=2)
    if said is None:
        assert run_studies([study], tmp_path)[0]["rows"] == 2
        return
    with pytest.raises(BadStudy, match=said):
        run_studies([study], tmp_path)


def wrong_shape(group):
    return {"x": np.zeros(len(group) + 1)}


def wrong_type(group):
    return {"x": np.array([None] * len(group))}


def taken(group):
    return {"n": np.zeros(len(group))}


def no_dict(group):
    return np.zeros(len(group))


def sometimes(group):
    return [{"seed": s, "x" if s < 4 else "y": s / 2, "word": "a" * s} for s in group.seeds]


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (wrong_shape, "x of shape"), (wrong_type, "x of type object"), (no_dict, "dict of columns"),
    ],
)  # fmt: skip
def test_columns_that_break_the_contract(tmp_path, measure, said):
    (record,) = run_studies([made(measure=measure, figure=None)], tmp_path)
    assert said in record["error"] and record["verdict"] == "undecided"


def test_what_a_part_lacks_is_blank(tmp_path):
    study = made(measure=sometimes, family=None, grid={}, checks=None, figure=None, seeds=6)
    (record,) = run_studies([study], tmp_path)
    frame = as_frame(read_table(tmp_path, record))
    assert frame.seed.tolist() == [*range(6)] and frame.word.tolist() == ["a" * s for s in range(6)]
    assert frame.x.notna().tolist() == [True] * 4 + [False] * 2 == frame.y.isna().tolist()


def test_a_column_with_the_name_of_a_parameter(tmp_path):
    with pytest.raises(BadStudy, match="n is swept, and the measure gives it too"):
        run_studies([made(measure=taken, figure=None)], tmp_path)


def test_a_worker_that_dies_is_replaced(tmp_path):
    study = made(run={"dies": str(tmp_path / "died")})
    (record,) = run_studies([study], tmp_path / "out", engine="local", asked=ExecutorConfig(jobs=2))
    assert (tmp_path / "died").exists() and record["verdict"] == "holds"
    run_studies([made()], tmp_path / "calm")
    tables = {(tmp_path / name / TABLE).read_bytes() for name in ("out", "calm")}
    assert len(tables) == 1


def test_a_folder_of_another_version_or_kind_is_refused(tmp_path):
    (tmp_path / "attsvm.json").write_text('{"kind": "reproduction", "version": 1}')
    with pytest.raises(BadTokens, match="run it again in a new folder"):
        run_studies([made()], tmp_path)
    (tmp_path / "attsvm.json").write_text('{"kind": "hunt", "version": 1}')
    with pytest.raises(BadTokens, match="holds a hunt, not a reproduction"):
        run_studies([made()], tmp_path)
    (tmp_path / "attsvm.json").unlink()
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(BadTokens, match="holds other files"):
        run_studies([made()], tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "x"


@pytest.mark.parametrize("why", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_keeps_what_is_finished(tmp_path, monkeypatch, why):
    plain, count = files.beside, [0]

    def full(file):
        count[0] += file.suffix == ".npz"
        if count[0] == 8:
            raise OSError(why, os.strerror(why))
        return plain(file)

    monkeypatch.setattr(files, "beside", full)
    with pytest.raises(BadTokens, match="no space is left"):
        run_studies([made()], tmp_path)
    assert len(list((tmp_path / "parts").iterdir())) == 7
    monkeypatch.undo()
    (record,) = run_studies([made()], tmp_path)
    assert record["verdict"] == "holds" and not list(tmp_path.rglob(".attsvm-*"))


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files.tempfile, "mkstemp", refused)
    with pytest.raises(BadTokens, match="cannot be written to"):
        run_studies([made()], tmp_path / "out")


def test_two_runs_in_one_folder(tmp_path):
    with runner.results_folder(tmp_path).locked(), pytest.raises(BadTokens, match="in use by"):
        run_studies([made()], tmp_path)


CALLS = []


def trained(plan):
    CALLS.append(plan)
    return {"x": np.array(plan["lr"])}


def test_kept_runs_are_read_again(tmp_path):
    CALLS.clear()
    with keeping(str(tmp_path / "runs")):
        assert kept(trained, {"lr": 2})["x"] == kept(trained, {"lr": 2})["x"] == 2
        (file,) = (tmp_path / "runs").iterdir()
        file.write_bytes(b"broken")
        assert kept(trained, {"lr": 2})["x"] == 2
        assert kept(trained, {"lr": 3})["x"] == 3
    kept(trained, {"lr": 2})
    assert [plan["lr"] for plan in CALLS] == [2, 2, 3, 2]
