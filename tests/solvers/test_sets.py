"""The relaxed problem of joint training, and kept sets of which one member must win."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import (
    BadSelection,
    NotConverged,
    Problem,
    Selection,
    Tokens,
    relaxed,
    solve,
    solve_sets,
)
from attsvm.solvers.solve_sets import support_inputs
from tests.tolerances import EXACTLY, GAP, GAP_SPECTRUM
from tests.zoo import chosen, sphere_tokens


def joint(c):
    """Three inputs of the tokens (0, 0) and (1, 1) | (1, −1) | (½, c), labels + − +."""
    X = [[[0, 0], [1, 1]], [[0, 0], [1, -1]], [[0, 0], [0.5, c]]]
    tokens = Tokens(np.array(X, dtype=float), labels=[1, -1, 1])
    return tokens, Selection.of(tokens, [1, 1, 1])


@pytest.mark.parametrize(("c", "support"), [(1.0, [1, 1, 1]), (1.5, [1, 1, 0])])
def test_support_inputs_meet_the_label_margin(c, support):
    tokens, keep = joint(c)
    v = solve(Problem.of_labels(tokens, keep)).W.ravel()
    assert_allclose(v, [0, 1], atol=EXACTLY)
    assert support_inputs(tokens, keep).tolist() == [bool(s) for s in support]
    assert relaxed(tokens, keep).b.tolist() == support


def test_relaxed_solution_and_margins():
    tokens, keep = joint(1.5)
    best = solve(relaxed(tokens, keep))
    assert best.status == "optimal"
    assert_allclose(best.W.ravel(), [1, 0], atol=EXACTLY)
    # of the kept token against (0, 0); the third is the label's, at v = (0, 1)
    assert_allclose(best.margins, [1, 1, 0.5], atol=EXACTLY)
    v = solve(Problem.of_labels(tokens, keep))
    assert_allclose(v.margins, [1, 1, 1.5], atol=EXACTLY)
    plain = solve(Problem.of(tokens, keep))
    assert_allclose(plain.W.ravel(), [1.25, 0.25], atol=EXACTLY)
    assert best.upper < plain.lower


def test_undecided_support_is_an_error_that_names_the_input():
    # row 1 is met with equality without a multiplier, which no gap of an l3 certificate can tell
    tokens = Tokens([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 4.0], [0.0, 0.0]]], labels=[1, 1])
    keep = Selection.of(tokens, [0, 0])
    assert support_inputs(tokens, keep).tolist() == [True, True]
    with pytest.raises(NotConverged, match="input 1 supports"):
        support_inputs(tokens, keep, norm="l3")


def brute(tokens, sets, norm):
    """The least norm over every choice of winners, and that choice."""
    found = {}
    for winners in product(*(np.flatnonzero(row) for row in sets.kept)):
        best = solve(Problem.any_of(tokens, sets, winners), norm)
        if best.status == "optimal":
            found[tuple(int(w) for w in winners)] = best.upper
    return min(found.items(), key=lambda pair: pair[1]) if found else (None, np.inf)


@pytest.mark.parametrize("norm", ["frobenius", "l1", "nuclear"])
@pytest.mark.parametrize("seed", range(4))
def test_sets_equal_brute_force(norm, seed):
    tokens, _ = sphere_tokens(3, 5, 3, seed=seed, queries=seed % 2 == 0)
    sets = Selection.of(tokens, [[0, 2], [1, 3, 4], [2, 0]])
    winners, least = brute(tokens, sets, norm)
    goal = GAP if norm != "nuclear" else GAP_SPECTRUM
    found = solve_sets(tokens, sets, norm)
    assert found.total == 12
    if winners is None:
        assert found.certificate.status == "infeasible"
        return
    assert abs(found.certificate.upper / least - 1) <= goal
    assert found.lower <= least * (1 + goal) and found.gap <= 3 * goal
    # winners of an input whose rows do not bind are many: those found must reach the least norm
    own = solve(Problem.any_of(tokens, sets, found.winners), norm)
    assert abs(own.upper / least - 1) <= goal
    assert found.certificate.problem.m == (5 - 2) + (5 - 3) + (5 - 2)


def test_branches_are_cut():
    tokens, _ = sphere_tokens(4, 6, 8, seed=9)
    sets = Selection.of(tokens, [[0, 1, 2]] * 4)
    seen = []
    found = solve_sets(tokens, sets, progress=seen.append)
    assert found.solved == len(seen) == seen[-1] < 3 + 9 + 27 + 81
    assert abs(found.certificate.upper / brute(tokens, sets, "frobenius")[1] - 1) <= GAP
    with pytest.raises(NotConverged, match="problems were solved"):
        solve_sets(tokens, sets, most=2)


def test_sets_of_one_are_the_plain_problem_and_an_input_kept_whole_asks_nothing():
    tokens, _ = sphere_tokens(3, 4, 5, seed=2)
    alone = Tokens(tokens.X[1:], queries=tokens.queries[1:])
    for sets, plain in (([0, 1, 2], tokens), ([[0, 1, 2, 3], [1], [2]], alone)):
        found = solve_sets(tokens, Selection.of(tokens, sets))
        least = solve(chosen(plain, [0, 1, 2][-plain.n :])).upper
        assert_allclose(found.certificate.upper, least, rtol=GAP)
        if plain is tokens:
            assert found.total == 1 and found.winners.tolist() == [0, 1, 2]
    with pytest.raises(BadSelection, match="every token is kept"):
        solve_sets(tokens, Selection.of(tokens, np.ones((3, 4), dtype=bool)))


def test_infeasible_sets_carry_a_proof():
    X = np.array([[[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]])
    tokens = Tokens(X)
    found = solve_sets(tokens, Selection.of(tokens, [[0]]))
    assert found.certificate.status == "infeasible" and found.gap == np.inf
    assert found.certificate.proof == "exact" and found.lower == np.inf


@pytest.mark.filterwarnings("ignore:no feasible W was found")  # of choice (1, 0)
def test_a_numerical_proof_of_one_choice_does_not_leave_the_bound():
    # W = (−1, 2e16, 0) meets the rows of choice (0, 0) exactly; floats cannot tell that it exists.
    X = np.zeros((2, 3, 3))
    X[0, 0], X[0, 1], X[1, 0] = [1.0, 1e-16, 0.0], [0.0, 0.0, 1e-17], [-1.0, 0.0, 0.0]
    tokens = Tokens(X, mask=[[1, 1, 1], [1, 1, 0]])
    W = [Fraction(-1), 2 / Fraction(1e-16), Fraction(0)]
    for row in (X[0, 0], X[1, 0]):
        assert sum(Fraction(float(x)) * w for x, w in zip(row, W, strict=True)) == 1
    assert solve_sets(tokens, [[0, 1], [0]]).lower <= 2e16
    alone = solve_sets(tokens, [[0], [0]])
    assert alone.certificate.proof == "numerical" and alone.lower <= 2e16 and alone.gap == np.inf
