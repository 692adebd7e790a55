"""map_tasks: every task is done once or told of, whatever its workers do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.executors import ENGINES, ExecutorConfig, Failure, engine_of, map_tasks
from tests.conventions.tree import ROOT
from tests.experiments import jobs
from tests.experiments.processes import alive, heeds_interrupts

TWO = ExecutorConfig(jobs=2)


def ran(work, tasks, engine, **more):
    """(what was done, what failed)."""
    found = list(map_tasks(work, tasks, engine, **more))
    failures = [r for _, r in found if isinstance(r, Failure)]
    return [(task, r) for task, r in found if not isinstance(r, Failure)], failures


@pytest.mark.parametrize("name", ["here", "local"])
def test_every_task_is_done_once(name):
    seen, failures = ran(jobs.square, range(40), engine_of(name, TWO))
    assert sorted(seen) == [(k, k * k) for k in range(40)]
    assert failures == []


def test_an_executor_of_ones_own_is_used_and_stays_open():
    with ThreadPoolExecutor(2) as pool:
        seen, _ = ran(jobs.square, range(10), engine_of(pool))
        assert len(seen) == 10
        assert pool.submit(jobs.square, 3).result() == 9


def test_no_tasks_open_no_executor():
    engine = engine_of("local", TWO)
    broken = type(engine)("none", lambda: pytest.fail("opened"), 1)
    assert ran(jobs.square, [], broken) == ([], [])


def test_tasks_are_drawn_as_there_is_room():
    drawn = []

    def tasks():
        for k in range(20):
            drawn.append(k)
            yield k

    results = map_tasks(jobs.square, tasks(), engine_of("here"))
    assert all(len(drawn) - k <= 2 for k, _ in enumerate(results))


def test_errors_are_tried_again_and_then_told():
    seen, failures = ran(jobs.odd_fails, range(6), engine_of("here"), retries=1)
    assert [task for task, _ in seen] == [0, 2, 4]
    assert sorted((f.task, f.attempts) for f in failures) == [(1, 2), (3, 2), (5, 2)]
    assert failures[0].error == "ValueError: 1 is odd"


def test_what_fails_once_is_done(tmp_path):
    tasks = [str(tmp_path / str(k)) for k in range(5)]
    seen, failures = ran(jobs.first_time_fails, tasks, engine_of("here"))
    assert sorted(seen) == [(task, task) for task in tasks]
    assert failures == []


def test_errors_raised_on_purpose_are_not_tried_again(tmp_path):
    _, (failure,) = ran(jobs.refused, [(str(tmp_path), "a")], engine_of("here"), retries=5)
    assert failure.attempts == 1
    assert (tmp_path / "a").read_text() == "x"


def test_a_task_that_kills_its_workers_is_found_among_others():
    seen, failures = ran(jobs.dies, range(8), engine_of("local", TWO), retries=1)
    assert sorted(task for task, _ in seen) == [0, 1, 2, 4, 5, 6, 7]
    assert [(f.task, f.attempts) for f in failures] == [(3, 2)]
    assert "process ended" in failures[0].error


def test_workers_that_die_are_replaced(tmp_path):
    tasks = [(str(tmp_path), k) for k in range(8)]
    seen, failures = ran(jobs.dies_once, tasks, engine_of("local", TWO))
    assert sorted(number for _, number in seen) == list(range(8))
    assert failures == []


def test_workers_have_one_thread(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    seen, _ = ran(jobs.where, range(4), engine_of("local", TWO))
    assert {threads for _, (_, threads) in seen} == {"1"}
    assert os.getpid() not in {process for _, (process, _) in seen}
    assert "OMP_NUM_THREADS" not in os.environ


def test_closing_the_results_ends_the_workers():
    engine = engine_of("local", TWO)
    opened = []
    seen = replace(engine, open=lambda: opened.append(engine.open()) or opened[0])
    with (
        pytest.raises(OSError, match="no space"),
        closing(map_tasks(jobs.where, range(100), seen)) as results,
    ):
        for _ in results:
            workers = list(opened[0]._processes.values())
            raise OSError("no space")
    assert workers and not any(process.is_alive() for process in workers)


def test_a_given_executor_that_breaks_is_said_so():
    from attsvm.experiments.executors import Processes

    with Processes(1) as pool, pytest.raises(BadTokens, match="the executor is broken"):
        ran(jobs.dies, [3], engine_of(pool))


@pytest.mark.skipif(not os.path.exists("/proc"), reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_one_that_started_them(tmp_path, how):
    program = (
        "from attsvm.experiments.executors import ExecutorConfig, engine_of, map_tasks\n"
        "from tests.experiments import jobs\n"
        "if __name__ == '__main__':\n"
        "    engine = engine_of('local', ExecutorConfig(jobs=2))\n"
        f"    list(map_tasks(jobs.sleeps, [{str(tmp_path)!r}] * 4, engine))\n"
    )
    file = tmp_path / "program.py"
    file.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen(
        [sys.executable, str(file)], env=environment, stderr=subprocess.DEVNULL,
        preexec_fn=heeds_interrupts,
    )  # fmt: skip
    until = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    workers = [int(f.name) for f in tmp_path.iterdir() if f.name.isdigit()]
    assert len(workers) == 2
    run.send_signal(how)
    assert run.wait(30) != 0
    while any(map(alive, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, workers))


def test_unknown_engines_and_options_are_named():
    with pytest.raises(
        Unsupported, match=r"'locale'.*nearest is local; known are local, here, dask, slurm"
    ):
        engine_of("locale")
    with pytest.raises(Unsupported, match="leave it out with --engine local"):
        engine_of("local", ExecutorConfig(address="tcp://127.0.0.1:1"))
    with pytest.raises(Unsupported, match="takes no options"):
        engine_of("here", ExecutorConfig(options={"a": "1"}))


@pytest.mark.parametrize("name", ["dask", "slurm"])
def test_a_missing_package_is_one_sentence(name, monkeypatch, tmp_path):
    for module in ("distributed", "submitit"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unsupported, match=rf"pip install '\.\[{name}\]'"):
        ENGINES[name](ExecutorConfig(folder=tmp_path, address="tcp://127.0.0.1:1"))


SCRIPTS = {
    "solve_many": """
import numpy as np, attsvm
rows = np.random.default_rng(0).standard_normal((4, 3, 5))
problems = [attsvm.Problem.from_rows(D, np.ones((3, 1))) for D in rows]
attsvm.solve_many(problems, "nuclear", jobs=2)
""",
    "an engine": """
from attsvm.experiments.executors import ExecutorConfig, engine_of, map_tasks
engine = engine_of("local", ExecutorConfig(jobs=2))
for _, found in map_tasks(abs, [-1, 2, -3], engine):
    raise SystemExit(found.error)
""",
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_the_guard_is_named(case, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPTS[case])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ATTSVM_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr.count("Traceback") <= 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert "is there enough memory?" in last and "if __name__ == '__main__':" in last
