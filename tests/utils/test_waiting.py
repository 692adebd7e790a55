"""The one line about compiling: said once, where somebody waits, and not when silenced."""

import os
import subprocess
import sys

import pytest

from tests.utils.cold_start import HERE

PROGRAM = """
__name__ = "attsvm.made"
from attsvm._utils.compiled import njit
from attsvm._utils import waiting
waiting.PATIENCE = {patience}
@njit(cache=False{more})
def first(x):
    return x + 1
@njit(cache=False)
def second(x):
    return x + 2
first(1); first(1.0); second(1); second(1.0)
"""
LINE = "attsvm: compiling kernels: once per machine, about "


def said(patience, more="", **env):
    """What a process that compiles four times writes to standard error."""
    kept = {name: value for name, value in os.environ.items() if name != "ATTSVM_QUIET"}
    program = PROGRAM.format(patience=patience, more=more)
    done = subprocess.run(
        [sys.executable, "-c", program], env={**kept, "PYTHONPATH": str(HERE), **env}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert not done.stdout
    return done.stderr


def test_said_once_when_it_takes_long():
    assert said(0.0).count(LINE) == 1


def test_said_beforehand_where_it_is_known():
    assert said(2.0, ", seconds=7") == f"{LINE}7 s\n"


@pytest.mark.parametrize("patience, env", [(1e9, {}), (0.0, {"ATTSVM_QUIET": "1"})])
def test_not_said(patience, env):
    assert said(patience, **env) == ""
