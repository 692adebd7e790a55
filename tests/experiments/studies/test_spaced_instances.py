"""Instances in small coordinates are those of R^d: the same runs, the same problems."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attsvm import Problem, Tokens, train
from attsvm.experiments.studies.b.shares_against_dimension import (
    DIMENSIONS_5,
    DIMENSIONS_6,
    FIGURE_5,
    FIGURE_6,
)
from attsvm.experiments.studies.shared import random_instances
from attsvm.experiments.studies.shared.random_instances import picks, spaced
from attsvm.problem.selection import Selection
from attsvm.solvers.solve import solve

SEEDS = range(4)


def full_and_small(monkeypatch, shape):
    """The same draws in the coordinates of R^d and in those of their spans."""
    small = spaced(shape, SEEDS, gap=0.1, start=3)
    monkeypatch.setattr(random_instances, "_basis", lambda vectors: np.eye(vectors.shape[1]))
    return spaced(shape, SEEDS, gap=0.1, start=3), small


@pytest.mark.parametrize("shape", [(3, 2, 12), (5, 5, 10)])
@pytest.mark.parametrize(("family", "norm"), [("W", "frobenius"), ("KQ", "nuclear")])
def test_runs_and_problems_are_the_same(monkeypatch, shape, family, norm):
    full, small = full_and_small(monkeypatch, shape)
    assert small.stack[0].queries.shape[1] == shape[0]
    assert full.stack[0].queries.shape[1] == shape[2]
    best = [Selection.best(d.stack[0], d.heads[0]).indices for d in (full, small)]
    assert_array_equal(*best)
    ends = []
    for drawn in (full, small):
        how = (
            {"init": drawn.weight}
            if family == "W"
            else {"model": "factored", "init": drawn.factors, "width": shape[2]}
        )
        path = train(drawn.stack, head=drawn.heads, lr=0.03, steps=300, **how)
        ends.append((path, path.matrices()[-1]))
    assert_array_equal(ends[0][0].top, ends[1][0].top)
    assert_allclose(ends[0][0].top_attention, ends[1][0].top_attention, rtol=1e-9)
    assert_array_equal(*(picks(d.stack, W) for d, (_, W) in zip((full, small), ends, strict=True)))
    least = [solve(Problem.of(d.stack[0], best[0]), norm).upper for d in (full, small)]
    assert_allclose(*least, rtol=1e-5)


def test_best_scores_are_ahead_and_draws_are_their_own():
    drawn = spaced((6, 6, 5), SEEDS, gap=0.1, start=0)
    for tokens, v in zip(drawn.stack, drawn.heads, strict=True):
        assert isinstance(tokens, Tokens)
        assert_allclose(np.linalg.norm(tokens.X, axis=2), 1.0)
        scores = np.sort(tokens.labels[:, None] * (np.asarray(tokens.X) @ v), axis=1)
        assert (scores[:, -1] - scores[:, -2] >= 0.1).all()
    again = spaced((6, 6, 5), [2], gap=0.1, start=0)
    assert_array_equal(again.stack[0].X, drawn.stack[2].X)
    assert_array_equal(again.weight["W"][0], drawn.weight["W"][2])
    assert np.abs(drawn.weight["W"]).max() <= 1 / np.sqrt(5)


def test_accepted_inputs_have_the_law_of_whole_draws():
    # An input of two tokens in the plane passes when the scores of two angles are 0.1 apart.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 2, 2))
    scores = (X / np.linalg.norm(X, axis=2, keepdims=True))[:, :, 0]
    passed = scores[np.abs(scores[:, 0] - scores[:, 1]) >= 0.1]
    drawn = spaced((20, 2, 2), range(200), gap=0.1, start=0)
    ours = np.concatenate(
        [t.labels[:, None] * (np.asarray(t.X) @ v) for t, v in zip(*drawn[:2], strict=True)]
    )
    assert_allclose(ours.max(axis=1).mean(), passed.max(axis=1).mean(), atol=0.03)
    assert_allclose(ours.min(axis=1).mean(), passed.min(axis=1).mean(), atol=0.03)


def test_the_tables_are_whole():
    assert all(len(row) == len(DIMENSIONS_5) for row in FIGURE_5.values())
    assert all(len(row) == len(DIMENSIONS_6) for row in FIGURE_6.values())
    for family in ("W", "KQ"):
        parts = (np.array(FIGURE_5[family, end]) for end in ("not local", "global", "local"))
        outside, best, local = parts
        # Bars are read to 0.001, and what is neither is a few in a hundred.
        assert (outside + local <= 1.001).all() and (outside + local >= 0.98).all()
        assert (best <= local).all()
        # One setting stands in both figures, with other draws.
        for d in (5, 10, 20):
            other = FIGURE_6[family, 5, 5][DIMENSIONS_6.index(d)]
            assert abs(best_at(family, d) - other) < 0.03


def best_at(family, d):
    return FIGURE_5[family, "global"][DIMENSIONS_5.index(d)]
