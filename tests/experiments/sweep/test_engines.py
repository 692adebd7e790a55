"""The same sweep on other engines, where these are installed: equal tables."""

from __future__ import annotations

import os
import signal

import pytest

from attsvm.experiments.executors import ExecutorConfig
from attsvm.experiments.sweep import read_spec, run_sweep, spec_of
from tests.cli.command import refused

# What the packages themselves warn of.
pytestmark = pytest.mark.filterwarnings("default")

TRAINED = {
    "family": "sphere", "measure": "ends", "seeds": 12, "group": 3,
    "fixed": {"n": 3, "T": 3, "steps": 200, "init": "normal:1"}, "grid": {"d": [3, 4]},
}  # fmt: skip


@pytest.fixture
def wanted(tmp_path):
    """(spec, table) of a sweep with training, in this process."""
    spec = spec_of(TRAINED, "trained")
    run_sweep(spec, tmp_path / "here", engine="here")
    return spec, (tmp_path / "here/table.csv").read_bytes()


def test_local_processes_train_the_same(wanted, tmp_path):
    spec, table = wanted
    run_sweep(spec, tmp_path / "local", asked=ExecutorConfig(jobs=2))
    assert (tmp_path / "local/table.csv").read_bytes() == table


def test_a_dask_cluster_that_loses_a_worker(wanted, tmp_path):
    distributed = pytest.importorskip("distributed")
    spec, table = wanted
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        workers = [nanny.process.pid for nanny in cluster.workers.values()]
        killed = []

        def watch(state):
            if state.done >= 6 and not killed:
                killed.append(workers[0])
                os.kill(workers[0], signal.SIGKILL)

        found = run_sweep(
            spec, tmp_path / "dask", engine="dask",
            asked=ExecutorConfig(address=cluster.scheduler_address), watch=watch,
        )  # fmt: skip
    assert killed and found.failures == ()
    assert (tmp_path / "dask/table.csv").read_bytes() == table


def test_jobs_of_slurm_by_the_local_executor(run, spec_file, tmp_path):
    pytest.importorskip("submitit")
    words = ("--engine", "slurm", "--option", "cluster=local", "--jobs", 2)
    text = spec_file.read_text().replace("n = [1, 2, 3]", "n = [2]")
    text = text.replace("group = 4", "group = 10")
    (tmp_path / "few.toml").write_text(text)
    few = read_spec(tmp_path / "few.toml")
    run_sweep(few, tmp_path / "few", engine="here")
    done = run("sweep", tmp_path / "few.toml", "--out", tmp_path / "jobs", *words)
    assert done.code == 0, done
    assert (tmp_path / "jobs/table.csv").read_bytes() == (tmp_path / "few/table.csv").read_bytes()


def test_a_scheduler_that_does_not_answer(run, spec_file, tmp_path):
    pytest.importorskip("distributed")
    words = ("--engine", "dask", "--address", "tcp://127.0.0.1:9")
    done = run("sweep", spec_file, "--out", tmp_path / "out", *words)
    refused(done, "no dask scheduler answers at tcp://127.0.0.1:9 within 10 s")
