"""What every test run shares: one thread a process, no windows, the same draws every time."""

import os
import sys

import pytest
from hypothesis import settings

# Read once when the libraries start, so set here, before any test module loads NumPy.
for _variable in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ.setdefault(f"{_variable}_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# The word about compiling would stand among what commands write to standard error.
os.environ.setdefault("ATTSVM_QUIET", "1")

# A first call may compile a kernel, so a draw has no deadline; the gate repeats itself exactly.
settings.register_profile("house", deadline=None, derandomize=True, database=None)
settings.load_profile("house")


# How modules of files of one's own are named (attsvm/_utils/objects.py).
OWN = "attsvm_outside_"


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """`run("solve", path, …)`: a command of attsvm, in a folder of its own."""
    from tests.cli.command import runner

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return runner(capsys, monkeypatch)


@pytest.fixture(autouse=True)
def own_files_forgotten():
    """Files of one's own that a test loads are not handed to the processes of later tests."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(OWN):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def digits_of_integers():
    """The limit on the digits of integers read from text, which the checkers of tools/ lift."""
    before = sys.get_int_max_str_digits()
    yield
    sys.set_int_max_str_digits(before)
