"""Sweeps that are killed at random moments and run again until they are done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conventions.tree import ROOT
from tests.experiments.processes import alive, children

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
