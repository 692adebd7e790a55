"""Certificates that were false once, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attsvm import Problem, Selection, Tokens, certify, solve
from attsvm.errors import ConvergenceWarning
from tests.certificate.attack import NORMS
from tests.certificate.independent import FALSE, Truth, judge

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}"
)


def refuted(certificate: Any, **more: Any) -> list[Any]:
    """The claims that are false."""
    found = judge(certificate, Truth(certificate.problem), **more)
    return [claim for claim in found if claim.verdict == FALSE]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("apart", [1e-3, 1e-9, 1e-12, 1e-15, 2.0**-52])
def test_two_ties_that_nearly_agree(norm: str, apart: float) -> None:
    # W1 = 0 and W1 + apart·W2 = 0 leave W2 = 0: the margin W2 ≥ 1 cannot be met.
    problem = Problem.from_rows([[0.0, 1.0]], ties=[[1.0, 0.0], [1.0, apart]])
    assert Truth(problem).feasible is False
    best = solve(problem, norm)
    assert not refuted(best), best
    assert best.status != "optimal"


@pytest.mark.parametrize("norm", NORMS)
def test_decimals_that_do_not_add_up(norm: str) -> None:
    # .1 + .2 is not .3 in floats.
    problem = Problem.from_rows(
        np.empty((0, 2)), ties=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], c=[0.1, 0.2, 0.3]
    )
    best = solve(problem, norm)
    assert not refuted(best), best


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(4))
def test_two_inputs_equal_up_to_rounding(norm: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    X = np.repeat(draw.standard_normal((1, 4, 4)), 2, axis=0)
    X[1] = np.nextafter(X[1], draw.choice([-9.0, 9.0], X[1].shape))
    tokens = Tokens(X)
    kept = np.zeros((2, 4), dtype=bool)
    kept[:, :2] = True
    best = solve(Problem.of(tokens, Selection.of(tokens, kept)), norm)
    assert not refuted(best), best


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("size", [1e-320, 5e-324, 1e-300, 1e-200, 1e-170, 1e160, 1e300])
@pytest.mark.parametrize("part", ["W", "multipliers", "both"])
def test_pairs_of_every_size(norm: str, size: float, part: str) -> None:
    # x ≥ 1: any positive W shows 1 from above, any positive multiplier from below.
    problem = Problem.from_rows([[1.0]])
    W = np.array([[size if part != "multipliers" else 1.0]])
    lam = [size if part != "W" else 1.0]
    found = certify(problem, norm, W, lam)
    assert not refuted(found, handed=W), found
    assert found.status != "infeasible"


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("k", range(6, 18))
def test_rows_that_are_nearly_opposite(norm: str, k: int) -> None:
    draw = np.random.default_rng(k)
    R = draw.standard_normal((2, 3))
    back = -R + 10.0**-k * draw.standard_normal((2, 3))
    best = solve(Problem.from_rows(np.concatenate([R, back])), norm)
    assert not refuted(best), best


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(6))
def test_a_grid_with_noise(norm: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    X = draw.integers(-1, 2, (3, 4, 3)) + 2.0**-30 * draw.integers(-1, 2, (3, 4, 3))
    tokens = Tokens(X)
    best = solve(Problem.of(tokens, Selection.of(tokens, np.zeros(3, dtype=int))), norm)
    assert not refuted(best), best


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("C", [1e-300, 1e-200, 1e200, 1e300])
@pytest.mark.parametrize("rows", [[[1.0]], [[1.0], [-1.0]], [[1.0], [2.0]]])
def test_soft_margins_of_every_budget(norm: str, C: float, rows: list[list[float]]) -> None:
    best = solve(Problem.from_rows(rows), norm, C=C)
    assert not refuted(best), best


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("size", "b"), [(9e74, 1e-75), (9e74, 9e74), (1e-60, 9e74), (1.0, 9e74)])
def test_the_largest_and_the_smallest_data(norm: str, size: float, b: float) -> None:
    tokens = Tokens(
        np.array([[[1.0, 0.5], [-0.5, 0.25], [0.0, -1.0]]]) * size,
        queries=np.array([[1.0, -0.5]]) * size,
    )
    best = solve(Problem.of(tokens, Selection.of(tokens, [0]), b=[b]), norm)
    assert not refuted(best), best


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("power", [40, 47, 52, 60, 120])
def test_a_least_norm_beyond_all_floats_precision_is_no_contradiction(
    norm: str, power: int
) -> None:
    # W1 ≥ 1 and −W1 + 2^-power W2 ≥ 1: met by (1, 2^(power + 1)).
    problem = Problem.from_rows([[1.0, 0.0], [-1.0, 2.0**-power]])
    assert Truth(problem, points=[[[1.0], [2.0 ** (power + 1)]]]).feasible
    best = solve(problem, norm)
    assert not refuted(best), best
    assert "no W satisfies" not in best.message


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("C", [1.0, 10.0])
def test_soft_margins_with_ties_that_nearly_agree(norm: str, C: float) -> None:
    # The ties leave W1 = W2 = 0, so ½w² + C max(0, 1 − w) is at least 1/2 in every norm.
    problem = Problem.from_rows([[0.0, 1.0, 1.0]], ties=[[1.0, 0.0, 0.0], [1.0, 2.0**-50, 0.0]])
    best = solve(problem, norm, C=C)
    assert not refuted(best), best
    assert best.upper >= 0.5


@pytest.mark.parametrize("norm", NORMS)
def test_a_least_norm_whose_square_underflows_is_not_zero(norm: str) -> None:
    best = solve(Problem.from_rows([[9e74]], [[9e74]], b=[1e-20]), norm)
    assert not refuted(best), best
    assert best.upper > 0


@pytest.mark.parametrize("norm", NORMS)
def test_right_hand_sides_of_one_tie_one_rounding_apart(norm: str) -> None:
    level = float(np.nextafter(1.0, 2.0))
    problem = Problem.from_rows([[0.0, 1.0]], ties=[[1.0, 0.0], [1.0, 0.0]], c=[1.0, level])
    assert Truth(problem).feasible is False
    best = solve(problem, norm)
    assert not refuted(best), best


@pytest.mark.parametrize("norm", NORMS)
def test_two_inputs_one_rounding_apart(norm: str) -> None:
    # Both ties together leave W1 = W2 = 0, and the margin W2 + W3 ≥ 1 the norm 1, not 1/√2.
    X = np.repeat([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, -1.0, -1.0]]], 2, axis=0)
    X[1, 0, 1] = 2.0**-52
    tokens = Tokens(X)
    kept = np.array([[True, True, False]] * 2)
    best = solve(Problem.of(tokens, Selection.of(tokens, kept)), norm)
    assert not refuted(best), best
    assert best.upper >= 1
