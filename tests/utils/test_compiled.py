"""Kernels: cached where they can be, compiled all the same elsewhere; one notice; their time."""

import json
import os
import subprocess
import sys
from dataclasses import astuple

import numba
import pytest
from numba.core import event

from attsvm._utils import compiled, parallel
from attsvm._utils.compiled import njit
from tests.conventions.tree import ROOT

PROGRAM = """
import sys, numba
from attsvm._utils import compiled
from attsvm._utils.compiled import njit
compiled.PATIENCE = {patience}
{first}
@numba.njit
def theirs(x):
    return x + 1
theirs(1)
print("theirs", file=sys.stderr)
__name__ = "attsvm.made"
@njit(cache=False{more})
def first(x):
    return x + 1
@njit(cache=False)
def second(x):
    return x + 2
first(1); first(1.0); second(1); second(1.0)
"""
LINE = "attsvm: compiling kernels: once per machine, about "


def shifted(x):
    """A function of a real file: numba can cache it."""
    return x + 1.0


def homeless():
    """A function that comes from no file, so that there is nowhere to cache it."""
    space: dict = {}
    exec("def doubled(x):\n    return 2.0 * x", space)
    return space["doubled"]


def test_caches_where_it_can(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kernel = njit()(shifted)
    assert kernel(1.0) == 2.0
    assert list(tmp_path.rglob("*shifted*.nbc"))


def test_compiles_where_it_cannot_cache():
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(homeless())
    kernel = njit()(homeless())
    assert kernel(3.0) == 6.0
    assert kernel.nopython_signatures


def test_fastmath_is_refused():
    with pytest.raises(ValueError, match="fastmath"):
        njit(fastmath=True)


def notice(patience, more="", first="", **env):
    """What a process writes to standard error that compiles another's kernel, and ours four times.

    Another's kernel is announced by nobody.
    """
    kept = {name: value for name, value in os.environ.items() if name != "ATTSVM_QUIET"}
    program = PROGRAM.format(patience=patience, more=more, first=first)
    done = subprocess.run(
        [sys.executable, "-c", program], env={**kept, "PYTHONPATH": str(ROOT), **env}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert not done.stdout
    theirs, _, ours = done.stderr.partition("\n")
    assert theirs == "theirs"
    return ours


def test_a_notice_appears_once_when_it_takes_long():
    assert notice(0.0).count(LINE) == 1


def test_a_notice_comes_first_where_the_time_is_known():
    assert notice(2.0, ", seconds=7") == f"{LINE}7 s\n"


@pytest.mark.parametrize(
    ("patience", "how"),
    [(1e9, {}), (0.0, {"ATTSVM_QUIET": "1"}), (0.0, {"first": "compiled.silence()"})],
)
def test_no_notice(patience, how):
    assert notice(patience, **how) == ""


def test_the_two_parts_are_the_whole(monkeypatch):
    """Kernels within kernels count once, and so do threads that wait for one another."""
    clock = iter([0.0, 1.0, 4.0, 6.0, 7.0, 10.0])
    monkeypatch.setattr(compiled, "_now", lambda: compiled.Spent(now := next(clock), now / 2))
    with compiled.timed() as took:  # 0: begins
        _tell(event.EventStatus.START)  # 1: an outer kernel begins
        _tell(event.EventStatus.START)
        _tell(event.EventStatus.END)
        _tell(event.EventStatus.END)  # 4: and has ended
        _tell(event.EventStatus.START)  # 6
        _tell(event.EventStatus.END)  # 7
    assert astuple(took.compiling) == pytest.approx((4.0, 2.0))
    assert astuple(took.run) == pytest.approx((6.0, 3.0))


def _tell(status):
    event.broadcast(event.Event("numba:compiler_lock", status))


# Kernels that may meet more than one kind of arguments, and why.
MORE = {
    "attsvm.solvers.frobenius.coordinate": "keys in float32 or float64, which are never copied",
}

FIRST_DAY = """
import json
import numpy as np
import attsvm
from attsvm._utils.compiled import KERNELS

def sphere(*shape):
    x = np.random.default_rng(0).standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)

tokens, v = attsvm.Tokens(sphere(6, 8, 10), queries=sphere(6, 10), labels=np.ones(6)), sphere(10)
attsvm.solve(attsvm.Problem.of(tokens, attsvm.Selection.best(tokens, v)))
attsvm.train(tokens, head=v, steps=200)
many = attsvm.Stack(sphere(9, 6, 8, 10), queries=sphere(9, 6, 10), alpha=np.zeros((9, 6), int))
attsvm.solve_many(many)
few = attsvm.Tokens(sphere(4, 4, 5), queries=sphere(4, 5), labels=np.ones(4))
attsvm.local_optima(few, sphere(5))
counts = {f"{k.py_func.__module__}.{k.py_func.__name__}": len(k.signatures) for k in KERNELS}
print(json.dumps(counts))
"""


# From an empty cache: a kernel that is loaded does not say what its parts were compiled for.
@pytest.mark.parametrize("empty", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_each_kernel_is_compiled_for_one_kind_of_arguments(tmp_path, empty):
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    if empty:
        env["NUMBA_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FIRST_DAY], env=env, cwd=tmp_path, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    counts = json.loads(done.stdout.splitlines()[-1])
    assert sum(counts.values()) > (10 if empty else 3)
    twice = {name: n for name, n in counts.items()
             if n > 1 and name.rpartition(".")[0] not in MORE}  # fmt: skip
    assert not twice


def test_the_threads_come_back(monkeypatch):
    count = [4]
    monkeypatch.setattr(
        parallel, "_switches", lambda: [(lambda: count[0], lambda n: count.__setitem__(0, n))]
    )
    with pytest.raises(ZeroDivisionError), parallel.one_thread():
        assert count == [1]
        raise ZeroDivisionError
    assert count == [4]
