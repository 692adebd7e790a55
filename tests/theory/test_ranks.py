"""Ranks of nuclear-norm solutions: from certified solutions, by two solvers."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import Problem, Selection, Tokens, certify, solve
from attsvm.data.sphere import sphere
from attsvm.norms import norm_of
from attsvm.solvers import oracle

TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


def instance(n: int, seed: int) -> Problem:
    """n inputs of 5 tokens in 20 dimensions, the best-scoring token kept."""
    arrays = sphere(n, 5, 20, seed=seed)
    tokens = Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
    return Problem.of(tokens, Selection.best(tokens, arrays["v"]))


@pytest.mark.parametrize("seed", range(3))
def test_a_conic_solver_at_high_accuracy_finds_the_same_rank(seed: int) -> None:
    problem = instance(5, seed)
    ours = solve(problem, "nuclear", tol=1e-8).require()
    answer = oracle.solve(problem, norm_of("nuclear"), tol=1e-9, **TIGHT)
    theirs = certify(problem, "nuclear", answer.W, answer.multipliers, tol=1e-7).require()
    assert ours.rank == theirs.rank
    assert ours.lower <= theirs.upper and theirs.lower <= ours.upper
    assert ours.rank <= ours.rank_bound


@pytest.mark.parametrize(("n", "mean"), [(5, 2.5), (10, 3.7), (15, 4.7)])
def test_nuclear_solutions_have_low_rank_and_frobenius_solutions_full(n: int, mean: float) -> None:
    nuclear = [solve(instance(n, seed), "nuclear").require().rank for seed in range(20)]
    frobenius = [solve(instance(n, seed)).require().rank for seed in range(5)]
    assert abs(np.mean(nuclear) - mean) < 0.35  # three standard errors of a mean over 20 seeds
    assert frobenius == [n] * 5
