"""Exact proofs that no matrix meets the margins and ties."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from attsvm.certificate.exact import exact_infeasibility, exact_lower, exact_upper
from attsvm.certificate.lifting import PRIMES
from attsvm.problem.problem import Problem
from tests.plain_fractions import (
    drawn,
    least_distance,
    proves,
)


def test_a_triangle_is_proved_infeasible() -> None:
    # 0.1, 0.2, 0.3 are no decimals in floats: (2, 1, 1) is only nearly a proof
    problem = Problem.from_rows([[0.3, 0.0], [-0.3, 0.1], [-0.3, -0.1]])
    proof = exact_infeasibility(problem, [2.0 + 1e-13, 1.0, 1.0])
    assert proof is not None
    assert proves(problem, proof.multipliers, proof.tie_multipliers)
    assert proof.multipliers.fractions().tolist() == [
        Fraction(1, 2),
        Fraction(1, 4),
        Fraction(1, 4),
    ]
    odd = Problem.from_rows([[0.1], [-0.3]])
    assert not exact_lower(odd, "frobenius", [3.0, 1.0]).infeasible
    proof = exact_infeasibility(odd, [3.0, 1.0])
    assert proof is not None
    assert proves(odd, proof.multipliers, proof.tie_multipliers)
    assert exact_lower(odd, "frobenius", proof.multipliers).infeasible
    assert exact_lower(odd, "frobenius", proof.multipliers).value is None


@pytest.mark.parametrize(("n", "d", "prompt"), [(14, 10, True), (24, 5, False)])
def test_random_infeasible_problems_are_proved(n: int, d: int, prompt: bool) -> None:
    problem = drawn(n, 8, d, seed=2, prompt=prompt)
    W, lam = least_distance(problem)
    assert W is None
    proof = exact_infeasibility(problem, lam)
    assert proof is not None
    assert proves(problem, proof.multipliers, proof.tie_multipliers)
    # multipliers all over the null space, as an interior method gives
    A = problem.differences()[:, :, None] * problem.queries[problem.query][:, None]
    A = A.reshape(problem.m, -1)
    inner = np.full(problem.m, 1e-4)
    inner += least_distance(problem)[1] / lam.sum()
    for _ in range(200):  # alternate between the null space and the orthant
        inner = np.maximum(inner - A @ (np.linalg.pinv(A) @ inner), 1e-7)
    spread = exact_infeasibility(problem, inner, limit=problem.m)
    assert spread is not None
    assert proves(problem, spread.multipliers, spread.tie_multipliers)
    assert exact_infeasibility(problem, lam, limit=3) is None


def test_a_poor_guess_is_refined_to_a_vertex() -> None:
    problem = drawn(14, 8, 10, seed=2, prompt=True)
    proof = exact_infeasibility(problem, np.ones(problem.m))
    assert proof is not None
    assert proves(problem, proof.multipliers, proof.tie_multipliers)


def test_feasible_problems_have_no_proof() -> None:
    problem = drawn(6, 8, 10, seed=0)
    _, lam = least_distance(problem)
    assert exact_infeasibility(problem, lam) is None
    # tokens within 1e-8 of opposite: a huge norm, but a solution
    near = Problem.from_rows([[1.0, 1e-8], [-1.0, 0.0]])
    assert exact_infeasibility(near, [1.0, 1.0]) is None
    assert exact_upper(near, "frobenius", [-1.0, 3e8]).value is not None


def test_rows_dependent_modulo_the_prime_only_prove_nothing() -> None:
    # (1, 0) + (−1, p) is zero modulo p, and W = (1, 2/p) is a solution
    problem = Problem.from_rows([[1.0, 0.0], [-1.0, float(PRIMES[0])]])
    assert exact_infeasibility(problem, [1.0, 1.0]) is None
    assert exact_upper(problem, "frobenius", [1.0, 2.0 / PRIMES[0]]).value is not None


def test_an_empty_row_proves_infeasibility_alone() -> None:
    problem = Problem.from_rows([[1.0, 0.0], [0.0, 0.0]])
    proof = exact_infeasibility(problem, [1.0, 0.0])
    assert proof is not None
    assert proof.multipliers.fractions().tolist() == [0, 1]
    tie = Problem.from_rows([[1.0, 0.0]], ties=[[0.0, 0.0]], c=[-0.5])
    proof = exact_infeasibility(tie, [1.0], [0.0])
    assert proof is not None
    assert proves(tie, proof.multipliers, proof.tie_multipliers)
