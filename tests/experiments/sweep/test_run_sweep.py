"""Sweeps: the same table however it was made; what is on file is kept."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from attsvm._utils.run_folder import RunFolder
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.sweep import load_table, read_spec, run_sweep, take_shards, write_table
from attsvm.experiments.sweep import runs as sweep_runs
from attsvm.experiments.sweep.folder import KIND, kept_spec
from tests.cli.command import refused


def files(folder):
    return sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())


@pytest.fixture
def whole(spec_file, tmp_path):
    """(spec, folder) of a finished sweep."""
    spec = read_spec(spec_file)
    run_sweep(spec, tmp_path / "whole", engine="here")
    return spec, tmp_path / "whole"


def test_a_table_has_every_instance_in_order(whole):
    _, folder = whole
    lines = (folder / "table.csv").read_text().splitlines()
    assert lines[0] == "n,scale,seed,size,large,word"
    assert len(lines) == 1 + 60
    rows = [line.split(",")[:3] for line in lines[1:]]
    assert rows == [[str(n), str(s), str(k)] for n in (1, 2, 3) for s in (1.0, 2.5)
                    for k in range(10)]  # fmt: skip
    table = load_table(folder)
    assert table.missing == 0 and len(table) == 60
    assert table.columns["large"].dtype == bool
    sizes = [float(line.split(",")[3]) for line in lines[1:]]
    assert sizes == table.columns["size"].tolist()
    assert not any("part" in name for name in files(folder))
    assert "lock" not in files(folder)


def test_tables_are_the_same_on_every_engine(whole, tmp_path):
    spec, folder = whole
    run_sweep(spec, tmp_path / "local", engine="local")
    with ThreadPoolExecutor(2) as pool:
        run_sweep(spec, tmp_path / "threads", engine=pool)
    for name in ("local", "threads"):
        assert (tmp_path / name / "table.csv").read_bytes() == (folder / "table.csv").read_bytes()


def test_what_is_on_file_is_kept(whole):
    spec, folder = whole
    before = {f: os.stat(folder / f).st_mtime_ns for f in files(folder) if f.startswith("shards")}
    (folder / "table.csv").unlink()
    again = run_sweep(spec, folder, engine="here")
    assert (again.state.done, again.state.before) == (60, 60)
    assert {f: os.stat(folder / f).st_mtime_ns for f in before} == before
    assert (folder / "table.csv").exists()


@pytest.mark.parametrize("hurt", ["missing", "empty", "cut", "other"])
def test_broken_results_are_made_again(whole, hurt):
    spec, folder = whole
    table = (folder / "table.csv").read_bytes()
    victim, other = sorted((folder / "shards").iterdir())[:2]
    if hurt == "missing":
        victim.unlink()
    else:
        content = {"empty": b"", "cut": victim.read_bytes()[:200], "other": other.read_bytes()}
        victim.write_bytes(content[hurt])
    run_sweep(spec, folder, engine="here")
    assert (folder / "table.csv").read_bytes() == table


def test_seeds_and_points_can_be_added(whole, tmp_path):
    spec, folder = whole
    more = replace(spec, seeds=16, grid={**spec.grid, "n": [0 + 1, 2, 3, 5]})
    found = run_sweep(more, folder, engine="here")
    assert found.state.before == 6 * 8  # whole groups of the first eight seeds
    run_sweep(more, tmp_path / "fresh", engine="here")
    assert (folder / "table.csv").read_bytes() == (tmp_path / "fresh" / "table.csv").read_bytes()
    assert kept_spec(folder).seeds == 16


def test_results_of_two_folders_are_merged(spec_file, tmp_path):
    spec = read_spec(spec_file)
    run_sweep(replace(spec, seeds=4), tmp_path / "a", engine="here")
    run_sweep(replace(spec, seeds=6, first=4), tmp_path / "b", engine="here")
    run_sweep(spec, tmp_path / "whole", engine="here")
    assert take_shards(tmp_path / "a", [tmp_path / "b"]) == 12
    done = run_sweep(spec, tmp_path / "a", engine="here")
    assert done.state.before == 60
    assert (tmp_path / "a/table.csv").read_bytes() == (tmp_path / "whole/table.csv").read_bytes()
    with pytest.raises(BadTokens, match="is no folder of a sweep"):
        take_shards(tmp_path / "a", [tmp_path / "none"])


def test_failed_tasks_are_recorded_and_tried_again(spec_file, tmp_path):
    spec = read_spec(spec_file)
    bad = replace(spec, fixed={**spec.fixed, "fault": 5})
    found = run_sweep(bad, tmp_path / "out", engine="here", retries=1)
    assert found.state.failed == 24 and found.state.done == 36
    rows = json.loads((tmp_path / "out/failures.json").read_text())
    assert len(rows) == 6 and rows[0]["seeds"] == [4, 5, 6, 7] and rows[0]["tries"] == 2
    assert rows[0]["error"] == "ValueError: seed 5 is at fault"
    assert len((tmp_path / "out/table.csv").read_text().splitlines()) == 37
    assert load_table(tmp_path / "out").missing == 24


def test_two_sweeps_do_not_share_a_folder(whole):
    spec, folder = whole
    with (
        RunFolder(folder, KIND).locked(),
        pytest.raises(BadTokens, match=r"in use by another run \(process \d+ on"),
    ):
        run_sweep(spec, folder, engine="here")
    (folder / "lock").write_text("process 1 on some-host")  # of one that was killed
    run_sweep(spec, folder, engine="here")
    assert not (folder / "lock").exists()


def test_another_spec_and_other_files_are_refused(whole, tmp_path):
    spec, folder = whole
    with pytest.raises(BadTokens, match="holds another sweep: pause is 0"):
        run_sweep(replace(spec, fixed={"pause": 0.1}), folder, engine="here")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("")
    with pytest.raises(BadTokens, match="holds other files"):
        run_sweep(spec, tmp_path / "full", engine="here")
    with pytest.raises(BadTokens, match="is a file; give a folder"):
        run_sweep(spec, tmp_path / "full/x", engine="here")
    with pytest.raises(BadTokens, match=r"has no attsvm\.json"):
        load_table(tmp_path / "full")
    with pytest.raises(BadTokens, match="there is no folder"):
        load_table(tmp_path / "none")


def test_what_is_wrong_with_every_task_is_said_at_once(tmp_path):
    from attsvm.experiments.sweep import spec_of

    spec = spec_of({"family": "sphere", "measure": "ends", "seeds": 3, "fixed": {"T": 1}}, "s")
    with pytest.raises(BadTokens, match="T is 1: it is a whole number from 2 on"):
        run_sweep(spec, tmp_path / "out", engine="here")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 3", "returns a dict of columns"),
        ("return {'a': [1]}", "one number or text per instance"),
        ("return {'a': [object()] * len(group)}", "one number or text per instance"),
        ("return {'seed': np.ones(len(group))}", "the column seed"),
    ],
)
def test_measures_that_break_their_contract(tmp_path, body, said):
    text = f"import numpy as np\ndef m(group):\n    {body}\n"
    (tmp_path / "own.py").write_text(text)
    spec = read_made(tmp_path, 'family = "gaussian"\nmeasure = "own.py:m"\nseeds = 2\n')
    found = run_sweep(spec, tmp_path / "out", engine="here")
    assert said in found.failures[0].error


def read_made(folder, text):
    (folder / "made.toml").write_text(text)
    return read_spec(folder / "made.toml")


def test_a_group_depends_on_each_seed_alone(tmp_path):
    """Stacks of other sizes give the same numbers, to the last bit where nothing is random."""
    text = (
        'family = "sphere"\nmeasure = "ends"\nseeds = 6\n'
        '[fixed]\nn = 3\nT = 3\nd = 4\nsteps = 50\ninit = "normal:1"\nmodel = "{}"\n'
    )
    for model in ("weight", "factored"):
        tables = []
        for group in (2, 6):
            spec = read_made(tmp_path, f"group = {group}\n" + text.format(model))
            out = tmp_path / f"{model}{group}"
            run_sweep(spec, out, engine="here")
            tables.append(load_table(out).columns)
        run_sweep(spec, tmp_path / "local", engine="local")
        assert (tmp_path / "local/table.csv").read_bytes() == (out / "table.csv").read_bytes()
        shutil.rmtree(tmp_path / "local")
        for name in ("seed", "global_end", "kind", "decided"):
            assert np.array_equal(tables[0][name], tables[1][name])
        np.testing.assert_allclose(
            tables[0]["correlation"], tables[1]["correlation"], rtol=1e-9, atol=1e-12
        )


def test_parquet_holds_the_same(whole, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    spec, folder = whole
    assert write_table(folder, spec, tmp_path / "t.parquet") == 60
    found = parquet.read_table(tmp_path / "t.parquet").to_pydict()
    for name, column in load_table(folder).columns.items():
        assert found[name] == column.tolist()


def test_a_missing_package_is_one_sentence(whole, tmp_path, monkeypatch):
    import sys

    spec, folder = whole
    for module in ("pyarrow", "pandas"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unsupported, match=r"pip install '\.\[parquet\]'"):
        write_table(folder, spec, tmp_path / "t.parquet")
    assert not list(tmp_path.glob(".attsvm*"))
    with pytest.raises(Unsupported, match="pandas is not installed"):
        load_table(folder).to_frame()
    with pytest.raises(Unsupported, match=r"a \.csv or a \.parquet file"):
        write_table(folder, spec, tmp_path / "t.xlsx")


def test_a_full_disk_keeps_what_is_finished(run, spec_file, tmp_path, monkeypatch):
    plain, written = sweep_runs.write_shard, []

    def full(*given):
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(plain(*given))

    monkeypatch.setattr(sweep_runs, "write_shard", full)
    spec, out = read_spec(spec_file), tmp_path / "out"
    done = run("sweep", spec_file, "--out", out, "--engine", "here")
    refused(done, f"attsvm: no space is left in {out}: what was finished is kept")
    assert not [f.name for f in out.rglob("*") if f.name.startswith(".") or f.name == "lock"]
    assert load_table(out).missing == 60 - 10
    monkeypatch.undo()
    assert run_sweep(spec, out, engine="here").state.before == 10


@contextmanager
def read_only(place):
    """A folder that cannot be written to; skips the test where nothing can be mounted."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount")
    done = subprocess.run(["mount", "--bind", str(place), str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_folder_that_cannot_be_written_to(run, spec_file, tmp_path):
    spec = read_spec(spec_file)
    home = tmp_path / "home"
    run_sweep(replace(spec, seeds=4), home / "out", engine="here")
    table = (home / "out/table.csv").read_bytes()
    with read_only(home):
        for place in (home / "out", home / "new"):
            done = run("sweep", spec_file, "--out", place, "--engine", "here")
            refused(done, f"{place} cannot be written to (Read-only file system)")
        # Reading still works.
        assert run("sweep", home / "out", "--table", "t.csv").code == 0
        assert (tmp_path / "t.csv").read_bytes() == table
