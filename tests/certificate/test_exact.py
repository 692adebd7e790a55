"""Bounds, solutions and Farkas certificates in exact arithmetic, and the integer linear systems."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from attsvm.certificate.exact import (
    exact_infeasibility,
    exact_lower,
    exact_tight,
    exact_upper,
)
from attsvm.certificate.lifting import PRIMES, solve_lifted
from attsvm.errors import BadTokens
from attsvm.norms import norm_of
from attsvm.norms.rational import Exact
from attsvm.problem.problem import Problem
from tests.plain_fractions import (
    drawn,
    feasible,
    least_distance,
    proves,
    sphere,
)


def test_bounds_meet_and_a_perturbed_matrix_has_a_larger_bound_or_none() -> None:
    problem = drawn(6, 8, 10, seed=0)
    W, lam = least_distance(problem)
    lower, upper = exact_lower(problem, "frobenius", lam), exact_upper(problem, "frobenius", W)
    assert lower is not None and upper.value is not None and upper.matrix is not None
    assert lower <= upper.value < lower * (1 + Fraction(1, 10**10))
    assert feasible(problem, upper.matrix)
    assert upper.value**2 >= sum(v**2 for v in upper.matrix.fractions().ravel())
    bent = exact_upper(problem, "frobenius", W + 1e-5 * np.random.default_rng(1).random(W.shape))
    assert bent.value is not None and bent.value > lower * (1 + Fraction(1, 10**6))
    turned = exact_upper(problem, "frobenius", -W)
    assert turned.value is None and turned.matrix is None
    assert "not positive" in turned.reason


def test_bad_multipliers_and_matrices_are_refused() -> None:
    problem = Problem.from_rows([[3.0, 4.0], [1.0, 0.0]])
    with pytest.raises(BadTokens, match="multiplier 1 is negative"):
        exact_lower(problem, "frobenius", [1.0, -1e-300])
    with pytest.raises(BadTokens, match="must be"):
        exact_lower(problem, "frobenius", [1.0])
    with pytest.raises(BadTokens, match="must be"):
        exact_lower(problem, "frobenius", [1.0, 1.0], [1.0])
    with pytest.raises(BadTokens, match="needs"):
        exact_upper(problem, "frobenius", np.ones((3, 1)))
    with pytest.raises(BadTokens, match="exact arithmetic"):
        exact_upper(problem, "frobenius", [math.inf, 1.0])


@pytest.mark.parametrize("level", [0.0, 0.3])
@pytest.mark.parametrize("norm", ["frobenius", "nuclear", "l1.75"])
def test_ties_and_zero_rows_are_repaired_exactly(norm: str, level: float) -> None:
    rng = np.random.default_rng(9)
    d, ties = 6, 8
    E, Y, W = sphere(rng, ties, d), sphere(rng, ties, d), rng.standard_normal((d, d))
    c = level * rng.standard_normal(ties)
    # the nearest W in floats that meets the ties, up to rounding
    C = np.einsum("ki,kj->kij", E, Y).reshape(ties, -1)
    W += (np.linalg.pinv(C) @ (c - C @ W.ravel())).reshape(d, d)
    D, Z = sphere(rng, 30, d), sphere(rng, 30, d)
    D *= np.sign(np.einsum("ki,ij,kj->k", D, W, Z))[:, None]
    W /= np.einsum("ki,ij,kj->k", D, W, Z).min() if level == 0 else 1.0
    b = np.ones(30) if level == 0 else 0.5 * np.einsum("ki,ij,kj->k", D, W, Z)
    b[:10] = 0.0
    # zero rows met up to rounding only, on both sides
    kernel = sphere(rng, 5, d)
    V = W @ Z[:5].T
    D[:5] = kernel - np.einsum("kd,dk->k", kernel, V)[:, None] * V.T / (V.T**2).sum(1)[:, None]
    problem = Problem.from_rows(D, Z, b=b, ties=E, tie_queries=Y, c=c)
    exact = Exact.of(W)
    assert not feasible(problem, exact)
    upper = exact_upper(problem, norm, W)
    assert upper.matrix is not None and upper.value is not None, upper.reason
    assert feasible(problem, upper.matrix)
    np.testing.assert_allclose(upper.matrix.floats(), W, atol=1e-12 * np.abs(W).max())
    assert upper.value <= norm_of(norm).value_above(exact) * (1 + Fraction(1, 10**11))


def test_dependent_ties_are_repaired_and_contradictions_named() -> None:
    margins, row = [[1.0, 0.0, 0.0]], [0.1, 0.2, 0.7]
    double = [2 * v for v in row]
    agree = Problem.from_rows(margins, ties=[row, double], c=[0.3, 0.6])
    upper = exact_upper(agree, "frobenius", [1.0, 0.0, 0.2])
    assert upper.matrix is not None
    assert feasible(agree, upper.matrix)
    clash = Problem.from_rows(margins, ties=[row, double], c=[0.3, 0.7])
    upper = exact_upper(clash, "frobenius", [1.0, 0.0, 0.2])
    assert upper.matrix is None and upper.reason == "tie 1 contradicts the rows it depends on"
    proof = exact_infeasibility(clash, [0.0], [-2.0, 1.0])
    assert proof is not None
    assert proves(clash, proof.multipliers, proof.tie_multipliers)
    assert exact_infeasibility(agree, [0.0], [-2.0, 1.0]) is None


def test_a_triangle_is_proved_infeasible() -> None:
    # 0.1, 0.2, 0.3 are no decimals in floats: (2, 1, 1) is only nearly a proof
    problem = Problem.from_rows([[0.3, 0.0], [-0.3, 0.1], [-0.3, -0.1]])
    proof = exact_infeasibility(problem, [2.0 + 1e-13, 1.0, 1.0])
    assert proof is not None
    assert proves(problem, proof.multipliers, proof.tie_multipliers)
    assert proof.multipliers.fractions().tolist() == [Fraction(n, 4) for n in (2, 1, 1)]
    odd = Problem.from_rows([[0.1], [-0.3]])
    assert exact_tight(odd, [3.0, 1.0]) is None
    assert exact_lower(odd, "frobenius", [3.0, 1.0]) is not None
    proof = exact_infeasibility(odd, [3.0, 1.0])
    assert proof is not None
    assert proves(odd, proof.multipliers, proof.tie_multipliers)
    assert exact_lower(odd, "frobenius", proof.multipliers) is None


def test_rows_dependent_modulo_the_prime_only_prove_nothing() -> None:
    # (1, 0) + (−1, p) is zero modulo p, and W = (1, 2/p) is a solution
    problem = Problem.from_rows([[1.0, 0.0], [-1.0, float(PRIMES[0])]])
    assert exact_infeasibility(problem, [1.0, 1.0]) is None
    assert exact_upper(problem, "frobenius", [1.0, 2.0 / PRIMES[0]]).value is not None


def test_differences_of_keys_are_not_rounded() -> None:
    keys = np.array([[1.0], [2.0**-70]])
    one = np.array([0])
    none = np.empty(0, np.int64)
    problem = Problem(
        keys, np.ones((1, 1)), one, one + 1, one, np.ones(1), none, none, none, np.empty(0)
    )  # fmt: skip
    lower = exact_lower(problem, "frobenius", [1.0])
    assert lower == 1 / (1 - Fraction(1, 2**70))


@pytest.mark.parametrize(("k", "bits"), [(1, 3), (2, 5), (3, 200), (9, 61), (12, 110)])
def test_systems_of_integers_are_solved_exactly(k: int, bits: int) -> None:
    rng = random.Random(k)
    draw = [[rng.randint(-(2**bits), 2**bits) for _ in range(k + 1)] for _ in range(k)]
    A, r = np.array(draw, dtype=object)[:, :k], np.array(draw, dtype=object)[:, k] * 10**9
    if k == 2:  # the prime divides the determinant
        A[0] = PRIMES[0], 0
    solution = solve_lifted(A, r)
    assert solution is not None and (A.dot(solution.fractions()) == r).all()
    assert k == 1 or solve_lifted(np.array([A[0], *A[:-1]]), r) is None  # a row twice


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
