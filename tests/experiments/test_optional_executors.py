"""dask and slurm: the same tasks by other engines, where these are installed."""

import os
import signal
import socket

import pytest

from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.executors import ExecutorConfig, engine_of, map_tasks
from tests.experiments import jobs
from tests.experiments.test_executors import ran

# What the packages themselves warn of.
pytestmark = pytest.mark.filterwarnings("default")


def test_dask_workers_that_die_are_replaced():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        engine = engine_of("dask", ExecutorConfig(jobs=2, address=cluster.scheduler_address))
        seen, killed = [], []
        for task, (process, _) in map_tasks(jobs.where, range(20), engine):
            seen.append(task)
            if not killed:
                os.kill(process, signal.SIGKILL)
                killed.append(process)
        assert sorted(seen) == list(range(20))


def test_an_address_where_nobody_answers(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("attsvm.experiments.executors.PATIENCE", 0.5)
    with socket.socket() as place:  # bound, and nobody listens
        place.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{place.getsockname()[1]}"
        engine = engine_of("dask", ExecutorConfig(address=address))
        with pytest.raises(BadTokens, match=f"no dask scheduler answers at {address}"):
            list(map_tasks(jobs.square, [1], engine))
    engine = engine_of("dask", ExecutorConfig(address="nonsense://x"))
    with pytest.raises(BadTokens, match="no dask scheduler answers"):
        list(map_tasks(jobs.square, [1], engine))


def test_dask_needs_an_address():
    pytest.importorskip("distributed")
    with pytest.raises(Unsupported, match="needs --address"):
        engine_of("dask")


def test_jobs_are_run_by_the_local_executor(tmp_path):
    pytest.importorskip("submitit")
    asked = ExecutorConfig(jobs=2, folder=tmp_path / "jobs", options={"cluster": "local"})
    seen, failures = ran(jobs.odd_fails, range(3), engine_of("slurm", asked), retries=0)
    assert sorted(seen) == [(0, 0), (2, 2)]
    assert [f.task for f in failures] == [1]
    assert "is odd" in failures[0].error


def test_no_cluster_is_one_sentence(tmp_path):
    pytest.importorskip("submitit")
    engine = engine_of("slurm", ExecutorConfig(folder=tmp_path))
    with pytest.raises(BadTokens, match="no job can be sent to slurm"):
        list(map_tasks(jobs.square, [1], engine))
