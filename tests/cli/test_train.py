"""`attsvm train`: the run, its comparison with the limit, what it writes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm.data import EXAMPLES
from attsvm.path import Path
from tests.cli.command import refused, save


def problem(folder, name="multi-input-planar", **changes):
    """A problem file of the papers."""
    return save(folder / "tokens.npz", **{**EXAMPLES[name](), **changes})


def test_a_prompt_run_ends_locally_optimal_at_its_limit(run, tmp_path):
    file = problem(tmp_path)
    done = run("train", file, "--model", "prompt", "--steps", "1500", "--json")
    report = done.report
    assert done.code == 0
    assert report["selection"] == [0, 0, 0]
    assert report["state"] == "locally optimal"
    assert report["limit"] == {"norm": "frobenius", "status": "conjectured"}
    assert report["correlation"] > 0.9995 and report["margin_share"] > 0.98
    assert report["certificate"]["gap"] < 1e-8
    assert report["log10_gradient_norm"] < -30


def test_until_a_certified_margin_share(run, tmp_path):
    file = problem(tmp_path)
    report = run(
        "train", file, "--model", "prompt", "--until", "0.9", "--steps", "5000", "--json"
    ).report
    assert report["margin_share"] >= 0.9 and report["steps"] < 5000


def test_the_path_and_the_figure_are_written(run, tmp_path):
    file = problem(tmp_path, "joint-tight")
    path, figure = tmp_path / "path.npz", tmp_path / "run.svg"
    done = run(
        "train", file, "--model", "joint-prompt", "--init", "file", "--steps", "300",
        "--out", path, "--figure", figure,
    )  # fmt: skip
    assert done.code == 0 and "predicted limit" in done.out
    loaded = Path.load(path)
    np.testing.assert_array_equal(loaded.weights["p"][0, 0], [0, -1])
    assert figure.read_text().startswith("<?xml") and "</svg>" in figure.read_text()
    again = run("train", file, "--model", "joint-prompt", "--out", path)
    refused(again, "exists", "--force")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--model weights", "unknown model"),
        ("--rule sgd --model prompt", "unknown rule"),
        ("--rule mirror:1 --model prompt", "P"),
        ("--loss hinge --model prompt", "unknown loss"),
        ("--init normal:x --model prompt", "positive number"),
        ("--init file --model prompt", "p0"),
        ("--until 2 --model prompt", "share"),
        ("--figure run.gif --model prompt --steps 5", ".svg"),
    ],
)
def test_bad_words_are_refused(run, tmp_path, words, said):
    refused(run("train", problem(tmp_path), *words.split()), said)


def test_a_file_without_labels_or_head_is_refused(run, tmp_path):
    arrays = EXAMPLES["multi-input-planar"]()
    bare = save(tmp_path / "bare.npz", X=arrays["X"], v=arrays["v"])
    refused(run("train", bare, "--model", "prompt"), "labels")
    headless = save(tmp_path / "headless.npz", X=arrays["X"], y=arrays["y"], alpha=[0, 0, 0])
    refused(run("train", headless, "--model", "prompt"), "needs a head")
