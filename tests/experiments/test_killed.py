"""A run that is killed and started again ends in the tables of one that was not."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attsvm.experiments.runner import run_studies
from tests.conventions.tree import ROOT
from tests.experiments.made_studies import SLOW
from tests.experiments.processes import alive, children, heeds_interrupts

pytestmark = pytest.mark.skipif(not os.path.exists("/proc"), reason="reads /proc")

_PROGRAM = """
import sys
from attsvm.experiments.executors import ExecutorConfig
from attsvm.experiments.runner import run_studies
from tests.experiments.made_studies import SLOW, made

if __name__ == "__main__":
    run_studies([SLOW, made(group=2)], sys.argv[1], engine="local",
                asked=ExecutorConfig(jobs=int(sys.argv[2])))
"""
TABLES = ("tables/Z.slow.csv", "tables/Z.sizes.csv")


def started(out: Path, jobs: int) -> subprocess.Popen:
    """A run in a process of its own."""
    program = out.with_suffix(".py")
    program.write_text(_PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(program), str(out), str(jobs)],
        env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def killed_run(
    out: Path, seed: int, *, jobs: int, lives: int
) -> tuple[list[bytes], int, list[str]]:
    """(the final tables, how often something was killed, what is left behind).

    So many times, a moment after its first part is there or before, the parent, a worker or both
    are killed; then it is let run. A run whose worker was killed goes on by itself.
    """
    draw, kills = random.Random(seed), 0
    for _ in range(lives):
        run = started(out, jobs)
        until = time.monotonic() + 60
        parts = out / "parts"
        early = draw.random() < 0.3
        while run.poll() is None and time.monotonic() < until:
            if (parts.is_dir() and any(parts.iterdir())) or early:
                break
            time.sleep(0.01)
        time.sleep(draw.uniform(0.0, 1.5 if early else 0.4))
        workers = children(run.pid)
        one = workers[:1] or [run.pid]
        victims = {"parent": [run.pid], "worker": one, "both": [run.pid, *workers[:1]]}
        chosen = victims[draw.choice(list(victims))]
        if run.poll() is None:
            for process in chosen:
                try:
                    os.kill(process, signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    pass
        if run.pid in chosen:
            run.communicate()
            while any(map(alive, workers)) and time.monotonic() < until:
                time.sleep(0.02)
        else:
            said = run.communicate(timeout=120)[1]
            assert run.returncode == 0, said
    last = started(out, jobs)
    said = last.communicate(timeout=120)[1]
    assert last.returncode == 0, said
    left = [f.name for f in out.rglob("*") if f.name.startswith(".") or f.name == "lock"]
    return [(out / name).read_bytes() for name in TABLES], kills, left


def several(tmp_path, seeds, **how):
    """How many processes were killed in as many runs, each of which ended as it should."""
    from tests.experiments.made_studies import made

    calm = tmp_path / "calm"
    run_studies([SLOW, made(group=2)], calm)
    wanted = [(calm / name).read_bytes() for name in TABLES]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda seed: killed_run(tmp_path / f"run{seed}", seed, **how), seeds))
    assert all(tables == wanted for tables, _, _ in found)
    assert all(left == [] for _, _, left in found)
    return sum(kills for _, kills, _ in found)


def test_killed_runs_end_in_the_same_tables(tmp_path):
    assert several(tmp_path, range(3), jobs=1, lives=1) >= 1


@pytest.mark.slow
def test_forty_killed_runs_end_in_the_same_tables(tmp_path):
    assert several(tmp_path, range(100, 140), jobs=2, lives=2) >= 60


@pytest.mark.parametrize("left", ["parts/", ".attsvm-x.part", ""])
def test_a_run_killed_before_its_stamp_goes_on(tmp_path, left):
    out = tmp_path / "out"
    (out / "parts").mkdir(parents=True) if left == "parts/" else out.mkdir()
    if left.endswith(".part"):
        (out / left).write_text("half")
        os.utime(out / left, (1, 1))
    run_studies([SLOW.at(seeds=2)], out)
    assert (out / TABLES[0]).exists() and not list(out.glob(".attsvm-*"))


def test_an_interrupt_says_how_to_go_on(run, sweep_file):
    text = sweep_file.read_text().replace("pause = 0.0", "pause = 0.1")
    sweep_file.write_text(text.replace("group = 4", "group = 2"))
    out = sweep_file.parent / "out"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ATTSVM_QUIET": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "attsvm", "sweep", sweep_file, "--jobs", "1", "--out", out],
        env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=heeds_interrupts,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not list(out.glob("parts/*.npz")) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith(f"attsvm: stopped: what is finished is kept in {out}")
    done = run("sweep", out, "--jobs", "1", "--json")
    assert done.code == 0 and done.report["status"] == "done" and done.report["rows"] == 60
