"""attsvm sweep: runs, resumes, writes tables and figures, and refuses in one sentence."""

import csv
import os
import signal

import pytest

from attsvm.experiments.executors import ExecutorConfig
from attsvm.experiments.runner import run_studies
from attsvm.experiments.spec import read_sweep, sweep_of
from tests.cli.command import refused

TRAINED = {
    "family": "sphere", "measure": "ends", "seeds": 12, "group": 3,
    "run": {"n": 3, "T": 3, "steps": 200, "init": "normal:1"}, "grid": {"d": [3, 4]},
}  # fmt: skip


def test_a_sweep_runs_and_goes_on(run, sweep_file):
    out = sweep_file.parent / "out"
    done = run("sweep", sweep_file, "--out", out, "--engine", "here", "--json")
    assert done.code == 0 and done.report["rows"] == done.report["instances"] == 60
    more = run("sweep", out, "--seeds", 12, "--engine", "here")
    assert more.code == 0 and "72 instances: 72 rows in" in more.out
    with (out / "tables/sweep.sizes.csv").open() as stream:
        table = list(csv.DictReader(stream))
    assert len(table) == 72 and set(table[0]) == {"n", "scale", "seed", "size", "large", "word"}


def test_a_table_and_a_figure(run, sweep_file):
    words = ("--quick", "--engine", "here", "--table", "t.csv", "--figure", "f.svg")
    done = run("sweep", sweep_file, *words)
    assert done.code == 0 and "t.csv is written" in done.out
    here = sweep_file.parent
    assert (here / "t.csv").read_bytes() == (
        here / "sweep-sizes/tables/sweep.sizes.csv"
    ).read_bytes()
    assert (here / "f.svg").read_text().lstrip().startswith("<?xml")


def test_a_study_is_swept(run, tmp_path):
    done = run("sweep", "B.rank", "--quick", "--seeds", 2, "--engine", "here", "--json")
    assert done.code == 0 and done.report["instances"] == 30
    assert (tmp_path / "sweep-B.rank/tables/B.rank.csv").exists()
    again = run("sweep", tmp_path / "sweep-B.rank", "--engine", "here", "--json")
    assert again.code == 0 and again.report["instances"] == 30


def test_names_are_listed(run):
    done = run("sweep")
    assert done.code == 0 and "separability" in done.out and "any study" in done.out


def test_a_failed_chunk_is_exit_code_5(run, sweep_file):
    sweep_file.write_text(sweep_file.read_text().replace("pause = 0.0", "fault = 3"))
    done = run("sweep", sweep_file, "--engine", "here", "--retries", 0)
    assert done.code == 5 and "ValueError: seed 3 is at fault; run it again" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "unknown sweep 'nothing'"),
        (("none.toml",), "none.toml does not exist"),
        (("own.py",), "own.py is no sweep"),
        (("sizes.toml", "--engine", "loca"), "unknown engine 'loca'"),
        (("sizes.toml", "--table", "x.txt"), "a table is a .csv or a .parquet file"),
        (("sizes.toml", "--table", "no/x.csv"), "cannot be written"),
        (("sizes.toml", "--figure", "x.gif"), "gif"),
        (("sizes.toml", "--option", "x"), "write NAME=VALUE"),
        (("sizes.toml", "--address", "tcp://x:1"), "--address is of the dask engine"),
        (("sizes.toml", "--seeds", "0"), "greater than or equal to 1"),
    ],
)
def test_bad_input_is_one_sentence(run, sweep_file, words, said):
    refused(run("sweep", *words), said)
    assert sorted(f.name for f in sweep_file.parent.iterdir() if f.is_file()) == [
        "own.py",
        "sizes.toml",
    ]


@pytest.fixture
def wanted(tmp_path):
    """(sweep, table) with training, in this process."""
    sweep = sweep_of(TRAINED, "trained")
    run_studies([sweep], tmp_path / "here")
    return sweep, (tmp_path / "here/tables/sweep.trained.csv").read_bytes()


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_that_loses_a_worker(wanted, tmp_path):
    distributed = pytest.importorskip("distributed")
    sweep, table = wanted
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        workers = [nanny.process.pid for nanny in cluster.workers.values()]
        killed = []

        def watch(name, state):
            if " of " in state and not killed:
                killed.append(workers[0])
                os.kill(workers[0], signal.SIGKILL)

        (record,) = run_studies(
            [sweep], tmp_path / "dask", engine="dask",
            asked=ExecutorConfig(address=cluster.scheduler_address), watch=watch,
        )  # fmt: skip
    assert killed and "error" not in record
    assert (tmp_path / "dask/tables/sweep.trained.csv").read_bytes() == table


@pytest.mark.filterwarnings("default")
def test_jobs_of_slurm_by_the_local_executor(run, sweep_file, tmp_path):
    pytest.importorskip("submitit")
    text = sweep_file.read_text().replace("n = [1, 2, 3]", "n = [2]")
    (tmp_path / "few.toml").write_text(text.replace("group = 4", "group = 10"))
    run_studies([read_sweep(tmp_path / "few.toml")], tmp_path / "few")
    words = ("--engine", "slurm", "--option", "cluster=local", "--jobs", 2)
    done = run("sweep", tmp_path / "few.toml", "--out", tmp_path / "jobs", *words)
    assert done.code == 0, done
    tables = {(tmp_path / k / "tables/sweep.few.csv").read_bytes() for k in ("few", "jobs")}
    assert len(tables) == 1


@pytest.mark.filterwarnings("default")
def test_parquet_holds_the_same(run, sweep_file):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    words = ("--quick", "--engine", "here", "--table", "t.parquet")
    assert run("sweep", sweep_file, *words).code == 0
    here = sweep_file.parent
    found = pandas.read_parquet(here / "t.parquet")
    kept = pandas.read_csv(here / "sweep-sizes/tables/sweep.sizes.csv")
    assert found.astype(str).equals(kept.astype(str))
