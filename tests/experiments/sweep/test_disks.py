"""A full disk and a folder that cannot be written to: one sentence, and what is finished stays."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from attsvm._utils.files import load_arrays
from attsvm.errors import BadTokens
from attsvm.experiments.sweep import load_table, read_spec, run_sweep
from attsvm.experiments.sweep import runs as sweep_runs
from tests.experiments.sweep.conftest import command


@contextmanager
def mounted(place, *options):
    """A file system of its own at this place; skips the test where that is not allowed."""
    place.mkdir(exist_ok=True)
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount")
    done = subprocess.run(["mount", *options, str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def left(folder):
    return [f.name for f in folder.rglob("*") if f.name.startswith(".") or f.name == "lock"]


def test_a_full_disk_keeps_what_is_finished(spec_file, tmp_path):
    text = spec_file.read_text().replace("group = 4", "group = 1")
    spec_file.write_text(text)
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=120k", "tmpfs") as disk:
        out = disk / "out"
        code, _, said = command(spec_file, "--out", out, "--engine", "here")
        assert code == 2 and said.count("\n") == 1
        assert said.startswith(f"attsvm: no space is left in {out}: what was finished is kept")
        kept = list((out / "shards").iterdir())
        assert 5 < len(kept) < 60
        assert all(load_arrays(file)["size"].shape == (1,) for file in kept)
        assert left(out) == []
        # Room is made, and it goes on.
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        again = run_sweep(read_spec(spec_file), out, engine="here")
        assert again.state.before >= len(kept) - 1 and again.state.done == 60


def test_a_disk_that_fills_up_is_one_sentence(spec_file, tmp_path, monkeypatch):
    """The same where nothing can be mounted."""
    plain, written = sweep_runs.write_shard, []

    def full(*given):
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(plain(*given))

    monkeypatch.setattr(sweep_runs, "write_shard", full)
    spec = read_spec(spec_file)
    with pytest.raises(BadTokens, match="no space is left"):
        run_sweep(spec, tmp_path / "out", engine="here")
    assert left(tmp_path / "out") == []
    assert load_table(tmp_path / "out").missing == 60 - 10
    monkeypatch.undo()
    assert run_sweep(spec, tmp_path / "out", engine="here").state.before == 10


def test_a_folder_that_cannot_be_written_to(spec_file, tmp_path):
    spec = read_spec(spec_file)
    home = tmp_path / "home"
    run_sweep(replace(spec, seeds=4), home / "out", engine="here")
    table = (home / "out/table.csv").read_bytes()
    with mounted(home, "--bind", str(home)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(home)], check=True)
        for place in (home / "out", home / "new"):
            code, _, said = command(spec_file, "--out", place, "--engine", "here")
            assert code == 2 and said.count("\n") == 1
            assert f"{place} cannot be written to (Read-only file system)" in said
        # Reading still works.
        code, said, _ = command(home / "out", "--table", tmp_path / "t.csv")
        assert code == 0 and (tmp_path / "t.csv").read_bytes() == table
