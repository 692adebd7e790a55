"""A judge of certificates that shares no code with the library.

It reads the raw arrays of the problem and the numbers claimed, and decides each claim in whole
numbers and many digits:

    TRUE      shown, from the data alone
    FALSE     refuted, from the data alone
    UNPROVEN  neither: what is missing stands in the reason

The least Frobenius norm is solved exactly beside it, which decides whether any W meets the rows;
its solution and multipliers serve as witnesses in the other norms too.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tests.certificate.independent_soft import judge_soft
from tests.certificate.repair import Point, meets, point_of, repaired
from tests.certificate.sizes import Norm, at_most, norm_called, number
from tests.certificate.truth import (
    FALSE,
    SHARE,
    TRUE,
    UNPROVEN,
    Claim,
    Truth,
    closed,
    is_proof,
    proves,
    retied,
    weights_of,
)
from tests.certificate.whole import combined

IMPOSSIBLE = ("no W satisfies", "Infeasible: ")


def judge(certificate: Any, truth: Truth, *, handed: Any = None) -> list[Claim]:
    """Every claim of a certificate with its verdict.

    handed: the W that was given to `certify`, if one was.
    """
    norm = norm_called(certificate.norm.name)
    if np.isfinite(certificate.budget):
        return judge_soft(certificate, truth, norm)
    lower = _lower(certificate, truth, norm)
    upper = _upper(certificate, truth, norm)
    claims = [lower, upper, _status(certificate, truth, lower, upper)]
    if certificate.status == "infeasible":
        claims.append(_handed(truth, handed))
        if certificate.proof != "exact":
            said = certificate.message.startswith(IMPOSSIBLE)
            reason = "the message says that no W exists, the proof does not" if said else ""
            claims.append(Claim("message", FALSE if said else TRUE, reason))
    return claims


def _bigger(bound: float) -> Fraction:
    """A rational just above a float: what is proved of it contradicts the float."""
    return Fraction(bound) * (1 + SHARE)


def _within(point: Point, norm: Norm, bound: Fraction) -> bool:
    return at_most(norm, point.whole, (bound * point.denominator) ** 2)


def _lower(certificate: Any, truth: Truth, norm: Norm) -> Claim:
    """lower ≤ least norm, shown by the multipliers."""
    lower = float(certificate.lower)
    weights = weights_of(certificate.multipliers, certificate.tie_multipliers)
    if np.isnan(lower):
        return Claim("lower", FALSE, "lower is NaN")
    if lower <= 0:
        return Claim("lower", TRUE, "")
    if not all(np.isfinite(certificate.multipliers)):
        return Claim("lower", FALSE, "a multiplier is not finite")
    if np.isinf(lower):
        if is_proof(truth.rows, weights) or truth.feasible is False:
            return Claim("lower", TRUE, "")
        verdict = FALSE if truth.feasible else UNPROVEN
        return Claim("lower", verdict, "lower is inf, and no proof that no W exists")
    if proves(truth.rows, weights, norm, Fraction(lower)):
        return Claim("lower", TRUE, "")
    for point in truth.found:
        if _within(point, norm, Fraction(lower) * (1 - SHARE)):
            return Claim("lower", FALSE, f"a matrix of norm below {lower!r} meets every row")
    if truth.feasible is False:
        return Claim("lower", TRUE, "no W exists")
    return Claim("lower", UNPROVEN, f"the multipliers do not show {lower!r}")


def _upper(certificate: Any, truth: Truth, norm: Norm) -> Claim:
    """least norm ≤ upper, shown by a matrix that meets every row exactly."""
    upper = float(certificate.upper)
    if np.isnan(upper) or upper < 0:
        return Claim("upper", FALSE, f"upper is {upper}")
    if np.isinf(upper):
        return Claim("upper", TRUE, "")
    if truth.feasible is False:
        return Claim("upper", FALSE, f"upper is {upper!r}, and no W exists")
    bound = Fraction(upper)
    fixed = repaired(truth.rows, certificate.W)
    if fixed is not None and _within(fixed, norm, bound):
        return Claim("upper", TRUE, "")
    for point in truth.found:
        if _within(point, norm, bound):
            return Claim("upper", TRUE, "by another matrix than W")
    own = weights_of(certificate.multipliers, certificate.tie_multipliers)
    other = retied(truth.rows, own, 0) if not any(truth.rows.low[truth.rows.m :]) else None
    for weights in (own, *truth.bounds(), *(() if other is None else other[:1])):
        positive = combined(truth.rows, weights)[1] > 0
        if positive if upper == 0 else proves(truth.rows, weights, norm, _bigger(upper)):
            return Claim("upper", FALSE, f"upper is {upper!r}, the least norm {_about(truth)}")
    if fixed is None:
        return Claim("upper", UNPROVEN, "no exactly feasible matrix was found near W")
    return Claim("upper", UNPROVEN, f"the matrix next to W is longer than {upper!r}")


def _about(truth: Truth) -> str:
    """What is known of the least norm, for people to read."""
    least = truth.least
    if not least.feasible:
        return "is larger"
    square = Fraction(sum(int(v) ** 2 for v in least.x), least.denominator**2)
    return f"is larger (Frobenius {number(square):.9g})"


def _status(certificate: Any, truth: Truth, lower: Claim, upper: Claim) -> Claim:
    """The status against the bounds that were shown."""
    status = certificate.status
    if status == "infeasible":
        return _infeasible(certificate, truth, lower)
    if status != "optimal":
        known = status == "stalled"
        return Claim("status", TRUE if known else FALSE, "" if known else f"status {status!r}")
    if truth.feasible is False:
        return Claim("status", FALSE, "called optimal, and no W exists")
    if FALSE in (lower.verdict, upper.verdict):
        return Claim("status", FALSE, "called optimal with a false bound")
    if not closed(certificate):
        return Claim("status", FALSE, f"called optimal with a gap of {certificate.gap:.3e}")
    if lower.verdict == upper.verdict == TRUE:
        return Claim("status", TRUE, "")
    return Claim("status", UNPROVEN, "one of the bounds is not shown")


def _infeasible(certificate: Any, truth: Truth, lower: Claim) -> Claim:
    """'infeasible': by a vector, or up to the norm that `lower` names."""
    if np.isfinite(certificate.upper) or certificate.W is not None:
        return Claim("status", FALSE, "called infeasible beside a W")
    if certificate.proof == "numerical":
        if lower.verdict == TRUE and certificate.lower > 0:
            return Claim("status", TRUE, "")
        return Claim("status", lower.verdict if certificate.lower > 0 else FALSE, lower.reason)
    if certificate.proof != "exact":
        return Claim("status", FALSE, f"called infeasible with proof {certificate.proof!r}")
    if truth.feasible:
        return Claim("status", FALSE, "called infeasible, and a W exists")
    vector = getattr(certificate, "farkas", None)
    if vector is not None:
        weights = np.array([int(v) for v in vector], dtype=object)
        if len(weights) == truth.rows.count and is_proof(truth.rows, weights):
            return Claim("status", TRUE, "")
        return Claim("status", FALSE, "the vector combines the rows to no contradiction")
    if truth.feasible is False:
        return Claim("status", TRUE, "")
    own = weights_of(certificate.multipliers, certificate.tie_multipliers)
    shown = is_proof(truth.rows, own)
    return Claim("status", TRUE if shown else UNPROVEN, "" if shown else "no exact vector found")


def _handed(truth: Truth, W: Any) -> Claim:
    """Whoever hands over a feasible W is never told that the problem is infeasible."""
    point = point_of(W) if W is not None and np.isfinite(W).all() else None
    wrong = point is not None and meets(truth.rows, point)
    return Claim("handed", FALSE if wrong else TRUE, "a feasible W was handed over" * wrong)


def tight_claim(certificate: Any, truth: Truth) -> Claim | None:
    """Whether the rows called surely tight and surely loose are so at the exact solution.

    None unless the norm is Frobenius and the exact solution is known.
    """
    least = truth.least
    if norm_called(certificate.norm.name) != 2 or not least.feasible or certificate.W is None:
        return None
    flags = certificate.tight
    for k, v in enumerate(truth.rows.values(least.x)[: truth.rows.m]):
        met = v == truth.rows.low[k] * least.denominator
        if flags.tight[k] and not met:
            return Claim("tight", FALSE, f"margin {k} is called tight and is not")
        if flags.loose[k] and met:
            return Claim("tight", FALSE, f"margin {k} is called loose and is tight")
    return Claim("tight", TRUE, "")
