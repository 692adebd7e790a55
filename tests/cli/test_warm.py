"""`attsvm warm`: every kernel is compiled once, and then nothing is left to do."""

import json
import subprocess
import sys

import numpy as np

from attsvm.cli import warm


def test_a_second_run_has_nothing_to_do():
    assert warm.warm_up() >= 0
    done = subprocess.run(
        [sys.executable, "-m", "attsvm", "warm", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["compiled"] == 0 and found["status"] == "done"
    assert done.stderr == ""


def test_every_step_is_named_once_and_runs():
    steps = warm.steps()
    names = [name for name, _ in steps]
    assert (
        len(set(names)) >= len(names) - 1
    )  # ngd on the weight is a model's and an optimizer's step
    with np.errstate(all="ignore"):
        for name, call in steps:
            if name.startswith("solve"):
                assert call() is not None
