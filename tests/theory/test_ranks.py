"""Ranks of nuclear-norm solutions: from certified solutions, by two solvers."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import Problem, solve
from tests.theory.ranks import both, instance


@pytest.mark.parametrize("seed", range(3))
def test_a_conic_solver_at_high_accuracy_finds_the_same_rank(seed: int) -> None:
    ours, theirs = both(instance(5, seed))
    assert ours.rank == theirs.rank
    assert ours.lower <= theirs.upper and theirs.lower <= ours.upper
    assert ours.rank <= ours.rank_bound


@pytest.mark.parametrize(("n", "mean"), [(5, 2.5), (10, 3.7), (15, 4.7)])
def test_nuclear_solutions_have_low_rank_and_frobenius_solutions_full(n: int, mean: float) -> None:
    nuclear = [solve(instance(n, seed), "nuclear").require().rank for seed in range(20)]
    frobenius = [solve(instance(n, seed)).require().rank for seed in range(5)]
    assert abs(np.mean(nuclear) - mean) < 0.35  # three standard errors of a mean over 20 seeds
    assert frobenius == [n] * 5


@pytest.mark.parametrize("small", [2e-4, 2e-3, 0.5])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
def test_the_bound_counts_every_singular_value_that_the_rank_counts(
    small: float, tol: float
) -> None:
    # diag(1, small, 0) is the only solution: the rows name its entries.
    D = np.eye(3)[[0, 1]]
    best = solve(Problem.from_rows(D, D, b=[1.0, small]), "nuclear", tol=tol)
    assert best.rank <= best.rank_bound and best.rank_bound >= 2
    if tol == 1e-9:
        assert best.rank_bound == 2
    assert solve(best.problem, "frobenius").rank_bound == 3  # nothing is known in another norm
