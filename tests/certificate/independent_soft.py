"""The judge of soft margins: bounds on ½‖W‖² + C Σ ξ_k, in whole numbers and many digits.

    Σ bλ + Σ cμ − ½‖A*λ + C*μ‖²_dual  ≤  least value  ≤  ½‖W‖² + C Σ max(0, b − margin)

for 0 ≤ λ ≤ C and any W that meets the ties.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from tests.certificate.repair import Point, meets, point_of, repaired
from tests.certificate.sizes import Norm, at_most, dual_of
from tests.certificate.truth import (
    FALSE,
    SHARE,
    TRUE,
    UNPROVEN,
    Claim,
    Truth,
    closed,
    retied,
    weights_and_exponent,
)
from tests.certificate.whole import combined, power


def judge_soft(certificate: Any, truth: Truth, norm: Norm) -> list[Claim]:
    """The claims of a soft-margin certificate."""
    lower, upper = _lower(certificate, truth, norm), _upper(certificate, truth, norm)
    return [lower, upper, _status(certificate, lower, upper)]


def _dual_reaches(
    certificate: Any, truth: Truth, norm: Norm, bound: Fraction, *, other_ties: bool = False
) -> bool:
    """Whether the multipliers, cut at C, show that the least value is at least `bound`.

    other_ties: with the multipliers of ties that suit the Frobenius norm best.
    """
    weights, exponent = weights_and_exponent(
        certificate.multipliers, certificate.tie_multipliers, float(certificate.budget)
    )
    factor = power(exponent)
    if other_ties:
        found = retied(truth.rows, weights, exponent)
        if found is None:
            return False
        weights, factor = found
    G, worth, least = combined(truth.rows, weights)
    unit = factor * power(least)
    room = 2 * (worth * unit - bound) / unit**2
    return at_most(dual_of(norm), G.reshape(truth.rows.shape), room)


def _primal_within(
    certificate: Any, truth: Truth, norm: Norm, point: Point, bound: Fraction
) -> bool:
    """Whether this matrix, which meets the ties, has an objective of at most `bound`."""
    rows = truth.rows
    values = rows.values(point.whole.ravel())
    short = Fraction(0)
    for k in range(rows.m):
        lack = rows.low[k] - Fraction(int(values[k])) / point.denominator
        if lack > 0:
            short += lack * power(rows.shift[k])
    room = 2 * (bound - Fraction(float(certificate.budget)) * short)
    return at_most(norm, point.whole, room * Fraction(point.denominator) ** 2)


def _points(certificate: Any, truth: Truth) -> Iterator[Point]:
    """Matrices that meet the ties exactly."""
    found = repaired(truth.rows, certificate.W, only_ties=True)
    if found is not None:
        yield found
    zero = point_of(np.zeros(truth.rows.shape))
    if meets(truth.rows, zero, only_ties=True):
        yield zero
    yield from truth.found


def _lower(certificate: Any, truth: Truth, norm: Norm) -> Claim:
    lower = float(certificate.lower)
    if np.isnan(lower):
        return Claim("lower", FALSE, "lower is NaN")
    if lower <= 0:
        return Claim("lower", TRUE, "")
    if np.isinf(lower):
        wrong = any(True for _ in _points(certificate, truth))
        return Claim("lower", FALSE if wrong else UNPROVEN, "lower is inf")
    if _dual_reaches(certificate, truth, norm, Fraction(lower)):
        return Claim("lower", TRUE, "")
    for point in _points(certificate, truth):
        if _primal_within(certificate, truth, norm, point, Fraction(lower) * (1 - SHARE)):
            return Claim("lower", FALSE, f"a matrix has an objective below {lower!r}")
    return Claim("lower", UNPROVEN, f"the multipliers do not show {lower!r}")


def _upper(certificate: Any, truth: Truth, norm: Norm) -> Claim:
    upper = float(certificate.upper)
    if np.isnan(upper) or upper < 0:
        return Claim("upper", FALSE, f"upper is {upper}")
    if np.isinf(upper):
        return Claim("upper", TRUE, "")
    for point in _points(certificate, truth):
        if _primal_within(certificate, truth, norm, point, Fraction(upper)):
            return Claim("upper", TRUE, "")
    for other in (False, True):
        bound = Fraction(upper) * (1 + SHARE)
        if _dual_reaches(certificate, truth, norm, bound, other_ties=other):
            return Claim("upper", FALSE, f"multipliers show more than {upper!r}")
    if _ties_contradict(truth):
        return Claim("upper", FALSE, f"upper is {upper!r}, and no W meets the ties")
    return Claim("upper", UNPROVEN, f"no matrix found with an objective of {upper!r}")


def _ties_contradict(truth: Truth) -> bool:
    """Whether the proof that no W exists uses ties alone."""
    least = truth.least
    return least.feasible is False and not any(least.multipliers[: truth.rows.m])


def _status(certificate: Any, lower: Claim, upper: Claim) -> Claim:
    if certificate.status == "stalled":
        return Claim("status", TRUE, "")
    if certificate.status != "optimal":
        return Claim("status", FALSE, f"a soft margin called {certificate.status}")
    if FALSE in (lower.verdict, upper.verdict):
        return Claim("status", FALSE, "called optimal with a false bound")
    if not closed(certificate):
        return Claim("status", FALSE, f"called optimal with a gap of {certificate.gap:.3e}")
    shown = lower.verdict == upper.verdict == TRUE
    return Claim("status", TRUE if shown else UNPROVEN, "" if shown else "a bound is not shown")
