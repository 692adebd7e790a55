"""A full disk and a folder that cannot be written to: one sentence, and what is finished stays."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from attsvm.experiments.sweep import load_table, read_spec, run_sweep
from attsvm.experiments.sweep import runs as sweep_runs
from tests.cli.command import refused


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
