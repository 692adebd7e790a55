"""The papers' problems and their known solutions, as far as the problems themselves go."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import Problem, Selection, Tokens, optimality, solve
from tests.tolerances import EXACTLY, PRINTED, ROUNDING
from tests.zoo import chosen, known, sphere_tokens


def single(score):
    """One input of three planar keys with scores 1, 0.9 and `score`."""
    X = np.array([[[-0.1, 1, 1], [1, 0, 0.9], [0, 0, score]]])
    return Tokens(X, keys=X * [1, 1, 0]), [0.0, 0.0, 1.0]


def test_single_input_solutions():
    tokens, _ = single(0.9)
    for alpha, p, half in (
        (0, [-10 / 101, 100 / 101, 0], 50 / 101),
        (1, [1, 0, 0], 0.5),
        (2, [-1, -1.1, 0], 1.105),
    ):
        best = solve(chosen(tokens, [alpha]))
        assert_allclose(best.W.ravel(), p, atol=EXACTLY)
        assert_allclose(best.upper**2 / 2, half, rtol=EXACTLY)
    assert_allclose(solve(chosen(tokens, [0])).W.ravel()[:2], [-0.09901, 0.99010], atol=PRINTED)


def kept_sets(seed=0):
    """Tokens, two or three kept in each input, and an attention over them."""
    tokens, _ = sphere_tokens(3, 5, 8, seed=seed)
    keep = Selection.of(tokens, [[0, 1], [2, 3, 4], [1, 4]])
    return tokens, keep, np.random.default_rng(seed).uniform(0.1, 1.0, (3, 5))


@pytest.mark.parametrize("seed", range(3))
def test_finite_part_is_orthogonal_to_the_direction(seed):
    tokens, keep, attention = kept_sets(seed)
    finite = solve(Problem.finite(tokens, keep, attention)).require()
    direction = solve(Problem.of(tokens, keep)).require()
    product = float((finite.W * direction.W).sum())
    assert abs(product) <= EXACTLY * finite.upper * direction.upper
    # kept logits differ by the log-ratios of the attention under W_fin, by nothing under W_mm
    keys, z = tokens.X, tokens.queries
    for i, row in enumerate(keep.kept):
        logits = keys[i] @ finite.W @ z[i]
        level = (logits - np.log(attention[i]))[row]
        assert np.ptp(level) <= EXACTLY
        margin = keys[i] @ direction.W @ z[i]
        assert np.ptp(margin[row]) <= EXACTLY
        assert margin[row].min() - margin[~row].max() >= 1 - EXACTLY
    # W_fin lies in the span of the ties
    p = finite.problem
    T = np.einsum("ld,le->lde", p.tie_differences(), p.queries[p.tie_query]).reshape(p.ties, -1)
    rest = finite.W.ravel() - T.T @ np.linalg.lstsq(T.T, finite.W.ravel(), rcond=None)[0]
    assert np.linalg.norm(rest) <= EXACTLY * finite.upper


def test_singletons_are_the_plain_problem():
    tokens, _ = sphere_tokens(3, 4, 6, seed=1)
    lists = Problem.of(tokens, Selection.of(tokens, [[0], [1], [2]]))
    plain = chosen(tokens, [0, 1, 2])
    assert lists.ties == 0 and (lists.rows == plain.rows).all()
    assert solve(lists).upper == solve(plain).upper


@pytest.mark.parametrize(("n", "T", "d"), [(3, 4, 3), (4, 3, 4), (2, 6, 5), (5, 2, 5)])
def test_separable_when_wide_enough(n, T, d):
    # d ≥ max(T − 1, n): every selection of almost every data set is feasible
    assert d >= max(T - 1, n)
    rng = np.random.default_rng([n, T, d])
    for seed in range(5):
        for tokens in (
            sphere_tokens(n, T, d, seed=seed)[0],
            Tokens(rng.standard_normal((n, T, d)), queries="first"),
        ):
            for _ in range(4):
                alpha = rng.integers(T, size=n)
                assert solve(chosen(tokens, alpha)).status == "optimal"


def test_not_always_separable_when_narrow():
    status = [solve(chosen(sphere_tokens(6, 5, 2, seed=s)[0], [0] * 6)).status for s in range(5)]
    assert "infeasible" in status


@pytest.mark.parametrize(("n", "d"), [(2, 5), (5, 5), (4, 3)])
def test_rows_of_the_solution_lie_in_the_span_of_the_queries(n, d):
    for seed in range(4):
        tokens, v = sphere_tokens(n, 3, d, seed=seed)
        best = solve(Problem.of(tokens, Selection.best(tokens, v)))
        if best.status == "infeasible":
            continue
        Q = np.linalg.qr(tokens.queries.T)[0]
        if n < d:
            assert np.linalg.norm(best.W - best.W @ Q @ Q.T) <= ROUNDING * best.upper
        assert best.rank <= min(n, d)
    assert solve(known("frobenius", d=5, dq=4).problem).rank == 4


@pytest.mark.parametrize("norm", ["frobenius", "l3", "nuclear"])
def test_the_best_tokens_are_locally_optimal_when_feasible(norm):
    feasible = 0
    for seed in range(8):
        tokens, v = sphere_tokens(3, 4, 3, seed=seed)
        verdict = optimality(tokens, Selection.best(tokens, v), v, norm)
        if verdict.kind != "infeasible":
            feasible += 1
            assert verdict.kind == "global" and verdict.globally and verdict.locally
            assert verdict.score_gap > 0
    assert feasible >= 4
