"""Problems built to break a certificate, in every norm: no claim may be false, nothing may crash.

The judge shares no code with the library; `python -m tests.certificate.attack` prints counts.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.certificate.attack import NORMS, Attack, outcome, truth_of
from tests.certificate.families import FAMILIES, case, copied

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


def test_a_case_is_its_seed() -> None:
    one, two = case(7).problem, case(7).problem
    assert one is not None and two is not None
    assert np.array_equal(one.keys, two.keys) and np.array_equal(one.c, two.c)
