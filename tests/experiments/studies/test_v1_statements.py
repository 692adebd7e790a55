"""What the claims on v1's local statements compute, against hand-made cases and brute force."""

from fractions import Fraction

import numpy as np
import pytest

from attsvm.experiments.families import drawn
from attsvm.experiments.statements.losses import best_attention
from attsvm.experiments.studies.b.local_if_and_only_if import cone_as_stated
from attsvm.experiments.studies.b.regularization_path import Orders, least_in_cone
from attsvm.experiments.studies.b.solutions import derived, sharper
from attsvm.experiments.studies.shared.plain_descent import smoothness
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve


def test_constants_of_the_stated_cone_on_a_line():
    tokens = Tokens([[[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]]], labels=[1.0])
    v = np.array([1.0, 0.0])
    best = solve(Problem.of(tokens, [0]))
    cone = cone_as_stated(tokens, v, np.array([0]), best, edges=3, seed=0)
    # Θ = A = 1; the second token is tight and the third has margin 2, so that δ = 1/2.
    assert cone.mu == pytest.approx(1 / 32)
    assert cone.radius == pytest.approx(2 * np.log(64 * 3 * 2))
    W = cone.starts
    assert np.linalg.norm(W, axis=(1, 2)) == pytest.approx(cone.radius)
    assert W[:, 0, 0] / cone.radius == pytest.approx(1 - 1 / 32)
    # ‖X‖ = √2 and ‖v‖ = ‖z‖ = 1.
    assert smoothness(tokens, v) == pytest.approx(2**1.5 * (2**0.5 / 4 + 3))


def depth_by_loops(orders, W):
    tokens = orders.tokens
    scores = tokens.scores(orders.v)
    found = []
    for i, a in enumerate(orders.alpha):
        logit = [float(x @ W @ tokens.queries[i]) for x in np.asarray(tokens.X)[i]]
        low = [t for t in range(tokens.T) if scores[i, t] < scores[i, a]]
        high = [t for t in range(tokens.T) if t != a and scores[i, t] >= scores[i, a]]
        if high:
            found.append(
                max((min(logit[t] - logit[u] for u in high) for t in low), default=-np.inf)
            )
    return min(found, default=np.inf)


@pytest.mark.parametrize("alpha", [(0, 0), (1, 0), (2, 3)])
def test_depth_is_the_min_max_min(alpha):
    tokens, v = drawn([2, 4, 3], 1)
    orders = Orders.of(tokens, v, np.array(alpha))
    for W in np.random.default_rng(0).standard_normal((20, 3, 3)):
        assert orders.depth(W) == pytest.approx(depth_by_loops(orders, W))


def test_no_point_of_the_cone_is_shorter_and_low_losses_need_large_margins():
    tokens, v = drawn([2, 4, 3], 0)
    orders, epsilon = Orders.of(tokens, v, np.array([0, 0])), 0.1
    ways = {t: least_in_cone(orders, t, epsilon, "frobenius") for t in orders.choices()}
    choice, least = min(ways.items(), key=lambda way: way[1])
    V = np.asarray(solve(orders.problem(choice, epsilon * least)).W)
    assert orders.depth(V) >= epsilon * np.linalg.norm(V) * (1 - 1e-6)
    inside = lower = 0
    for k, noise in enumerate(np.random.default_rng(0).standard_normal((1500, 3, 3))):
        W = V + 0.3 * 10.0 ** -(k % 4) * noise
        size = float(np.linalg.norm(W))
        if orders.depth(W) < epsilon * size or orders.margin(W) <= 0:
            continue
        inside += 1
        assert size / orders.margin(W) >= least * (1 - 1e-6)
        R = max(orders.least_radius(epsilon), 50 * least)
        if orders.loss(R / size * W) <= orders.loss(R / least * V):
            lower += 1
            assert orders.margin(R / size * W) >= R / least - orders.constant()
    assert inside > 20 and lower > 0


def test_an_empty_cone_has_no_least_norm():
    tokens, v = drawn([2, 4, 3], 0)
    orders = Orders.of(tokens, v, np.array([0, 0]))
    keys = np.asarray(tokens.keys)
    # No W of norm 1 can part two tokens by more than the longest difference times the query.
    most = max(
        np.linalg.norm(keys[i, s] - keys[i, t]) * np.linalg.norm(tokens.queries[i])
        for i in range(2)
        for s in range(4)
        for t in range(4)
    )
    for choice in orders.choices():
        assert least_in_cone(orders, choice, 1.001 * most, "frobenius") == np.inf


def test_exact_optimum_beats_every_other_attention():
    scores = [Fraction(x) for x in (7, 5, 4, 0)]
    for penalty in (Fraction(1, 2), Fraction(1), Fraction(3), Fraction(20)):
        s = best_attention(scores, penalty)
        assert sum(s) == 1 and min(s) >= 0
        others = np.random.default_rng(0).dirichlet(np.full(4, 0.5), 2000)
        g, lam = np.array([7.0, 5.0, 4.0, 0.0]), float(penalty)
        own = np.array([float(x) for x in s])
        assert (others @ g - lam * (others**2).sum(axis=1)).max() <= g @ own - lam * own @ own
    assert [x > 0 for x in best_attention(scores, Fraction(1))] == [True, False, False, False]


def test_bounds_on_the_dimension():
    assert sharper(4, 3) == 3 and sharper(15, 5) == 8 and sharper(2, 6) == 5
    d = derived(5, 8)
    a = 2 * 7**2 * np.log(40)
    assert d**2 >= a * (d + 5) and (d - 1) ** 2 < a * (d + 4)
