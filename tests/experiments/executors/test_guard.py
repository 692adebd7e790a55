"""A script that starts processes without a main guard gets one sentence that names it."""

import os
import subprocess
import sys

import pytest

from tests.conventions.tree import ROOT

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
