"""Runs that `attsvm train` refuses: one sentence, exit code 2, and nothing is written."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import train
from attsvm.datasets import EXAMPLES
from attsvm.problem.tokens import Tokens
from attsvm.training.loop import COLUMNS
from attsvm.training.path import Path
from tests.cli.command import leaves_nothing, problem, refused, save

PLANAR, SPHERE = EXAMPLES["multi-input-planar"](), EXAMPLES["sphere"]()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--model weights", ["unknown model 'weights'", "joint-prompt"]),
        ("--model weight --optimizer sgd", ["unknown optimizer 'sgd'", "adam"]),
        ("--optimizer polyak --loss linear --model joint-prompt", ["finite infimum"]),
        ("--loss hinge --model prompt", ["unknown loss", "logistic"]),
        ("--schedule cosine --model prompt", ["unknown schedule", "sqrt"]),
        ("--init normal:x --model prompt", ["positive number"]),
        ("--init random --model prompt", ["unknown init"]),
        ("--init file --model prompt", ["no array p"]),
        ("--until 0.9 --model prompt", ["unknown --until '0.9'", "proved"]),
        (
            "--until proved --model joint-prompt",
            ["--until proved needs a fixed linear prediction head"],
        ),
        (
            "--until proved --model prompt --head relu",
            ["--until proved needs a fixed linear prediction head"],
        ),
        ("--model factored --init zero", ["exactly zero at the start", "normal:0.1"]),
        ("--lr 0 --model prompt", ["--lr is 0"]),
        ("--lr -1 --model prompt", ["--lr is -1"]),
        ("--lr nan --model prompt", ["--lr is nan"]),
        ("--lr inf --model prompt", ["--lr is inf"]),
        ("--steps -1 --model prompt", ["--steps"]),
        ("--steps many --model prompt", ["--steps"]),
        ("--seed -1 --model prompt", ["--seed"]),
        ("--width 0 --model factored", ["--width"]),
        (
            "--optimizer adam --option beta=0.5 --model prompt",
            ["no option beta", "beta1, beta2, eps"],
        ),
        ("--optimizer adam --option eps --model prompt", ["NAME=VALUE"]),
        ("--optimizer adam --option =1 --model prompt", ["NAME=VALUE"]),
        ("--optimizer adam --option eps= --model prompt", ["NAME=VALUE"]),
        ("--optimizer adam --option eps=small --model prompt", ["'small' is no number"]),
        ("--optimizer adam --option eps=true --model prompt", ["eps", "must be a number"]),
        ("--optimizer muon --option newton_schulz=1 --model prompt", ["must be True or False"]),
        ("--optimizer adam --option eps=0 --option eps=1 --model prompt", ["eps is given twice"]),
        ("--head cubic --model prompt", ["unknown prediction head 'cubic'", "linear, relu"]),
        ("--head quadratic --model prompt", ["no array penalty"]),
        ("--head quadratic --model joint-prompt", ["cannot be trained", "linear, relu"]),
        ("--queries middle", ["--queries is 'middle'", "first or last"]),
        ("--queries last --model prompt", ["prompt model needs tokens without queries"]),
        ("--queries last --sequence", ["give one"]),
        ("--no-causal", ["goes with --sequence"]),
        ("--model prompt --resume nowhere.npz", ["nowhere.npz does not exist"]),
        ("--model prompt --resume tokens.npz", ["tokens.npz is not a saved path"]),
    ],
)
def test_words(run, tmp_path, words, said):
    # Without keys, so that --sequence is not refused for having them.
    file = save(tmp_path / "tokens.npz", **{k: a for k, a in PLANAR.items() if k != "keys"})
    leaves_nothing(run, tmp_path, file, *words.split(), said=said)


@pytest.mark.parametrize(
    ("arrays", "words", "said"),
    [
        ({"y": None}, "", ["no array y", "labels"]),
        ({"y": None}, "--model joint-weight", ["no array y", "labels"]),
        ({"y": [1, 1]}, "", ["y has shape (2,)"]),
        ({"y": np.zeros(6)}, "", ["y[0] is 0"]),
        ({"v": None}, "", ["no array v", "the linear head needs it", "--head linear"]),
        ({"v": None, "penalty": 1.0}, "", ["no array v", "--head quadratic"]),
        ({"v": np.ones(3)}, "", ["v has shape (3,)"]),
        ({"v": np.full(10, np.nan)}, "", ["v[0] is nan"]),
        ({"V": np.ones(10)}, "", ["V has shape (10,)", "(10, width) for the relu prediction head"]),
        ({"V": np.ones((10, 0))}, "", ["V has shape (10, 0)"]),
        ({"V": np.full((10, 2), np.inf)}, "", ["V[0, 0] is inf"]),
        ({"penalty": -1.0}, "", ["penalty is -1"]),
        ({"penalty": [1.0, 2.0]}, "", ["penalty has shape (2,)"]),
        ({"penalty": "small"}, "", ["penalty has type"]),
        ({"X": None}, "", ["no array X"]),
        ({"W": np.ones(3)}, "", ["unknown array 'W'"]),
        ({"z": np.ones((2, 10))}, "", ["z has shape (2, 10)"]),
        (
            {"K0": np.ones((10, 3)), "Q0": np.ones((10, 3))},
            "--model factored --init file",
            ["K has shape (10, 3)", "--width 3"],
        ),
        (
            {"K0": np.ones((10, 3)), "Q0": np.ones((10, 4))},
            "--model factored --init file",
            ["start K has shape (10, 3); it must be"],
        ),
        ({}, "--model prompt", ["prompt model needs tokens without queries"]),
        ({}, "--queries last", ["holds an array z", "--queries"]),
        ({}, "--sequence", ["holds an array z", "--sequence"]),
        ({"z": None, "mask": np.ones((6, 8))}, "--sequence", ["holds an array mask"]),
        ({"z": None, "keys": np.ones((6, 8, 2))}, "--sequence", ["holds an array keys"]),
        ({"z": None}, "--sequence", ["y has shape (6,)", "(48,)"]),
        ({"X": np.ones((6, 8)), "z": None}, "--sequence", ["(S, L, d)"]),
        ({"W0": np.ones((2, 2))}, "--init file", ["W", "(2, 2)"]),
        ({"W0": np.full((10, 10), np.nan)}, "--init file", ["W"]),
    ],
)
def test_files(run, tmp_path, arrays, words, said):
    merged = {**SPHERE, **arrays}
    file = save(tmp_path / "x.npz", **{k: a for k, a in merged.items() if a is not None})
    leaves_nothing(run, tmp_path, file, *words.split(), said=said)


def test_outputs(run, tmp_path):
    file = problem(tmp_path, "sphere")
    kept = tmp_path / "kept.svg"
    kept.write_text("mine")
    for option in ("--out", "--figure"):
        refused(run("train", file, option, kept), "kept.svg exists", "--force")
        refused(run("train", file, option, tmp_path), "is a folder")
        refused(run("train", file, option, "missing/x.svg"), "folder missing does not exist")
    refused(run("train", file, "--out", "path.npz", "--figure", "run.gif"), ".svg, .png, .pdf")
    refused(run("train", file, "--out", "run.svg", "--figure", "run.svg"), "two names")
    assert kept.read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"tokens.npz", "kept.svg"}
    assert run("train", file, "--steps", 3, "--figure", kept, "--force").code == 0
    assert kept.read_text() != "mine"


def test_a_figure_that_cannot_be_drawn_leaves_nothing(run, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    file = problem(tmp_path, "sphere")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    refused(run("train", file, "--steps", 3, "--figure", "run.svg"), "No space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.npz"]


@pytest.fixture
def saved(tmp_path):
    """A problem file and the path of a short run on it."""
    file = save(tmp_path / "tokens.npz", **SPHERE)
    tokens = Tokens(SPHERE["X"], queries=SPHERE["z"], labels=SPHERE["y"])
    train(tokens, head=SPHERE["v"], optimizer="signum", steps=30).save(tmp_path / "half.npz")
    return file


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--lr 0.3", ["--lr differs", "which had 0.1"]),
        ("--model factored", ["--model differs", "which had weight"]),
        ("--optimizer sign", ["--optimizer differs", "which had signum"]),
        ("--seed 1", ["--seed differs"]),
        ("--init file", ["--init differs"]),
        ("--option momentum=0.5", ["--option differs"]),
        ("--head relu", ["other tokens, labels or prediction head"]),
    ],
)
def test_a_resumed_run_goes_on_as_before(run, tmp_path, saved, words, said):
    leaves_nothing(run, tmp_path, saved, "--resume", "half.npz", *words.split(), said=said)


@pytest.mark.parametrize(
    "changes",
    [
        {"X": SPHERE["X"][:, ::-1]},
        {"X": SPHERE["X"][:, :7]},
        {"y": -SPHERE["y"]},
        {"v": 1.001 * SPHERE["v"]},
        {"z": SPHERE["z"][:, :9]},
        {key: SPHERE[key][:5] for key in ("X", "z", "y")},
    ],
)
def test_a_run_on_other_data_is_not_resumed(run, tmp_path, saved, changes):
    other = save(tmp_path / "other.npz", **{**SPHERE, **changes})
    said = ["the path to go on from is a run on", "give it the data it came from"]
    leaves_nothing(run, tmp_path, other, "--resume", "half.npz", said=said)


def test_more_runs_than_one_are_not_resumed(run, tmp_path, saved):
    tokens = Tokens(SPHERE["X"], queries=SPHERE["z"], labels=SPHERE["y"])
    train([tokens, tokens], head=SPHERE["v"], steps=3).save(tmp_path / "two.npz")
    leaves_nothing(run, tmp_path, saved, "--resume", "two.npz", said=["data of another size"])


def test_a_schedule_that_was_a_function_is_not_resumed(run, tmp_path, saved):
    tokens = Tokens(SPHERE["X"], queries=SPHERE["z"], labels=SPHERE["y"])
    path = train(tokens, head=SPHERE["v"], steps=3, schedule=lambda t: 1 / (1 + t))
    path.save(tmp_path / "own.npz")
    leaves_nothing(run, tmp_path, saved, "--resume", "own.npz", said=["schedule"])


def test_a_diverged_run_is_not_resumed(run, tmp_path, saved):
    words = ("--optimizer", "polyak", "--loss", "linear", "--out", "gone.npz")
    assert run("train", saved, *words).code == 0
    step = Path.load(tmp_path / "gone.npz").diverged
    leaves_nothing(
        run, tmp_path, saved, "--resume", "gone.npz", said=[f"diverged at step {step}", "smaller"]
    )


def test_a_path_without_records_is_not_resumed(run, tmp_path, saved):
    """Other broken paths: tests/training/test_saved_paths.py."""
    with np.load(tmp_path / "half.npz", allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    empty = {
        name: array[:0] if name.removeprefix("path.") in (*COLUMNS, "W") else array
        for name, array in arrays.items()
    }
    save(tmp_path / "broken.npz", **empty)
    leaves_nothing(run, tmp_path, saved, "--resume", "broken.npz", said=["broken.npz"])
