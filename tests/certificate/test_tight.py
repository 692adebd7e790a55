"""Tight rows: each verdict is true where the truth is known, and none is a threshold."""

import numpy as np
import pytest

from attsvm import Problem, certify, solve
from tests.tolerances import MET
from tests.zoo import KINDS, NORMS, UNIQUE, infeasible, known


def judged(zoo):
    """The verdict at the solver's certificate, checked to be a partition."""
    verdict = solve(zoo.problem, zoo.norm).tight
    count = verdict.tight.astype(int) + verdict.loose + verdict.undecided
    assert (count == 1).all()
    return verdict


@pytest.mark.parametrize("norm", UNIQUE)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_verdicts_are_true(norm, kind, seed):
    zoo = known(norm, kind, seed=seed)
    verdict = judged(zoo)
    assert not (verdict.tight & ~zoo.tight).any()
    if verdict.how != "exact arithmetic":
        # rows are tight only up to the rounding of their construction, which exactness sees
        assert not (verdict.loose & zoo.tight).any()
    if norm != "l10":  # uniform convexity of power 10: a gap of 1e-8 confines very little
        assert (verdict.loose | zoo.tight).all()  # every loose row is found


@pytest.mark.parametrize("norm", [name for name in NORMS if name not in UNIQUE])
@pytest.mark.parametrize("kind", KINDS)
def test_where_solutions_are_many_verdicts_are_of_this_one(norm, kind):
    zoo = known(norm, kind)
    best = solve(zoo.problem, norm)
    verdict = best.tight
    slack = best.margins - zoo.problem.b
    assert "this solution" in verdict.how and verdict.radius == np.inf
    assert (np.abs(slack[verdict.tight]) < MET).all() and (slack[verdict.loose] > 0).all()
    # λ > 0 in one optimum forces the row to be met by every solution, the known one included
    assert not (verdict.tight & ~zoo.tight).any()


@pytest.mark.parametrize(
    ("middle", "tight"),
    [
        ([1.0, 4.0], [True, True, False]),  # a multiplier of zero
        ([1.0, 0.0], [True, True, False]),  # an input twice
        # No threshold could tell these from tight rows, exact arithmetic can.
        ([1.0 + 1e-9, 4.0], [True, False, False]),
        ([1.0 + 1e-15, 4.0], [True, False, False]),
    ],
)
def test_few_rows_are_decided_exactly(middle, tight):
    """W = (1, 0) meets the first row with equality; the last is loose."""
    verdict = solve(Problem.from_rows([[1.0, 0.0], middle, [3.0, -1.0]])).tight
    assert verdict.how == "exact arithmetic" and verdict.radius == 0.0
    assert verdict.tight.tolist() == tight and verdict.loose.tolist() == [not t for t in tight]
    assert verdict.rows.tolist() == np.flatnonzero(tight).tolist() and not verdict.undecided.any()


@pytest.mark.parametrize("norm", ["l3", "l1.75"])
def test_what_cannot_be_told_stays_undecided(norm):
    zoo = known(norm, "degenerate")
    verdict = judged(zoo)
    doubtful = zoo.tight & (zoo.multipliers == 0)
    assert doubtful.any() and verdict.undecided[doubtful].all()


def test_a_poor_certificate_decides_less():
    zoo = known("frobenius", d=8, dq=8, more=14)
    assert zoo.problem.m > 60
    sharp = certify(zoo.problem, "frobenius", zoo.W, zoo.multipliers).tight
    noise = np.random.default_rng(0).standard_normal(zoo.W.shape)
    poor = certify(zoo.problem, "frobenius", zoo.W + 0.05 * noise, zoo.multipliers).tight
    assert poor.radius > sharp.radius
    assert poor.undecided.sum() > sharp.undecided.sum() == 0
    assert not (poor.loose & zoo.tight).any() and not (poor.tight & ~zoo.tight).any()


def test_without_a_solution_nothing_is_decided():
    for case in ("opposite", "simplex"):
        verdict = solve(infeasible()[case]).tight
        assert verdict.undecided.all() and verdict.how == "no feasible W"
    problem = Problem.from_rows([[1.0, 0.0], [-1.0, 0.5]])
    assert solve(problem, C=0.1).tight.how == "soft margin"
    assert "tight" in repr(solve(problem).tight)
