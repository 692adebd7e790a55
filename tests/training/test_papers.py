"""The papers' synthetic runs, by `train`: selections and directions as published."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import Problem, Selection, Tokens, solve
from attsvm.data import EXAMPLES
from attsvm.training import train

STARTS = (1.0, 0.5, 0.0, -0.5, -1.0, -1.5)


def cosine(a, b):
    """The cosine of two arrays."""
    a, b = np.ravel(a), np.ravel(b)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def prompt_tokens(name):
    """The tokens of a prompt example, and its head."""
    arrays = EXAMPLES[name]()
    return Tokens(arrays["X"], keys=arrays.get("keys"), labels=arrays["y"]), arrays["v"]


@pytest.mark.parametrize("start", STARTS)
def test_single_input_goes_to_the_best_token_from_everywhere(start):
    tokens, v = prompt_tokens("single-input-global")
    path = train(tokens, model="prompt", head=v, steps=1000, init={"p": [0.0, start, 0.0]})
    assert path.selection.tolist() == [[0]]
    assert cosine(path.weights["p"][-1], [-0.1, 1.0, 0.0]) > 0.9996


@pytest.mark.parametrize("start", STARTS)
def test_single_input_has_two_basins_when_the_second_token_is_locally_optimal(start):
    tokens, v = prompt_tokens("single-input-local")
    path = train(tokens, model="prompt", head=v, steps=1000, init={"p": [0.0, start, 0.0]})
    kept = 1 if start <= -1 else 0
    assert path.selection.tolist() == [[kept]]
    assert cosine(path.weights["p"][-1], [[-0.1, 1, 0], [1, 0, 0]][kept]) > 0.9994


@pytest.mark.parametrize("start", STARTS)
def test_multi_input_reaches_the_certified_direction(start):
    tokens, v = prompt_tokens("multi-input-planar")
    path = train(tokens, model="prompt", head=v, steps=1000, init={"p": [0.0, start, 0.0]})
    best = solve(Problem.of(tokens, Selection.best(tokens, v)))
    assert path.selection.tolist() == [[0, 0, 0]]
    assert cosine(path.weights["p"][-1], best.W) > 0.9996


def test_normalized_steps_grow_linearly_and_plain_steps_slowly():
    tokens, v = prompt_tokens("multi-input-planar")
    plain = train(tokens, model="prompt", rule="gd", head=v, lr=1.0, steps=200)
    normalized = train(tokens, model="prompt", rule="ngd", head=v, lr=0.1, steps=200)
    size = np.linalg.norm(normalized.weights["p"][:, 0], axis=1)
    assert size[-1] == pytest.approx(0.1 * 200, rel=0.02)
    assert np.linalg.norm(plain.weights["p"][-1]) < 0.4 * size[-1]
    assert plain.sureness[-1].min() < normalized.sureness[-1].min()


@pytest.mark.parametrize(
    ("name", "limit"), [("joint-tight", (4 / 3, 1 / 3)), ("joint-relaxed", (1, 0))]
)
def test_joint_training_finds_the_tight_and_the_relaxed_prompt(name, limit):
    arrays = EXAMPLES[name]()
    tokens = Tokens(arrays["X"], labels=arrays["y"])
    start = {"p": arrays["p0"], "v": arrays["v0"]}
    path = train(tokens, model="joint-prompt", steps=1000, init=start)
    assert path.selection.tolist() == [[1, 1, 1]]
    assert cosine(path.weights["p"][-1], limit) > 0.9997
    assert cosine(path.weights["v"][-1], (0, 1)) > 0.9999


@pytest.mark.parametrize("loss", ["linear", "logistic"])
@pytest.mark.parametrize("gain", [1.0, 3.0, 10.0])
def test_both_losses_share_the_limit(loss, gain):
    X = np.array([[[0.0, 0, 0], [1, 1, gain]], [[0, 0, 0], [1, -1, 1]]])
    tokens = Tokens(X, keys=X * [1, 1, 0], labels=[1, 1])
    path = train(tokens, model="prompt", head=[0, 0, 1], loss=loss, steps=4000)
    assert cosine(path.weights["p"][-1], (1, 0, 0)) > 0.999


def test_mirror_descent_joint_selects_as_published():
    X = [[[-2.7, 1.2], [1.4, 2.1], [1.3, -0.1]], [[0.4, -2.2], [-1.1, -0.4], [0.9, 0.1]]]
    tokens = Tokens(X, queries="first", labels=[1, -1])
    chosen = {
        p: train(tokens, model="joint-weight", rule=f"nmirror:{p}", steps=steps).selection.tolist()
        for p, steps in (("1.75", 1500), ("2", 2000), ("3", 4000))
    }
    assert chosen == {"1.75": [[1, 0]], "2": [[1, 0]], "3": [[0, 0]]}
