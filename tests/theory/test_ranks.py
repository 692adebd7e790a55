"""Mean ranks of nuclear solutions by two solvers: `python -m tests.theory.test_ranks [SEEDS]`."""

from __future__ import annotations

import sys

import cvxpy as cp
import numpy as np
import pytest

from attsvm import Certificate, Problem, Selection, certify, solve
from tests.zoo import example

TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


def instance(n: int, seed: int) -> Problem:
    """n inputs of 5 tokens in 20 dimensions, the best-scoring token kept."""
    tokens, v = example("sphere", n, 5, 20, seed=seed)
    return Problem.of(tokens, Selection.best(tokens, v))


def both(problem: Problem) -> tuple[Certificate, Certificate]:
    """Our certificate and that of a conic solver's answer at high accuracy."""
    ours = solve(problem, "nuclear", tol=1e-8).require()
    W = cp.Variable(problem.shape)
    D, Z = problem.differences(), problem.queries[problem.query]
    rows = cp.sum(cp.multiply(D @ W, Z), axis=1) >= problem.b
    cp.Problem(cp.Minimize(cp.normNuc(W)), [rows]).solve(**TIGHT)
    return ours, certify(problem, "nuclear", W.value, rows.dual_value, tol=1e-7).require()


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


def main(seeds: int) -> None:
    """Print the mean ranks at n = 5, 10, 15, with the largest gaps."""
    for n in (5, 10, 15):
        pairs = [both(instance(n, seed)) for seed in range(seeds)]
        ranks = np.array([[a.rank, b.rank] for a, b in pairs])
        gaps = np.array([[a.gap, b.gap] for a, b in pairs]).max(axis=0)
        plain = np.mean([solve(instance(n, seed)).require().rank for seed in range(seeds)])
        print(
            f"n = {n}: ours {ranks[:, 0].mean():.2f} (gap {gaps[0]:.1e}), conic "
            f"{ranks[:, 1].mean():.2f} (gap {gaps[1]:.1e}), differ on "
            f"{int((ranks[:, 0] != ranks[:, 1]).sum())} of {seeds}, Frobenius {plain:g}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
