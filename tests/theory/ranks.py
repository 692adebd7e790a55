"""Mean ranks of nuclear solutions by two solvers: `python -m tests.theory.ranks [SEEDS]`."""

from __future__ import annotations

import sys

import numpy as np

from attsvm import Certificate, Problem, Selection, Tokens, certify, solve
from attsvm.datasets.instances import sphere_arrays
from attsvm.norms import norm_of
from attsvm.solvers import cvxpy_oracle as oracle

TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


def instance(n: int, seed: int) -> Problem:
    """n inputs of 5 tokens in 20 dimensions, the best-scoring token kept."""
    arrays = sphere_arrays(n, 5, 20, seed=seed)
    tokens = Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
    return Problem.of(tokens, Selection.best(tokens, arrays["v"]))


def both(problem: Problem) -> tuple[Certificate, Certificate]:
    """Our certificate and that of a conic solver's answer at high accuracy."""
    ours = solve(problem, "nuclear", tol=1e-8).require()
    answer = oracle.by_cvxpy(problem, norm_of("nuclear"), tol=1e-9, **TIGHT)
    return ours, certify(problem, "nuclear", answer.W, answer.multipliers, tol=1e-7).require()


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
