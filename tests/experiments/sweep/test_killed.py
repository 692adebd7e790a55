"""A sweep that is killed and run again ends in the table of one that was not."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attsvm.experiments.sweep import read_spec, run_sweep
from tests.conventions.tree import ROOT
from tests.experiments.processes import alive, children, heeds_interrupts

pytestmark = pytest.mark.skipif(not os.path.exists("/proc"), reason="reads /proc")


_PROGRAM = """
import sys
from pathlib import Path
from attsvm.experiments.executors import ExecutorConfig
from attsvm.experiments.sweep import read_spec, run_sweep

if __name__ == "__main__":
    config = ExecutorConfig(jobs=int(sys.argv[3]))
    run_sweep(read_spec(Path(sys.argv[1])), sys.argv[2], asked=config)
"""


def started(spec_file: Path, out: Path, jobs: int) -> subprocess.Popen:
    """A sweep in a process of its own."""
    program = out.with_suffix(".py")
    program.write_text(_PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(program), str(spec_file), str(out), str(jobs)],
        env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def killed_run(
    spec_file: Path, out: Path, seed: int, *, jobs: int, lives: int
) -> tuple[bytes, int, list[str]]:
    """(the final table, how often something was killed, what is left behind), of one sweep.

    So many times, a moment after its first result is there or before, the parent, a worker or
    both are killed; then it is let run. A sweep whose worker was killed goes on by itself.
    """
    draw, kills = random.Random(seed), 0
    for _ in range(lives):
        run = started(spec_file, out, jobs)
        until = time.monotonic() + 60
        shards = out / "shards"
        early = draw.random() < 0.3
        while run.poll() is None and time.monotonic() < until:
            if (shards.is_dir() and any(shards.iterdir())) or early:
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
            if run.returncode:
                raise AssertionError(said)
    last = started(spec_file, out, jobs)
    said = last.communicate(timeout=120)[1]
    if last.returncode:
        raise AssertionError(said)
    left = [f.name for f in out.rglob("*") if f.name.startswith(".") or f.name == "lock"]
    return (out / "table.csv").read_bytes(), kills, left


def slow(spec_file, pause=0.04):
    """The spec with tasks that take a moment; its table when nothing is killed."""
    text = spec_file.read_text().replace("pause = 0.0", f"pause = {pause}")
    spec_file.write_text(text.replace("group = 4", "group = 2"))
    out = spec_file.parent / "undisturbed"
    run_sweep(read_spec(spec_file), out, engine="here")
    return (out / "table.csv").read_bytes()


def several(spec_file, seeds, **how):
    """How many processes were killed in as many sweeps, each of which ended as it should."""
    wanted = slow(spec_file)

    def one(seed):
        return killed_run(spec_file, spec_file.parent / f"run{seed}", seed, **how)

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(one, seeds))
    assert all(table == wanted for table, _, _ in found)
    assert all(left == [] for _, _, left in found)
    return sum(kills for _, kills, _ in found)


def test_killed_sweeps_end_in_the_same_table(spec_file):
    assert several(spec_file, range(5), jobs=1, lives=1) >= 4


@pytest.mark.slow
def test_a_hundred_killed_sweeps_end_in_the_same_table(spec_file):
    assert several(spec_file, range(100, 200), jobs=2, lives=2) >= 150


@pytest.mark.parametrize("left", ["shards/", ".attsvm-x.part", ""])
def test_a_sweep_killed_before_its_stamp_goes_on(spec_file, left):
    out = spec_file.parent / "out"
    (out / "shards").mkdir(parents=True) if left == "shards/" else out.mkdir()
    if left.endswith(".part"):
        (out / left).write_text("half")
    run_sweep(read_spec(spec_file), out, engine="here")
    assert (out / "table.csv").exists() and not list(out.glob(".attsvm-*"))


def test_an_interrupt_says_how_to_go_on(run, spec_file):
    slow(spec_file, pause=0.3)
    out = spec_file.parent / "out"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ATTSVM_QUIET": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "attsvm", "sweep", str(spec_file), "--out", str(out)],
        env=environment, stderr=subprocess.PIPE, text=True,
        preexec_fn=heeds_interrupts,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not list(out.glob("shards/*.npz")) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("attsvm: stopped: what is finished is kept")
    assert f"`attsvm sweep {out}` goes on" in said
    done = run("sweep", out, "--json")
    assert done.code == 0 and done.report["status"] == "done"
