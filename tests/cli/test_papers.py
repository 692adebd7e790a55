"""The papers' values, read off the command line."""

import numpy as np
import pytest

from attsvm.datasets import EXAMPLES
from tests.tolerances import GAP

# Published with five digits after the point.
FIVE_DIGITS = 0.5e-5


def solved(run, name: str, *words: str) -> dict:
    """The report of `solve --json` on this example."""
    assert run("example", name, "--out", "tokens.npz").code == 0
    done = run("solve", "tokens.npz", "--json", *words)
    assert done.code == 0 and done.err == "", done
    assert done.report["status"] == "optimal"
    assert done.report["gap"] <= GAP
    return done.report


@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("single-input-global", 0.49505),
        ("single-input-local", 0.49505),
        ("multi-input", 0.31319),
        ("multi-input-planar", 0.37134),
    ],
)
def test_half_squared_norm_of_the_prompt(run, name, half):
    report = solved(run, name)
    assert 0.5 * report["value"] ** 2 == pytest.approx(half, abs=FIVE_DIGITS)
    assert report["lower"] <= report["value"] <= report["upper"]


def test_prompt_of_one_input(run):
    report = solved(run, "single-input-global")
    assert np.ravel(report["W"]) == pytest.approx([-0.09901, 0.99010, 0.0], abs=FIVE_DIGITS)
    assert sorted(report["tight"]["rows"]) == [[0, 0, 2]]
    assert report["rank"] == 1


@pytest.mark.parametrize(
    ("name", "problem", "answer"),
    [
        ("joint-tight", "selection", (4 / 3, 1 / 3)),
        ("joint-tight", "relaxed", (4 / 3, 1 / 3)),
        ("joint-tight", "labels", (0, 1)),
        ("joint-relaxed", "selection", (1.25, 0.25)),
        ("joint-relaxed", "relaxed", (1, 0)),
        ("joint-relaxed", "labels", (0, 1)),
    ],
)
def test_prompt_and_decoder_together(run, name, problem, answer):
    report = solved(run, name, "--problem", problem)
    assert np.ravel(report["W"]) == pytest.approx(answer, abs=GAP)
    assert report["value"] == pytest.approx(np.hypot(*answer), rel=GAP)
    assert report["problem"] == problem


def test_vocabulary(run):
    """e_next − e_other on an orthonormal vocabulary of 20: norm √19, W = a permutation centred."""
    report = solved(run, "vocabulary")
    assert report["upper"] == pytest.approx(np.sqrt(19), rel=GAP)
    W = np.roll(np.eye(20), 1, axis=0) - 1 / 20
    assert np.array(report["W"]) == pytest.approx(W, abs=1e3 * GAP)


def test_optima_when_only_the_best_token_is_optimal(run):
    run("example", "single-input-global", "--out", "tokens.npz")
    report = run("optima", "tokens.npz", "--json").report
    assert {tuple(row["alpha"]): row["local"] for row in report["list"]} == {
        (0,): "yes",
        (1,): "no",
        (2,): "no",
    }
    assert [row["alpha"] for row in report["list"] if row["global"]] == [[0]]
    assert [found["alpha"] for found in report["optima"]] == [[0]]
    assert (report["selections"], report["feasible"], report["locally_optimal"]) == (3, 3, 1)


def test_optima_when_a_second_token_is_locally_optimal(run):
    run("example", "single-input-local", "--out", "tokens.npz")
    report = run("optima", "tokens.npz", "--json").report
    local = {tuple(row["alpha"]): row["local"] for row in report["list"]}
    assert local == {(0,): "yes", (1,): "yes", (2,): "no"}
    assert {tuple(found["alpha"]): found["kind"] for found in report["optima"]} == {
        (0,): "global",
        (1,): "local",
    }
    assert report["best"] == [0]
    norms = {tuple(row["alpha"]): row["norm"] for row in report["list"]}
    assert norms[(0,)] == pytest.approx(1.01**-0.5, rel=GAP)
    assert norms[(1,)] == pytest.approx(1.0, rel=GAP)


def test_optima_in_another_norm(run):
    """Token 0 asks for −0.1 p₁ + p₂ ≥ 1 and more; max |p| is least, 10/11, at p = (−10, 10)/11."""
    run("example", "single-input-global", "--out", "tokens.npz")
    report = run("optima", "tokens.npz", "--norm", "max", "--json").report
    norms = {tuple(row["alpha"]): row["norm"] for row in report["list"]}
    assert norms[(0,)] == pytest.approx(10 / 11, rel=GAP)
    assert report["norm"] == "max"


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_solved(run, name):
    wrote = run("example", name, "--out", "tokens.npz", "--json")
    assert wrote.code == 0
    with np.load("tokens.npz", allow_pickle=False) as file:
        shapes = {key: list(file[key].shape) for key in file.files}
    assert wrote.report["arrays"] == shapes
    report = run("solve", "tokens.npz", "--json").report
    assert report["status"] == "optimal" and report["gap"] <= GAP


def test_the_sphere_takes_a_seed(run):
    for seed in (3, 3, 4):
        assert run("example", "sphere", "--seed", seed, "--out", "s.npz", "--force").code == 0
        with np.load("s.npz") as file:
            X = file["X"]
        assert np.array_equal(X, EXAMPLES["sphere"](seed=seed)["X"])
        assert np.linalg.norm(X, axis=2) == pytest.approx(np.ones((6, 8)))


def test_solution_file(run):
    report = solved(run, "multi-input", "--out", "best.npz")
    with np.load("best.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    assert {"W", "multipliers", "rows", "ties", "tie_multipliers", "lower", "upper"} <= set(arrays)
    assert arrays["W"].tolist() == report["W"]
    assert arrays["rows"].tolist() == report["rows"]
    assert arrays["rows"].shape == (18, 3) and arrays["ties"].shape == (0, 3)
    assert float(arrays["lower"]) == report["lower"]
