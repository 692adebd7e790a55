"""A reproduction that was killed goes on from what was finished, and ends with the same page."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attsvm.experiments.reproduce import reproduce_claims
from attsvm.experiments.reproduce.page.document import write_page
from tests.experiments.processes import alive, children

IDS = ("A.single-input-global", "A.single-input-local", "A.multi-input")
PATIENCE = 120.0  # seconds


def begin(out: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "attsvm", "reproduce", *IDS, "--quick", "--out", str(out)]
    return subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def timeless(folder: Path) -> str:
    text = write_page(folder).read_text("utf-8")
    return re.sub(r'(<span class="seconds">)[^<]*', r"\1", text)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> str:
    out = tmp_path_factory.mktemp("undisturbed") / "report"
    reproduce_claims(IDS, out=out, quick=True)
    return timeless(out)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc to find processes")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_killed_run_is_resumed(tmp_path, undisturbed, jobs):
    out = tmp_path / "report"
    process = begin(out, "--jobs", jobs)
    end = time.monotonic() + PATIENCE
    first: list[Path] = []
    while not first and process.poll() is None:
        assert time.monotonic() < end
        first = [file for name in IDS if (file := out / "claims" / f"{name}.json").exists()]
        time.sleep(0.005)
    started = children(process.pid) if process.poll() is None else []
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(PATIENCE) == -signal.SIGKILL, "it was killed before its end"
    while any(map(alive, started)):
        assert time.monotonic() < end, "a process outlived the one that started it"
        time.sleep(0.02)
    finished = {n: f for n in IDS if (f := out / "claims" / f"{n}.json").exists()}
    written = {name: file.stat().st_mtime_ns for name, file in finished.items()}
    assert finished and not (out / "results.json").exists()
    states = []
    records = reproduce_claims(
        IDS, out=out, quick=True, watch=lambda name, state: states.append((name, state))
    )
    assert {name for name, state in states if state == "on file"} == set(finished)
    assert {name for name, state in states if state == "running"} == set(IDS) - set(finished)
    assert {n: f.stat().st_mtime_ns for n, f in finished.items()} == written
    assert [record["id"] for record in records] == list(IDS)
    assert timeless(out) == undisturbed
