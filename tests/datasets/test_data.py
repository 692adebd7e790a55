"""The shipped instances: well-formed problem files, with what the papers say of them."""

import numpy as np
import pytest

from attsvm import Selection, Tokens, solve
from attsvm._utils.files import write_arrays
from attsvm.cli.problem_file import KNOWN, read_problem
from attsvm.datasets import EXAMPLES
from attsvm.datasets.random.torch_random import TorchRandom
from tests.tolerances import ROUNDING


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_problem_file(name, tmp_path):
    arrays = EXAMPLES[name]()
    assert set(arrays) <= set(KNOWN)
    write_arrays(tmp_path / "tokens.npz", arrays)
    archive = read_problem(tmp_path / "tokens.npz")
    assert all(np.array_equal(archive.arrays[key], array) for key, array in arrays.items())
    assert solve(archive.problem()).require().verify().ok


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_the_same_every_time_and_not_shared(name):
    first = EXAMPLES[name]()
    kept = {key: np.array(array) for key, array in first.items()}
    for array in first.values():
        array *= 0  # a caller may write to what it was given
    again = EXAMPLES[name]()
    assert all(np.array_equal(again[key], kept[key]) for key in kept)


def test_the_score_coordinate_is_no_key():
    for name in ("single-input-global", "single-input-local", "multi-input-planar"):
        arrays = EXAMPLES[name]()
        assert not arrays["keys"][:, :, 2].any()
        assert np.array_equal(arrays["keys"][:, :, :2], arrays["X"][:, :, :2])


def test_scores_of_the_single_input():
    for name, last in (("single-input-global", 0.9), ("single-input-local", 0.0)):
        arrays = EXAMPLES[name]()
        scores = Tokens(arrays["X"], labels=arrays["y"]).scores(arrays["v"])
        assert scores == pytest.approx(np.array([[1.0, 0.9, last]]))


def test_the_third_input_supports_the_decoder_or_not():
    """v = (0, 1) meets the first two labels with equality; the third with 1 or 1.5."""
    for name, third in (("joint-tight", 1.0), ("joint-relaxed", 1.5)):
        arrays = EXAMPLES[name]()
        chosen = arrays["X"][np.arange(3), arrays["alpha"]]
        assert (arrays["y"] * (chosen @ [0.0, 1.0])).tolist() == [1.0, 1.0, third]


def test_clouds_of_the_path_pictures():
    first, second = EXAMPLES["path-picture-1"](), EXAMPLES["path-picture-2"]()
    for arrays in (first, second):
        assert np.linalg.norm(arrays["v"]) == pytest.approx(1.0)
        assert np.linalg.norm(arrays["z"], axis=1) == pytest.approx(np.ones(2))
    assert second["X"][:, 0].tolist() == [[1.0, 0.5], [1.0, -0.5]]


def test_the_vocabulary_asks_for_the_next_token():
    arrays = EXAMPLES["vocabulary"]()
    assert np.array_equal(arrays["X"][7], np.eye(20)) and np.array_equal(arrays["z"], np.eye(20))
    assert arrays["alpha"].tolist() == [*range(1, 20), 0]


def test_the_sphere():
    arrays = EXAMPLES["sphere"](4, 5, 6, seed=11)
    assert arrays["X"].shape == (4, 5, 6) and arrays["z"].shape == (4, 6)
    for array in (arrays["X"], arrays["z"], arrays["v"]):
        size = np.linalg.norm(array, axis=-1)
        assert size == pytest.approx(np.ones_like(size), rel=ROUNDING)
    assert set(arrays["y"].tolist()) <= {-1.0, 1.0}
    assert not np.array_equal(arrays["X"], EXAMPLES["sphere"](4, 5, 6, seed=12)["X"])
    tokens = Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
    assert Selection.best(tokens, arrays["v"]).single


# torch.manual_seed(0); torch.randn(3), as printed by torch, and the first of randn(16).
def test_torch_normals_from_their_seed():
    assert TorchRandom(0).randn(3) == pytest.approx([1.5410, -0.2934, -2.1788], abs=5e-5)
    first = TorchRandom(0).randn(16)[:4]
    assert first == pytest.approx([-1.1258, -1.1524, -0.2506, -0.4339], abs=5e-5)


def test_torch_normals_look_normal():
    """Mean, variance and fourth moment of 40 000 draws, within five standard errors."""
    draws = TorchRandom(5).randn(40_000)
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (4, 3, 96)):
        error = abs((draws**power).mean() - moment)
        assert error < 5 * np.sqrt(spread / len(draws))
    # Sizes that are no multiple of 16 draw their last 16 again.
    assert np.array_equal(TorchRandom(5).randn(20)[:4], TorchRandom(5).randn(32)[:4])
    assert not np.array_equal(TorchRandom(5).randn(20)[4:], TorchRandom(5).randn(32)[4:20])
