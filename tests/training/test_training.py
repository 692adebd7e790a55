"""The training loop: exactness far out, stacks, clocks, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import BadTokens, ConvergenceWarning, Problem, Selection, Tokens, Unsupported, solve
from attsvm.api import train
from attsvm.training.path import recorded
from tests.training.stacks import stack


def correlations(path, tokens):
    """The correlation of each final W with the certified solution of its own selection."""
    out = []
    for b, (W, t) in enumerate(zip(path.matrices()[-1], tokens, strict=True)):
        best = solve(Problem.of(t, Selection.of(t, path.selection[b])))
        out.append(np.vdot(W, best.W) / (np.linalg.norm(W) * np.linalg.norm(best.W)))
    return np.array(out)


def test_directions_stay_right_far_past_the_range_of_floats():
    tokens, heads = stack(20)
    path = train(tokens, head=heads, lr=1.0, steps=3000, init="uniform")
    assert np.isfinite(path.matrices()[-1]).all()
    assert np.median(path.log_gradient[-1]) < np.log(1e-300)
    assert np.median(correlations(path, tokens)) > 0.9999


def test_the_plain_formula_is_wrong_where_ours_is_right():
    tokens, heads = stack(6)
    path = train(tokens, head=heads, lr=1.0, steps=1000, init="uniform")
    ours = correlations(path, tokens)
    plain = []
    for b, t in enumerate(tokens):
        W, X, z, y = path.at(0)["W"][b], t.X, t.queries, t.labels
        for _ in range(1000):
            h = np.einsum("ntd,de,ne->nt", X, W, z)
            s = np.exp(h - h.max(axis=1, keepdims=True))
            s /= s.sum(axis=1, keepdims=True)
            score = y[:, None] * (X @ heads[b])
            f = (s * score).sum(axis=1)
            C = -s * (score - f[:, None]) / (1 + np.exp(f))[:, None]
            G = np.einsum("nt,ntd,ne->de", C, X, z)
            size = np.linalg.norm(G)
            W = W - G / size if size > 0 else W
        best = solve(Problem.of(t, Selection.of(t, path.selection[b])))
        plain.append(np.vdot(W, best.W) / (np.linalg.norm(W) * np.linalg.norm(best.W)))
    assert np.median(ours) > 0.999
    assert np.median(plain) < 0.95  # rounding noise has become full steps


def test_a_stack_is_its_instances_one_by_one():
    tokens, heads = stack(3)
    together = train(tokens, head=heads, steps=50)
    for b, t in enumerate(tokens):
        alone = train(t, head=heads[b], steps=50)
        np.testing.assert_allclose(alone.matrices()[:, 0], together.matrices()[:, b], atol=1e-13)


def test_the_grid_of_records_does_not_depend_on_the_end():
    assert [s for s in range(12) if recorded(s)] == [*range(12)]
    assert 80 < sum(recorded(s) for s in range(1000)) < 140


def test_the_clock_of_plain_descent_counts_its_own_time():
    tokens, heads = stack(2)
    path = train(tokens, optimizer="gd", head=heads, lr=0.5, steps=100)
    expected = 0.5 * np.stack([path.steps[1:]] * 2, axis=1)
    np.testing.assert_allclose(np.exp(path.clock[1:]), expected, rtol=1e-12)


def test_bad_input_is_one_sentence():
    tokens, heads = stack(1)
    with pytest.raises(BadTokens, match="needs a prediction head"):
        train(tokens)
    with pytest.raises(BadTokens, match="labels are missing"):
        train(Tokens(tokens[0].X), model="prompt", head=heads[0])
    with pytest.raises(Unsupported, match="trains its own prediction head"):
        train(tokens, model="joint-weight", head=heads)
    with pytest.raises(Unsupported, match="unknown model"):
        train(tokens, model="weights", head=heads)
    with pytest.raises(Unsupported, match="unknown optimizer"):
        train(tokens, optimizer="sgd", head=heads)
    with pytest.raises(Unsupported, match="unknown loss"):
        train(tokens, head=heads, loss="hinge")
    with pytest.raises(BadTokens, match="stationary point"):
        train(tokens, model="factored", head=heads, init="zero")
    with pytest.raises(Unsupported, match="prompt model"):
        train(tokens, model="prompt", head=heads)


def test_a_step_size_that_diverges_says_when_and_keeps_the_records():
    tokens, heads = stack(1)
    with pytest.warns(ConvergenceWarning, match=r"left the range of floats with lr 1e\+08"):
        path = train(tokens, optimizer="mirror:1.01", head=heads, lr=1e8, steps=10, init="normal:1")
    assert path.diverged >= 0
    assert path.steps[-1] <= path.diverged and np.isfinite(path.matrices()).all()


def test_the_attended_selection_is_that_of_the_path():
    tokens, heads = stack(2)
    path = train(tokens, head=heads, steps=200)
    for b in range(2):
        kept = Selection.attended(path, instance=b)
        assert kept.origin == "attention"
        np.testing.assert_array_equal(kept.indices, path.selection[b])
        assert Problem.of(tokens[b], kept).m == 6 * 7
