"""run_tasks: every task is done once or told of, whatever its workers do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from attsvm.experiments.reproduce.processes import in_processes

from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.executors import ENGINES, ExecutorConfig, engine_of, run_tasks
from tests.conventions.tree import ROOT
from tests.experiments import jobs
from tests.experiments.processes import alive, heeds_interrupts

TWO = ExecutorConfig(jobs=2)


def ran(work, tasks, engine, **more):
    """(what was done, what failed)."""
    seen = []
    failures = run_tasks(work, tasks, engine, done=lambda task, r: seen.append((task, r)), **more)
    return seen, failures


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

    most = []
    run_tasks(
        jobs.square, tasks(), engine_of("here"),
        done=lambda task, result: most.append(len(drawn) - len(most)),
    )  # fmt: skip
    assert max(most) <= 2


def test_errors_are_tried_again_and_then_told():
    told = []
    seen, failures = ran(
        jobs.odd_fails, range(6), engine_of("here"), retries=1, gave_up=told.append
    )
    assert [task for task, _ in seen] == [0, 2, 4]
    assert sorted((f.task, f.attempts) for f in failures) == [(1, 2), (3, 2), (5, 2)]
    assert failures == told
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


def test_an_error_while_a_result_is_taken_ends_the_workers():
    def full(task, result):
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        run_tasks(jobs.square, range(100), engine_of("local", TWO), done=full)


def test_a_given_executor_that_breaks_is_said_so():
    from attsvm.experiments.executors.local import Processes

    with Processes(1) as pool, pytest.raises(BadTokens, match="the executor is broken"):
        run_tasks(jobs.dies, [3], engine_of(pool), done=lambda task, result: None)


@pytest.mark.skipif(not os.path.exists("/proc"), reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_one_that_started_them(tmp_path, how):
    program = (
        "from attsvm.experiments.executors import ExecutorConfig, engine_of, run_tasks\n"
        "from tests.experiments import jobs\n"
        "if __name__ == '__main__':\n"
        "    engine = engine_of('local', ExecutorConfig(jobs=2))\n"
        f"    run_tasks(jobs.sleeps, [{str(tmp_path)!r}] * 4, engine,"
        " done=print)\n"
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
    with pytest.raises(Unsupported, match=r"'locale'.*local, here, dask, slurm; nearest is local"):
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
        ENGINES[name](ExecutorConfig(folder=tmp_path))


def named(name, folder):
    """The state of a claim that was run; one that raises, and one that ends its process."""
    if name == "raises":
        raise BadTokens("said on purpose")
    if name == "dies":
        jobs.dies(3)
    return f"done in {folder}"


def test_the_runner_of_claims_is_this_one():
    told = []
    how = {"given": ("here",), "jobs": 2, "tell": lambda *what: told.append(what)}
    in_processes(named, ["a", "b", "c"], **how)
    assert sorted(told) == sorted(
        [(name, state) for name in "abc" for state in ("running", "done in here")]
    )
    with pytest.raises(BadTokens, match="said on purpose"):
        in_processes(named, ["a", "raises", "c"], **how)
    told.clear()
    with pytest.raises(BadTokens, match="a process ended while it ran dies, perhaps for lack of"):
        in_processes(named, ["a", "dies"], **how)
    assert ("dies", "running") in told


SCRIPTS = {
    "solve_many": """
import numpy as np, attsvm
rows = np.random.default_rng(0).standard_normal((4, 3, 5))
problems = [attsvm.Problem.from_rows(D, np.ones((3, 1))) for D in rows]
attsvm.solve_many(problems, "nuclear", jobs=2)
""",
    "an engine": """
from attsvm.experiments.executors import ExecutorConfig, engine_of, run_tasks
engine = engine_of("local", ExecutorConfig(jobs=2))
run_tasks(abs, [-1, 2, -3], engine, done=lambda task, result: None)
""",
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_the_guard_is_named(case, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPTS[case])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ATTSVM_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("attsvm.errors.Unsupported: ") and "if __name__ == '__main__':" in last
