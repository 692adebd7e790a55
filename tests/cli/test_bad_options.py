"""Options that cannot be meant: one sentence that says what can, and exit code 2."""

import numpy as np
import pytest

from tests.cli.command import GENERIC, refused, save


@pytest.fixture
def good(tmp_path):
    """A file that can be solved in every way but `finite`."""
    arrays = {"X": GENERIC, "v": np.arange(7.0), "y": [1, -1]}
    return save(tmp_path / "good.npz", **arrays)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--norm euclid", ("'euclid'", "frobenius, nuclear, spectral, max, l1", "l1.75")),
        ("--norm l0.5", ("P > 1",)),
        ("--norm l0", ("P > 1",)),
        ("--norm l-2", ("unknown norm",)),
        ("--norm lP", ("unknown norm",)),
        ("--norm linf", ("unknown norm", "max")),
        ("--norm Frobenius", ("unknown norm",)),
        ("--problem dual", ("'dual'", "selection, labels, relaxed, finite")),
        ("--solver simplex", ("'simplex'", "active-set", "newton")),
        ("--solver interior", ("does not take norm frobenius",)),
        ("--solver newton --norm l1", ("does not take norm l1", "interior")),
        ("--solver active-set --C 1", ("takes no budget C",)),
        ("--C 0", ("C is 0.0",)),
        ("--C -1", ("C is -1.0",)),
        ("--C nan", ("C is nan",)),
        ("--C inf", ("C is inf",)),
        ("--C 1 --problem any", ("--problem any",)),
        ("--solver newton --problem any", ("--problem any",)),
        ("--tol 0", ("tol is 0.0",)),
        ("--tol -1e-8", ("tol is -1e-08",)),
        ("--tol nan", ("tol is nan",)),
        ("--tol inf", ("tol is inf",)),
        ("--tol small", ("--tol",)),
        ("--tol", ("--tol",)),
        ("--nrom l1", ("--nrom",)),
        ("more.npz", ("more.npz",)),
    ],
)
def test_solve_refuses(run, tmp_path, good, words, said):
    refused(run("solve", good, "--out", "best.npz", *words.split()), *said)
    refused(run("solve", good, "--json", *words.split()), *said)
    assert [path.name for path in tmp_path.iterdir()] == ["good.npz"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--norm euclid", ("'euclid'", "frobenius")),
        ("--norm l0.5", ("P > 1",)),
        ("--most 8", ("9 selections", "3 x 3", "more than 8")),
        ("--most 0", ("--most",)),
        ("--rows -1", ("--rows",)),
        ("--rows many", ("--rows",)),
    ],
)
def test_optima_refuses(run, good, words, said):
    refused(run("optima", good, *words.split()), *said)
    refused(run("optima", good, "--json", *words.split()), *said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nosuch --out x.npz", ("'nosuch'", "single-input-global", "sphere")),
        ("sphere", ("--out",)),
        ("sphere --seed -1 --out x.npz", ("--seed",)),
        ("sphere --seed one --out x.npz", ("--seed",)),
        ("joint-tight --seed 1 --out x.npz", ("takes no --seed",)),
        ("", ("name",)),
    ],
)
def test_example_refuses(run, tmp_path, words, said):
    refused(run("example", *words.split()), *said)
    assert list(tmp_path.iterdir()) == []


def test_tour_needs_a_folder(run, good):
    refused(run("tour", "--out", good), "good.npz")


def test_an_option_by_its_old_name_names_the_new_one(run):
    done = run("train", "x.npz", "--rule", "gd")
    assert (done.code, done.out) == (2, "")
    assert done.err == "attsvm: the option --rule is now called --optimizer\n"
