"""Problems built to break a certificate, in every norm: no claim may be false, nothing may crash.

The judge shares no code with the library; `python -m tests.certificate.attack` prints counts.
"""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import Problem, Tokens, solve
from tests.certificate.attack import NORMS, Attack, outcome, truth_of
from tests.certificate.families import FAMILIES, Case, case, copied

BLOCK, GATE = 100, 2_000
SLOW_BLOCK, SLOW = 2_500, 100_000


# Pairs in a hundred of which the judge may know neither: more would hide what is false.
OPEN = 2


def check(first: int, count: int) -> None:
    """No false claim and no crash, and hardly a claim that stays open."""
    attack = Attack()
    found = [attack.run(pair) for pair in range(first, first + count)]
    faults = "\n".join(str(one) for one in found if one.wrong)
    assert not faults, faults
    undecided = [str(one) for one in found if one.claims]
    assert len(undecided) * 100 <= OPEN * count, "\n".join(undecided)


@pytest.mark.parametrize("first", range(0, GATE, BLOCK))
def test_no_claim_is_false(first: int) -> None:
    check(first, BLOCK)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(GATE, GATE + SLOW, SLOW_BLOCK))
def test_no_claim_of_many_is_false(first: int) -> None:
    check(first, SLOW_BLOCK)


@pytest.mark.slow
def test_six_hundred_ties_and_copies() -> None:
    # The copies lie 2^-30 away from the others; the least norm is √7000 exactly.
    made = copied(np.random.default_rng(0), 300, 7000)
    found = outcome(0, made, truth_of(made), "frobenius")
    assert not found.wrong, found


def test_the_gate_meets_every_family_in_every_norm() -> None:
    seeds = range(GATE // len(NORMS))
    assert {case(seed).family for seed in seeds} >= set(FAMILIES)


def nearly_opposite(k: int) -> Problem:
    draw = np.random.default_rng(k)
    R = draw.standard_normal((2, 3))
    return Problem.from_rows(np.concatenate([R, -R + 10.0**-k * draw.standard_normal((2, 3))]))


def one_rounding_apart() -> Problem:
    """Both ties leave W1 = W2 = 0, and the margin W2 + W3 ≥ 1 the norm 1, not 1/√2."""
    X = np.repeat([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, -1.0, -1.0]]], 2, axis=0)
    X[1, 0, 1] = 2.0**-52
    return Problem.of(Tokens(X), np.array([[True, True, False]] * 2))


# W1 = 0 and W1 + apart·W2 = 0 leave W2 = 0, so the margin W2 ≥ 1 cannot be met; nor can right-hand
# sides of one tie that are one rounding apart.
CLASHES = [
    *(Problem.from_rows([[0.0, 1.0]], ties=[[1.0, 0.0], [1.0, apart]])
      for apart in (1e-3, 1e-12, 2.0**-52)),
    Problem.from_rows([[0.0, 1.0]], ties=[[1.0, 0.0]] * 2, c=[1.0, float(np.nextafter(1.0, 2.0))]),
]  # fmt: skip
# Certificates of these were false once; with the C of a soft margin.
ONCE_FALSE = [
    *((problem, None) for problem in CLASHES),
    *((nearly_opposite(k), None) for k in (8, 12, 16)),
    (one_rounding_apart(), None),
    # W1 ≥ 1 and −W1 + 2^-52 W2 ≥ 1: met by (1, 2^53), of which floats see nothing
    (Problem.from_rows([[1.0, 0.0], [-1.0, 2.0**-52]]), None),
    (Problem.from_rows([[9e74]], [[9e74]], b=[1e-20]), None),  # the square of the norm underflows
    (Problem.from_rows([[1.0], [-1.0]]), 1e-300),
    (Problem.from_rows([[1.0], [2.0]]), 1e300),
    (Problem.from_rows([[0.0, 1.0, 1.0]], ties=[[1.0, 0.0, 0.0], [1.0, 2.0**-50, 0.0]]), 10.0),
]


@pytest.mark.parametrize("norm", NORMS)
def test_no_claim_of_what_was_false_once_is_false(norm: str) -> None:
    for problem, C in ONCE_FALSE:
        made = Case(problem, budget=C)
        found = outcome(0, made, truth_of(made), norm)
        assert not found.wrong, found


@pytest.mark.filterwarnings("ignore::attsvm.errors.ConvergenceWarning")
def test_ties_that_nearly_agree_are_not_solved() -> None:
    for problem in CLASHES:
        assert truth_of(Case(problem, feasible=False)).feasible is False
        assert solve(problem).status != "optimal"
