"""Integer linear systems, and the rows of a problem as integers."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from attsvm.certificate.exact import IntegerRows, exact_lower
from attsvm.certificate.lifting import PRIMES, independent, modulo, solve_lifted
from attsvm.norms.rational import Exact
from attsvm.problem.problem import Problem
from tests.plain_fractions import (
    rows_of,
)


def eliminated(A: Any, r: Any) -> list[Fraction]:
    """The solution of A x = r by elimination on Fractions."""
    rows = [[*map(Fraction, row), Fraction(right)] for row, right in zip(A, r, strict=True)]
    for i in range(len(rows)):
        j = next(j for j in range(i, len(rows)) if rows[j][i])
        rows[i], rows[j] = rows[j], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [v - rows[k][i] * w for v, w in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.parametrize(("k", "bits"), [(1, 3), (2, 5), (3, 200), (9, 61), (12, 110)])
def test_lifting_equals_elimination(k: int, bits: int) -> None:
    rng = random.Random(k)
    draw = [[rng.randint(-(2**bits), 2**bits) for _ in range(k + 1)] for _ in range(k)]
    A, r = np.array(draw, dtype=object)[:, :k], np.array(draw, dtype=object)[:, k] * 10**9
    solution = solve_lifted(A, r)
    assert solution is not None
    assert solution.fractions().tolist() == eliminated(A, r)


def test_lifting_passes_a_prime_that_divides_the_determinant() -> None:
    A = np.array([[PRIMES[0], 0], [1, 2]], dtype=object)
    solution = solve_lifted(A, np.array([1, 1], dtype=object))
    assert solution is not None
    assert solution.fractions().tolist() == eliminated(A, [1, 1])


def test_singular_systems_have_no_solution() -> None:
    assert (
        solve_lifted(np.array([[1, 2], [2, 4]], dtype=object), np.array([1, 2], dtype=object))
        is None
    )


def test_independent_rows_are_the_first_ones() -> None:
    rows = np.array([[0, 0, 0], [0, 2, 1], [0, 4, 2], [1, 0, 0], [1, 2, 1]], dtype=object)
    chosen, columns = independent(modulo(rows, PRIMES[0]), PRIMES[0])
    assert chosen.tolist() == [1, 3]
    assert sorted(columns.tolist()) == [0, 1]


def test_integer_rows_agree_with_the_problem() -> None:
    rng = np.random.default_rng(6)
    problem = Problem(
        rng.standard_normal((9, 4)), rng.standard_normal((3, 2)),
        np.array([0, 2, 4, 8]), np.array([1, -1, 5, 0]), np.array([0, 1, 2, 0]), np.ones(4),
        np.array([3, 7]), np.array([-1, 6]), np.array([1, 2]), np.array([0.5, 0.0]),
    )  # fmt: skip
    rows = IntegerRows.of(problem)
    W, lam, mu = rng.standard_normal((4, 2)), rng.random(4), rng.standard_normal(2)
    values = rows.values(Exact.of(W)).floats()
    np.testing.assert_allclose(values[:4], problem.margins(W), rtol=1e-13)
    np.testing.assert_allclose(values[4:], problem.tie_values(W), rtol=1e-13)
    adjoint = rows.adjoint(rows.multipliers(lam, mu))
    np.testing.assert_allclose(adjoint.floats(), problem.adjoint(lam, mu), rtol=1e-13)
    plain = rows_of(problem)[0]
    index = np.array([3, 0, 5])
    dense = Exact(rows.dense(index, np.arange(8)), rows.unit).fractions().tolist()
    assert dense == [plain[k] for k in index]
    gram = Exact(rows.gram(index), rows.unit**2).fractions()
    assert gram[0, 2] == sum(v * w for v, w in zip(dense[0], dense[2], strict=True))


def test_differences_of_keys_are_not_rounded() -> None:
    keys = np.array([[1.0], [2.0**-70]])
    one = np.array([0])
    none = np.empty(0, np.int64)
    problem = Problem(
        keys, np.ones((1, 1)), one, one + 1, one, np.ones(1), none, none, none, np.empty(0)
    )  # fmt: skip
    lower = exact_lower(problem, "frobenius", [1.0]).value
    assert lower == 1 / (1 - Fraction(1, 2**70))
