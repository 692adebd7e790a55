"""Problem and solution files in Python: what is read, what is written, which errors are raised."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from attsvm import BadTokens, TooLarge, solve
from attsvm._utils import memory
from attsvm._utils.files import load_arrays, write_arrays
from attsvm._utils.memory import available, require
from attsvm.cli.problem_file import Archive, read_problem, solution_arrays

X = np.random.default_rng(3).standard_normal((2, 3, 7))


def saved(path: Path, **arrays) -> Archive:
    """The archive of these arrays."""
    np.savez(path / "tokens.npz", **arrays)
    return read_problem(path / "tokens.npz")


def test_a_file_comes_back(tmp_path):
    arrays = {"X": X, "z": np.ones((2, 4)), "y": np.array([1.0, -1.0]), "keys": 2 * X}
    write_arrays(tmp_path / "a.npz", arrays)
    back = load_arrays(tmp_path / "a.npz")
    assert back.keys() == arrays.keys()
    assert all(np.array_equal(back[name], array) for name, array in arrays.items())
    tokens = read_problem(tmp_path / "a.npz").tokens
    assert np.array_equal(tokens.keys, 2 * X) and np.array_equal(tokens.labels, [1, -1])
    assert tokens.queries.shape == (2, 4)


def test_selection_of_a_file(tmp_path):
    v = np.arange(7.0)
    best = (X @ v).argmax(axis=1).tolist()
    assert saved(tmp_path, X=X, v=v).selection.indices.tolist() == best
    assert saved(tmp_path, X=X, v=v, alpha=[2, 0]).selection.indices.tolist() == [2, 0]
    rows = [[True, True, False], [False, False, True]]
    assert saved(tmp_path, X=X, v=v, select=rows).selection.kept.tolist() == rows
    assert saved(tmp_path, X=X, select=np.array(rows, int)).selection.kept.tolist() == rows


def test_solution_of_an_infeasible_problem(tmp_path):
    archive = saved(tmp_path, X=[[[1.0], [0.0], [2.0]]], alpha=[0])
    arrays = solution_arrays(solve(archive.problem()))
    assert np.isnan(arrays["W"]).all() and arrays["W"].shape == (1, 1)
    assert arrays["upper"] == np.inf and str(arrays["status"]) == "infeasible"
    write_arrays(tmp_path / "best.npz", arrays)
    assert load_arrays(tmp_path / "best.npz").keys() == arrays.keys()


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "best.npz"
    write_arrays(path, {"W": np.ones(2)})
    before = path.read_bytes()
    with pytest.raises(BadTokens, match=r"best\.npz exists"):
        write_arrays(path, {"W": np.zeros(2)})

    def stop(*names):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_arrays(path, {"W": np.zeros(2)}, force=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_written_files_can_be_read_by_all(tmp_path):
    write_arrays(tmp_path / "best.npz", {"W": np.ones(2)})
    assert stat.S_IMODE((tmp_path / "best.npz").stat().st_mode) == 0o644


def test_a_long_name_fits(tmp_path):
    """As long as the system allows: the file written beside needs no longer one."""
    path = tmp_path / ("n" * 251 + ".npz")
    write_arrays(path, {"W": np.ones(2)})
    assert path.exists()


def test_memory_is_asked_for_before_it_is_used(monkeypatch):
    free = available()
    assert free > 0
    require(1.0, "a byte")
    monkeypatch.setattr("attsvm._utils.memory.available", lambda: 2e9)
    with pytest.raises(TooLarge, match=r"^X would need about 1.9 GB of memory and 2 GB are free"):
        require(1.9e9, "X")  # not the last of it
    require(1e9, "X")


def test_a_container_has_its_own_limit(tmp_path):
    assert memory._of_the_group(tmp_path) == float("inf")
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert memory._of_the_group(tmp_path) == 3000.0
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._of_the_group(tmp_path) == float("inf")


def test_a_system_that_does_not_say_how_much_memory_is_free(monkeypatch):
    def no_file(*names, **options):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", no_file)
    monkeypatch.setattr(memory, "_of_the_group", lambda: float("inf"))
    monkeypatch.setattr(os, "sysconf", lambda name: 3)
    assert available() == 9.0
    monkeypatch.delattr(os, "sysconf")
    assert available() == float("inf")
