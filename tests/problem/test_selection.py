"""Selection: from scores, indices, lists and booleans; near ties of scores; what it refuses."""

from fractions import Fraction

import numpy as np
import pytest

from attsvm import (
    BadSelection,
    Problem,
    Selection,
    Tokens,
    basin,
    optimality,
    regpath,
    relaxed,
    solve_sets,
)
from attsvm.theory.optima import score_gaps

X = np.random.default_rng(3).standard_normal((3, 4, 2))
TOKENS = Tokens(X)
MASK = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 1, 1]], bool)
ROWS = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], bool)


@pytest.mark.parametrize(
    "indices",
    [
        [1, 0, 3], (1, 0, 3), np.array([1, 0, 3]), np.array([1, 0, 3], np.uint8), [1.0, 0.0, 3.0],
        [[1], [0], [3]], [[1], 0, [3, 3]], [np.array(1), np.array([0]), 3], ROWS, ROWS.tolist(),
        [ROWS[0], [0], [False, False, False, True]], list(ROWS),
    ],
)  # fmt: skip
def test_the_same_selection_in_every_form(indices):
    keep = Selection.of(TOKENS, indices)
    assert np.array_equal(keep.kept, ROWS)
    assert not np.shares_memory(keep.kept, ROWS)  # the array given is not held
    assert keep.single and keep.indices.tolist() == [1, 0, 3]
    assert keep.origin == "indices"


@pytest.mark.parametrize(
    ("indices", "word"),
    [
        ([0, 0, 4], r"alpha\[2\] is 4; tokens run from 0 to 3"),
        ([0, -1, 0], r"alpha\[1\] is -1"),
        ([0, 0], r"alpha has shape \(2,\)"),
        (0, r"alpha has shape \(\)"),
        (np.zeros((3, 4), int), r"alpha has shape \(3, 4\)"),
        ([0, 0.5, 0], "not 0.5"),
        ([0, np.nan, 0], "not nan"),
        ([0, 1e30, 0], r"alpha\[1\] is 1000000000000000019884624838656"),
        (np.array([0, 2**63, 0], np.uint64), r"alpha\[1\] is 9223372036854775808"),
        ("abc", "whole numbers"),
        (None, "whole numbers"),
        ([[0], [1]], "2 lists of tokens for 3 inputs"),
        ([[0], [1], [4]], "input 2 selects token 4"),
        ([[0], [1], []], "input 2 keeps no token"),
        ([[0], [1], [0.5]], "input 2 must hold whole numbers, not 0.5"),
        ([[0], [1], ["a"]], "input 2 must hold whole numbers"),
        ([[0], [1], [[1], [2, 3]]], "input 2 is not a rectangular array"),
        ([[0], [1], [[1, 2]]], r"input 2 has shape \(1, 2\)"),
        ([[0], [1], [True, False]], "input 2 has 2 booleans for 4 tokens"),
        (ROWS[:2], r"select has shape \(2, 4\)"),
        (ROWS.T, r"select has shape \(4, 3\)"),
        (ROWS & False, "input 0 keeps no token"),
    ],
)
def test_what_is_no_selection(indices, word):
    with pytest.raises(BadSelection, match=word):
        Selection.of(TOKENS, indices)


def test_a_masked_token_cannot_be_kept():
    tokens = Tokens(X, mask=MASK)
    with pytest.raises(BadSelection, match="token 2 of input 0 is selected but masked out"):
        Selection.of(tokens, [2, 0, 3])
    with pytest.raises(BadSelection, match="token 0 of input 2"):
        Selection.of(tokens, [[0], [0], [0, 1]])


def test_best_by_score():
    """Scores are y_i v·x_it, over the tokens that are there."""
    v = np.array([0.3, -1.0])
    y = np.array([1, -1, 1])
    scores = (X @ v) * y[:, None]
    assert Selection.best(Tokens(X, labels=y), v).indices.tolist() == scores.argmax(1).tolist()
    masked = np.where(MASK, scores, -np.inf)
    keep = Selection.best(Tokens(X, labels=y, mask=MASK), v)
    assert keep.indices.tolist() == masked.argmax(1).tolist()
    assert keep.origin == "scores"


def test_equal_best_scores_are_named():
    tokens = Tokens([[[0.0, 1.0], [1.0, 0.0], [2.0, 0.0]], [[0.0, 2.0], [1.0, 1.0], [5.0, 2.0]]])
    with pytest.raises(BadSelection, match=r"tokens 0 and 2 of input 1 share .* score 2; choose"):
        Selection.best(tokens, [0.0, 1.0])
    with pytest.raises(BadSelection, match="tokens 0 and 1 of input 0"):
        Selection.best(tokens, [0.0, 0.0])
    # A tie below the best token is none, nor is one with a token that is not there.
    assert Selection.best(tokens, [1.0, 0.0]).indices.tolist() == [2, 2]
    masked = Tokens(tokens.X, mask=[[1, 1, 1], [1, 1, 0]])
    assert Selection.best(masked, [0.0, 1.0]).indices.tolist() == [0, 0]


def test_scores_that_rounding_ties_are_told_apart():
    """The floats 0.1 and 0.2 add up to more than the float 0.3, in the last bit."""
    for order in ([0, 1], [1, 0]):
        tokens = Tokens(np.array([[[0.1, 0.2, 0.0], [0.0, 0.0, 0.3]]])[:, order])
        assert Selection.best(tokens, [1.0, 1.0, 1.0]).indices.tolist() == [order.index(0)]
    level = Tokens([[[0.1, 0.2], [0.0, 0.0], [0.2, 0.1]]])
    with pytest.raises(BadSelection, match="tokens 0 and 2 of input 0 share"):
        Selection.best(level, [1.0, 1.0])


@pytest.mark.parametrize(
    "kept",
    [ROWS.tolist(), ROWS.astype(int), ROWS[0], ROWS & False, None, "rows", ROWS.astype(object)],
)
def test_a_selection_made_by_hand_is_checked(kept):
    with pytest.raises(BadSelection, match=r"kept must be a boolean array|keeps no token"):
        Selection(kept)


def test_a_selection_of_other_tokens_does_not_fit():
    keep = Selection(ROWS)
    with pytest.raises(BadSelection, match=r"has shape \(3, 4\), the tokens \(2, 4\)"):
        Problem.of(Tokens(X[:2]), keep)
    with pytest.raises(BadSelection, match="the tokens"):
        Problem.of_labels(Tokens(X[:2], labels=[1, -1]), keep)
    with pytest.raises(BadSelection, match="the tokens"):
        Problem.finite(Tokens(X[:2]), keep, np.ones((2, 4)))


@pytest.mark.parametrize(
    "meet",
    [
        Problem.of, Problem.of_labels, solve_sets, relaxed, Selection.of,
        lambda tokens, keep: optimality(tokens, keep, [1.0, 2.0]),
        lambda tokens, keep: regpath(tokens, keep=keep, head=[1.0, 2.0], radii=[1.0]),
        lambda tokens, keep: basin(tokens, keep, head=[1.0, 2.0]),
    ],
)  # fmt: skip
def test_a_selection_that_keeps_a_masked_token_is_refused(meet):
    keep = Selection.of(TOKENS, [1, 0, 0])
    masked = Tokens(X, mask=MASK, labels=[1, 1, 1])
    with pytest.raises(BadSelection, match="token 0 of input 2 is selected but masked out"):
        meet(masked, keep)


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
