"""Ranks of nuclear-norm solutions: from certified solutions, by two solvers."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import solve
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
