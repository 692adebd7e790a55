"""`attsvm warm`: every kernel is compiled once, and then nothing is left to do."""

import json
import os
import subprocess
import sys

import numpy as np

from attsvm.cli import warm

WATCH = """
import sys, numba
from attsvm._utils import compiled
compiled.PATIENCE = -1.0
{first}
@numba.njit
def theirs(x):
    return x + 1
theirs(1)
print("theirs", file=sys.stderr)
from attsvm._utils.compiled import njit
def ours(x):
    return x + 2
ours.__module__ = "attsvm.made"
ours = njit(cache=False)(ours)
ours(1)
ours(1.0)
"""


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


def said(first: str, **env: str) -> list[str]:
    """What a process that compiles a kernel of its own and one of ours writes to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH.format(first=first)],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "ATTSVM_QUIET"} | env,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_compiling_is_announced_once_and_only_for_our_kernels():
    first, second = said("")
    assert first == "theirs"
    assert second.startswith("attsvm: compiling kernels: once per machine, about ")


def test_the_word_can_be_silenced():
    assert said("", ATTSVM_QUIET="1") == ["theirs"]
    assert said("compiled.silence()") == ["theirs"]
