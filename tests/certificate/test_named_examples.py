"""Certificates that were false once, one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from attsvm import Problem, Tokens, certify, solve
from attsvm.errors import ConvergenceWarning
from tests.certificate.attack import NORMS
from tests.certificate.independent import FALSE, Truth, judge

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}"
)
every = pytest.mark.parametrize("norm", NORMS)


def check(certificate: Any, **more: Any) -> Any:
    """The certificate, none of whose claims is false."""
    claims = judge(certificate, Truth(certificate.problem), **more)
    assert not [claim for claim in claims if claim.verdict == FALSE], certificate
    return certificate


def nearly_opposite(k: int) -> Problem:
    draw = np.random.default_rng(k)
    R = draw.standard_normal((2, 3))
    back = -R + 10.0**-k * draw.standard_normal((2, 3))
    return Problem.from_rows(np.concatenate([R, back]))


def grid_with_noise(seed: int) -> Problem:
    draw = np.random.default_rng(seed)
    X = draw.integers(-1, 2, (3, 4, 3)) + 2.0**-30 * draw.integers(-1, 2, (3, 4, 3))
    return Problem.of(Tokens(X), np.zeros(3, dtype=int))


def twin_inputs(seed: int) -> Problem:
    """Two inputs that are equal up to rounding."""
    draw = np.random.default_rng(seed)
    X = np.repeat(draw.standard_normal((1, 4, 4)), 2, axis=0)
    X[1] = np.nextafter(X[1], draw.choice([-9.0, 9.0], X[1].shape))
    return Problem.of(Tokens(X), np.arange(4) < [[2], [2]])


def extreme_scales(size: float, b: float) -> Problem:
    tokens = Tokens(
        np.array([[[1.0, 0.5], [-0.5, 0.25], [0.0, -1.0]]]) * size,
        queries=np.array([[1.0, -0.5]]) * size,
    )
    return Problem.of(tokens, [0], b=[b])


# .1 + .2 is not .3 in floats.
DECIMALS = Problem.from_rows(
    np.empty((0, 2)), ties=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], c=[0.1, 0.2, 0.3]
)


# W1 = 0 and W1 + apart·W2 = 0 leave W2 = 0, so the margin W2 ≥ 1 cannot be met; nor can right-hand
# sides of one tie that are one rounding apart.
CLASHES = [
    *(Problem.from_rows([[0.0, 1.0]], ties=[[1.0, 0.0], [1.0, apart]])
      for apart in (1e-3, 1e-9, 1e-12, 1e-15, 2.0**-52)),
    Problem.from_rows([[0.0, 1.0]], ties=[[1.0, 0.0]] * 2, c=[1.0, float(np.nextafter(1.0, 2.0))]),
]  # fmt: skip


@every
@pytest.mark.parametrize("problem", CLASHES)
def test_ties_that_nearly_agree(norm: str, problem: Problem) -> None:
    assert Truth(problem).feasible is False
    assert check(solve(problem, norm)).status != "optimal"


@every
@pytest.mark.parametrize(
    ("problem", "C"),
    [
        *product([Problem.from_rows(rows) for rows in ([[1.0]], [[1.0], [-1.0]], [[1.0], [2.0]])],
                 [1e-300, 1e-200, 1e200, 1e300]),
        *((problem, None) for problem in [
        DECIMALS,
        *map(nearly_opposite, range(6, 18)),
        *map(grid_with_noise, range(6)),
        *map(twin_inputs, range(4)),
        *(extreme_scales(*scales) for scales in
          [(9e74, 1e-75), (9e74, 9e74), (1e-60, 9e74), (1.0, 9e74)]),
        ]),
    ],
)  # fmt: skip
def test_no_claim_is_false(norm: str, problem: Problem, C: float | None) -> None:
    check(solve(problem, norm, C=C))


@every
@pytest.mark.parametrize("size", [1e-320, 5e-324, 1e-300, 1e-200, 1e-170, 1e160, 1e300])
@pytest.mark.parametrize("part", ["W", "multipliers", "both"])
def test_pairs_of_every_size(norm: str, size: float, part: str) -> None:
    # x ≥ 1: any positive W shows 1 from above, any positive multiplier from below.
    problem = Problem.from_rows([[1.0]])
    W = np.array([[size if part != "multipliers" else 1.0]])
    lam = [size if part != "W" else 1.0]
    assert check(certify(problem, norm, W, lam), handed=W).status != "infeasible"


@every
@pytest.mark.parametrize("C", [1.0, 10.0])
def test_soft_margins_with_ties_that_nearly_agree(norm: str, C: float) -> None:
    # The ties leave W1 = W2 = 0, so ½w² + C max(0, 1 − w) is at least 1/2 in every norm.
    problem = Problem.from_rows([[0.0, 1.0, 1.0]], ties=[[1.0, 0.0, 0.0], [1.0, 2.0**-50, 0.0]])
    assert check(solve(problem, norm, C=C)).upper >= 0.5


@every
@pytest.mark.parametrize("power", [40, 47, 52, 60, 120])
def test_a_least_norm_beyond_the_precision_of_floats_is_no_contradiction(
    norm: str, power: int
) -> None:
    # W1 ≥ 1 and −W1 + 2^-power W2 ≥ 1: met by (1, 2^(power + 1)).
    problem = Problem.from_rows([[1.0, 0.0], [-1.0, 2.0**-power]])
    assert Truth(problem, points=[[[1.0], [2.0 ** (power + 1)]]]).feasible
    assert "no W satisfies" not in check(solve(problem, norm)).message


@every
def test_a_least_norm_whose_square_underflows_is_not_zero(norm: str) -> None:
    assert check(solve(Problem.from_rows([[9e74]], [[9e74]], b=[1e-20]), norm)).upper > 0


@every
def test_two_inputs_one_rounding_apart(norm: str) -> None:
    # Both ties together leave W1 = W2 = 0, and the margin W2 + W3 ≥ 1 the norm 1, not 1/√2.
    X = np.repeat([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, -1.0, -1.0]]], 2, axis=0)
    X[1, 0, 1] = 2.0**-52
    kept = np.array([[True, True, False]] * 2)
    assert check(solve(Problem.of(Tokens(X), kept), norm)).upper >= 1
