"""What the claims on plain descent rest on, by other means: differences, long runs, all subsets."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm.experiments.families import drawn, equal_scored
from attsvm.experiments.studies.shared.plain_descent import (
    below_level,
    contradicting_start,
    leading_subsets,
    least_descent_within,
    loss_and_pull,
    own_descent,
    proved_end,
    random_starts,
    reached_norm,
    second_bound,
    smoothness,
    three_inputs,
    two_inputs,
)
from attsvm.experiments.studies.shared.random_instances import best_problem
from attsvm.problem.selection import Selection
from attsvm.solvers.solve import solve


def pulled(tokens, v, W):
    return loss_and_pull(tokens, v, W)[1]


def test_the_pull_is_the_slope_of_the_loss():
    tokens, v = drawn((3, 4, 5), 0)
    draw = np.random.default_rng(0)
    W, D = draw.standard_normal((2, 5, 5))
    step = 1e-5
    slope = (
        loss_and_pull(tokens, v, W + step * D)[0] - loss_and_pull(tokens, v, W - step * D)[0]
    ) / (2 * step)
    assert -slope == pytest.approx(float(np.vdot(pulled(tokens, v, W), D)), rel=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_the_slope_of_the_gradient_is_at_most_smoothness(seed):
    tokens, v = drawn((3, 4, 5), seed)
    draw = np.random.default_rng(seed)
    most = 0.0
    for _ in range(200):
        W = draw.uniform(0, 4) * draw.standard_normal((5, 5))
        D = draw.standard_normal((5, 5))
        D *= 1e-4 / np.linalg.norm(D)
        change = np.linalg.norm(pulled(tokens, v, W + D) - pulled(tokens, v, W - D))
        most = max(most, float(change) / 2e-4)
    assert 0 < most <= smoothness(tokens, v)


def test_each_run_of_a_stack_takes_its_own_step():
    pairs = [drawn((3, 4, 5), seed) for seed in range(3)]
    stack, heads = [t for t, _ in pairs], np.stack([v for _, v in pairs])
    starts = random_starts(range(3), (3, 4, 5), widest=2.0, start=0)
    found = own_descent(stack, heads, starts, steps=50)
    for b, (tokens, v) in enumerate(pairs):
        W, lr = starts[b], 1 / smoothness(tokens, v)
        for _ in range(50):
            W = W + lr * pulled(tokens, v, W)
        np.testing.assert_allclose(found.W[-1, b], W, rtol=1e-9, atol=1e-12)
        alone = own_descent([tokens], heads[b : b + 1], starts[b : b + 1], steps=50)
        np.testing.assert_allclose(alone.W[:, 0], found.W[:, b], rtol=1e-12, atol=1e-15)


def test_a_random_start_depends_on_its_seed_alone():
    starts = random_starts([4, 5], (3, 4, 5), widest=2.0, start=1)
    alone = random_starts([5], (3, 4, 5), widest=2.0, start=1)
    assert (starts[1] == alone[0]).all() and (starts[0] != starts[1]).all()


def test_other_scores_are_equal_to_the_last_bit():
    for seed in range(20):
        tokens, v = equal_scored((3, 4, 5), seed)
        scores = np.sort(np.asarray(tokens.labels)[:, None] * (np.asarray(tokens.X) @ v), axis=1)
        assert (scores[:, 0] == scores[:, -2]).all() and (scores[:, -2] < scores[:, -1]).all()


@pytest.mark.parametrize("R", [2.8, 3.0, 6.0])
@pytest.mark.parametrize("lr", [1 / 90, 4.0])
def test_the_second_coordinate_keeps_to_its_bound(R, lr):
    bound = second_bound(R, lr)
    assert np.isfinite(bound)
    u, w = R, 0.0
    for _ in range(20_000):
        s, t = 1 / (1 + np.exp(-u)), 1 / (1 + np.exp(2 * u - w))
        c, d = s * (1 - s) / (1 + np.exp(s)), t * (1 - t) / (1 + np.exp(t))
        u, w = u + lr / 2 * (c - 2 * d), w + lr / 2 * d
    assert w <= bound
    # With long steps the sum is nearly spent: the bound is no loose one.
    assert lr < 1 or w >= 0.2 * bound


def test_the_examples_are_what_their_words_say():
    tokens, v = two_inputs()
    assert np.asarray(solve(best_problem(tokens, v)).W)[:, 0] == pytest.approx([1.0, 3.0])
    far = np.array([[6.0, 0.0], [0.0, 0.0]])
    assert proved_end(tokens, v, far) == "elsewhere"
    assert second_bound(1.0, 1 / 90) == np.inf  # there the run finds the best tokens
    assert proved_end(tokens, v, 10 * np.outer([1.0, 3.0], [1.0, 0.0])) == "best"
    tokens, v = three_inputs()
    assert tokens.scores(v).tolist() == [[2.0, 0.0], [0.5, 0.0], [0.125, 0.0]]
    assert (best_problem(tokens, v).margins(pulled(tokens, v, np.zeros((3, 3)))) > 0.03).all()


def test_a_contradicting_start_follows_a_leading_subset():
    found = 0
    for seed in range(12):
        tokens, v = equal_scored((2, 2, 2), seed)
        start = contradicting_start(tokens, v)
        if np.isnan(start).any():
            continue
        assert leading_subsets(tokens, v)
        found += 1
        X, z = np.asarray(tokens.X), tokens.queries
        logits = np.einsum("ntd,de,ne->nt", X, start, z)
        assert (logits.argmax(axis=1) != Selection.best(tokens, v).indices).any()
        # With two tokens a solution of one input is along its row.
        rows = [
            np.outer(X[i, t] - X[i, 1 - t], z[i])
            for i, t in enumerate(Selection.best(tokens, v).indices)
        ]
        cosines = [np.vdot(start, a) / np.linalg.norm(start) / np.linalg.norm(a) for a in rows]
        assert max(cosines) == pytest.approx(1.0)
    assert found >= 1
    assert leading_subsets(*equal_scored((1, 4, 3), 0)) == []  # one input has none


def test_descent_along_the_solution_is_at_least_its_bound():
    tokens, v = equal_scored((3, 4, 4), 1)
    best = np.asarray(solve(best_problem(tokens, v)).W)
    draw = np.random.default_rng(0)
    for r in (0.1, 1.0, 4.0):
        least = least_descent_within(tokens, v, r)
        for _ in range(100):
            W = draw.standard_normal((4, 4))
            W *= r / np.linalg.norm(W)
            assert float(np.vdot(pulled(tokens, v, W), best)) >= least > 0


def test_the_norm_that_must_be_reached_grows_and_is_reached():
    tokens, v = equal_scored((3, 3, 4), 0)
    size = float(np.linalg.norm(np.asarray(solve(best_problem(tokens, v)).W)))
    asked = [reached_norm(tokens, v, size=size, start=0.0, way=way) for way in (10.0, 1e3, 1e5)]
    assert 0 < asked[0] < asked[1] < asked[2]
    W, lr, largest = np.zeros((4, 4)), 1 / smoothness(tokens, v), 0.0
    for _ in range(2000):
        W = W + lr * pulled(tokens, v, W)
        largest = max(largest, float(np.linalg.norm(W)))
    assert largest >= reached_norm(tokens, v, size=size, start=0.0, way=2000 * lr)


def test_below_the_level_every_best_token_has_over_half():
    tokens, v = drawn((3, 4, 6), 3)
    best = np.asarray(solve(best_problem(tokens, v)).W)
    draw = np.random.default_rng(0)
    under = 0
    for _ in range(3000):
        W = draw.uniform(0, 12) * best + draw.uniform(0, 3) * draw.standard_normal((6, 6))
        at = below_level(tokens, v, W)
        if at.excess < at.allowed:
            under += 1
            assert at.least > 0.5
    assert under > 100
