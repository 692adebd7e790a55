"""The judge itself can fail a certificate: forged ones are never called true."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from attsvm import Certificate, Problem, certify, solve
from tests.certificate.attack import NORMS
from tests.certificate.families import case
from tests.certificate.independent import (
    FALSE,
    TRUE,
    Truth,
    at_most,
    dual_of,
    judge,
    norm_called,
    tight_claim,
    value,
)
from tests.certificate.whole import least_frobenius, power, rows_of, whole

# What a forger adds; far above rounding, and below every gap that is asked for.
FORGED = 1e-10
# x ≥ 1 and −x ≥ 1, and a problem with the solution (1, 1).
IMPOSSIBLE = Problem.from_rows([[1.0], [-1.0]])
POSSIBLE = Problem.from_rows([[1.0, 0.0], [0.0, 1.0]])


def verdicts(certificate: Certificate, truth: Truth, **more: Any) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in judge(certificate, truth, **more)}


def honest(norm: str) -> tuple[Certificate, Truth, float]:
    """A true certificate, the truth, and the least norm, which is known exactly.

    w·x ≥ w·w with w of entries ±1 has the solution w in every norm.
    """
    w = np.array([[1.0], [-1.0], [1.0]])
    problem = Problem.from_rows(w.T, b=[3.0])
    found = certify(problem, norm, w, [1.0])
    return found, Truth(problem), float(value(norm_called(norm), whole(w)[0]))


@pytest.mark.parametrize("norm", NORMS)
def test_an_honest_certificate_is_true(norm: str) -> None:
    found, truth, _ = honest(norm)
    assert found.status == "optimal"
    assert set(verdicts(found, truth).values()) == {TRUE}


# What is forged of a bound, given the least norm and the true lower bound; which claims are false.
FORGERIES = {
    "lower": (lambda least, low: (least * (1 + FORGED), least * (1 + 2 * FORGED)), "lower"),
    "upper": (lambda least, low: (low, least * (1 - FORGED)), "upper"),
    "a wide gap": (lambda least, low: (low * (1 - 1e-3), least * (1 + FORGED)), "status"),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("forge", "claim"), FORGERIES.values(), ids=FORGERIES)
def test_a_forged_bound_is_false(norm: str, forge: Any, claim: str) -> None:
    found, truth, least = honest(norm)
    lower, upper = forge(least, found.lower)
    given = verdicts(replace(found, lower=lower, upper=upper), truth)
    assert given[claim] == given["status"] == FALSE


@pytest.mark.parametrize("norm", NORMS)
def test_an_impossible_problem_called_optimal_is_false(norm: str) -> None:
    found = certify(POSSIBLE, norm, [[1.0], [1.0]], [1.0, 1.0])
    forged = replace(found, problem=IMPOSSIBLE, W=np.array([[1.0]]))
    assert verdicts(forged, Truth(IMPOSSIBLE)) == {"lower": TRUE, "upper": FALSE, "status": FALSE}


@pytest.mark.parametrize("proof", ["exact", "numerical", None])
def test_a_possible_problem_called_infeasible_is_false(proof: Any) -> None:
    found = solve(POSSIBLE)
    forged = replace(found, status="infeasible", proof=proof, W=None, upper=np.inf, lower=1e14)
    given = verdicts(forged, Truth(POSSIBLE), handed=np.array([[1.0], [1.0]]))
    assert given["lower"] == given["status"] == given["handed"] == FALSE


class Forged:
    """A certificate with attributes that `replace` cannot set."""

    def __init__(self, found: Any, **other: Any) -> None:
        self.found = found
        vars(self).update(other)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.found, name)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("change", "claim"), [("lower", "lower"), ("upper", "upper")])
def test_forged_soft_margins_are_not_true(norm: str, change: str, claim: str) -> None:
    # ½w² + C max(0, 1 − w) in one unknown: w = 1 and 1/2 for C ≥ 1, in every norm.
    problem = Problem.from_rows([[1.0]])
    found = certify(problem, norm, [[1.0]], [1.0], budget=4.0)
    truth = Truth(problem)
    assert set(verdicts(found, truth).values()) == {TRUE}
    factor = 1 + FORGED if change == "lower" else 1 - FORGED
    forged = replace(found, **{change: 0.5 * factor})
    assert verdicts(forged, truth)[claim] == FALSE


def test_a_wrong_tight_row_is_false() -> None:
    problem = Problem.from_rows([[1.0, 0.0], [0.0, 1.0], [3.0, 1.0]])
    found, truth = solve(problem), Truth(problem)
    right = tight_claim(found, truth)
    assert right is not None and right.verdict == TRUE
    for tight in (True, False):
        flags = replace(found.tight, tight=np.full(3, tight), loose=np.full(3, not tight))
        given = tight_claim(Forged(found, tight=flags), truth)
        assert given is not None and given.verdict == FALSE


def test_intervals_of_ties_count_with_their_worse_end() -> None:
    # |W1 − .1| ≤ e, |W2 − .2| ≤ e, |W1 + W2 − .3| ≤ e: impossible with e = 0, by one rounding.
    exact = Problem.from_rows(
        np.empty((0, 2)), ties=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], c=[0.1, 0.2, 0.3]
    )
    assert Truth(exact).feasible is False
    for error, feasible in ((0.0, False), (1e-18, False), (1e-16, True)):
        assert Truth(Forged(exact, c_error=np.full(3, error))).feasible is feasible


@pytest.mark.parametrize("seed", range(40))
def test_the_exact_solution_is_its_own_bound(seed: int) -> None:
    # Strong duality, exactly: Σ bλ + Σ cμ = ‖x‖² with x the combination of the rows.
    problem = case(seed).problem
    if problem is None:
        return
    rows = rows_of(problem)
    found = least_frobenius(rows)
    if found.feasible:
        combination = found.multipliers.dot(rows.a)
        right = [
            rows.low[k] if y > 0 or rows.high[k] is None else rows.high[k]
            for k, y in enumerate(found.multipliers)
        ]
        assert all(combination == found.x)
        assert found.multipliers.dot(right) * found.denominator == found.x.dot(found.x)
        assert min(found.multipliers[: rows.m], default=0) >= 0


@pytest.mark.parametrize("norm", NORMS)
def test_norms_are_sharp_to_forty_digits(norm: str) -> None:
    draw = np.random.default_rng(5)
    M = whole(draw.standard_normal((3, 2)))[0]
    kind = norm_called(norm)
    size = value(kind, M)
    mantissa, exponent = size.man_exp
    square = (Fraction(int(mantissa)) * power(int(exponent))) ** 2
    assert at_most(kind, M, square * (1 + Fraction(1, 10**40)))
    assert not at_most(kind, M, square * (1 - Fraction(1, 10**40)))
    assert dual_of(dual_of(kind)) == kind
    plain = {"nuclear": "nuc", "spectral": 2, "frobenius": "fro"}
    floats = M.astype(float)
    if norm in plain:
        assert float(size) == pytest.approx(np.linalg.norm(floats, plain[norm]))
    else:
        p = np.inf if norm == "max" else float(norm[1:])
        assert float(size) == pytest.approx(np.linalg.norm(floats.ravel(), p))
