"""Scores that floats cannot tell apart, against rational numbers."""

from fractions import Fraction

import numpy as np
import pytest

import attsvm
from attsvm import BadSelection, Selection, Tokens
from attsvm.problem.selection import exact_gaps
from attsvm.theory.optima import score_gaps


def exact_scores(tokens, v):
    """γ_it in rational numbers, one input."""
    y = 1 if tokens.labels is None else int(tokens.labels[0])
    return [y * sum(Fraction(a) * Fraction(b) for a, b in zip(x, v, strict=True))
            for x in tokens.X[0].tolist()]  # fmt: skip


def near_ties(seed):
    """One input whose tokens nearly, or just, share their score; large offsets, many scales."""
    rng = np.random.default_rng(seed)
    d, T = int(rng.integers(1, 12)), int(rng.integers(2, 5))
    scale = 10.0 ** rng.integers(-70, 70) if seed % 5 == 0 else 1.0
    v = rng.standard_normal(d) * (10.0 ** rng.integers(-70, 3) if seed % 7 == 0 else 1.0)
    x = rng.standard_normal(d) + 10.0 ** rng.integers(-3, 9)
    X = np.repeat(x[None], T, axis=0)
    for t in range(1, T):
        if rng.random() < 0.8:  # the others are off by a few units of the last place
            j = int(rng.integers(d))
            X[t, j] += int(rng.integers(-3, 4)) * np.spacing(X[t, j])
        if rng.random() < 0.3:
            X[t] = rng.permutation(X[t])
    return Tokens(X[None] * scale, labels=[int(rng.choice([-1, 1]))]), v.tolist()


def test_near_ties_against_rational_numbers():
    ties = told = 0
    for seed in range(2000):
        tokens, v = near_ties(seed)
        exact = exact_scores(tokens, v)
        top = max(exact)
        winners = [t for t, score in enumerate(exact) if score == top]
        gaps, _ = score_gaps(tokens, np.array([0]), v)
        assert [np.sign(g) for g in gaps[0]] == [
            (exact[0] > score) - (exact[0] < score) for score in exact
        ]
        if len(winners) > 1:
            with pytest.raises(BadSelection) as said:
                Selection.best(tokens, v)
            named = [int(word) for word in str(said.value).split()[1:4:2]]
            assert set(named) <= set(winners)
            ties += 1
        else:
            assert Selection.best(tokens, v).indices.tolist() == winners
            told += 1
    assert min(ties, told) > 300


def test_gaps_are_correctly_rounded():
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e-200, 1e200):
        high, low, v = rng.standard_normal((3, 9)) * np.array([[scale], [scale], [1.0]])
        wanted = sum(
            (Fraction(a) - Fraction(b)) * Fraction(c)
            for a, b, c in zip(high.tolist(), low.tolist(), v.tolist(), strict=True)
        )
        assert exact_gaps(high[None], low[None], v).tolist() == [float(wanted)]
    assert exact_gaps(np.array([[1e-200]]), np.array([[0.0]]), np.array([-1e-200])).tolist() == [
        -5e-324
    ]


def test_tokens_that_share_a_large_offset():
    """Token 1 scores 1e-9 more, beside scores of 1e8."""
    tokens, v = Tokens([[[1e8, 0.0], [1e8, 1e-9]]]), [1.0, 1.0]
    found = attsvm.local_optima(tokens, v)
    assert Selection.best(tokens, v).indices.tolist() == [1] and found.best.tolist() == [1]
    assert dict(zip(found.columns()["selection"], found.columns()["global"], strict=True)) == {
        (0,): False, (1,): True,
    }  # fmt: skip
    assert [(alpha, verdict.kind) for alpha, verdict in found.local] == [((1,), "global")]


def test_rounding_grows_with_the_number_of_features():
    """Exactly token 0 scores less; the sum of 2048 products in floats says more."""
    d = 2048
    X = np.zeros((1, 2, d))
    X[0, 0] = np.concatenate([np.full(1024, 1 + 0.3 * np.spacing(512.0)), -np.ones(1024)])
    v = np.ones(d)
    in_floats = float(((X[:, :1] - X) @ v)[0, 1])
    exact = float(sum(map(Fraction, X[0, 0].tolist())))
    X[0, 0, -1] += -exact + (exact - in_floats) / 2
    assert sum(map(Fraction, X[0, 0].tolist())) < 0
    tokens = Tokens(X, keys=[[[1.0], [0.0]]])
    assert attsvm.optimality(tokens, [0], v).kind == "neither"
    assert attsvm.optimality(tokens, [1], v).kind == "global"


def test_a_strictly_better_token_is_optimal_and_its_run_converges():
    tokens = Tokens([[[1.0, 0.0], [0.0, 1 - 2.0**-50]]], keys=[[[1.0], [0.0]]], labels=[1])
    found = attsvm.outcome([1000.0], tokens, [1.0, 1.0], optimizer="ngd", lr=0.1)
    assert found.state == "converges" and found.optimality.kind == "global"
    assert found.optimality.score_gap == 2.0**-50
