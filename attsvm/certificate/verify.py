"""Rechecking a certificate from the problem's data, trusting nothing that it says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attsvm._utils.files import finite
from attsvm._utils.result import Result, Summary
from attsvm.certificate.exact import (
    exact_infeasibility,
    exact_lower,
    exact_upper,
    proves,
    residual,
)
from attsvm.errors import Unsupported
from attsvm.norms.norm import UNIT
from attsvm.norms.rational import float_above, float_below

if TYPE_CHECKING:
    from attsvm.certificate import Certificate

# Multipliers are stored scaled, so a float recomputation may differ from the claim by rounding: a
# claim that is wrong by less passes the float check, and only the exact one has no such slack.
_SLACK = 1e-12
# What a numerical proof may leave of its rows, for each of them.
_RESIDUAL = 8 * UNIT
# Products of integers beyond which exact arithmetic would take minutes.
_LARGEST = 40_000_000


@dataclass(frozen=True, repr=False)
class Check(Result):
    """The verdict of a recomputation: whether the claims hold, why not, and the bounds found.

    lower and upper are floats on the safe side of what was recomputed (inf where there is none).

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> best = attsvm.solve(attsvm.Problem.of(tokens, [0]))
    >>> check = best.verify(exact=True)
    >>> check.ok, check.arithmetic, round(check.upper, 6)
    (True, 'exact', 1.0)
    """

    ok: bool
    reason: str
    lower: float
    upper: float
    arithmetic: Literal["float", "exact"]

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data that JSON can hold; infinities are None."""
        found = {"ok": self.ok, "reason": self.reason, "lower": self.lower, "upper": self.upper}
        return dict(finite(found))

    def _card(self) -> Summary:
        said = "holds" if self.ok else f"does not hold: {self.reason}"
        facts = {"lower": self.lower, "upper": self.upper, "arithmetic": self.arithmetic}
        return Summary("Check", f"{said}; {self.arithmetic} arithmetic", facts, brief=True)


def compare(claim: Certificate, again: Certificate) -> Check:
    """The Check of a certificate against the one recomputed in floats from its own pair."""
    reason = ""
    if claim.status == "infeasible":
        if again.status != "infeasible":
            reason = f"not a Farkas certificate: residual {again.residual:.1e}"
    elif claim.lower > again.lower * (1 + _SLACK):
        reason = f"lower is {claim.lower!r}, the multipliers prove {again.lower!r}"
    elif claim.upper < again.upper * (1 - _SLACK):
        reason = f"upper is {claim.upper!r}, W has {again.upper!r}"
    elif claim.status == "optimal" and again.gap > claim.tolerance + 4 * _SLACK:
        reason = f"the gap is {again.gap:.3e}, not within {claim.tolerance:.1e}"
    return Check(not reason, reason, again.lower, again.upper, "float")


def verify_exactly(certificate: Certificate) -> Check:
    """The Check of a certificate against bounds recomputed in exact rational arithmetic.

    Every float is taken as the rational it is; roots, powers and singular values are bounded by
    rationals on the safe side. A lower bound is refused when it exceeds what λ proves, an upper
    bound when it is below the norm (or objective, for a soft margin) of the exactly feasible matrix
    next to W.
    """
    problem = certificate.problem
    d, dq = problem.shape
    numbers = (problem.m + problem.ties + len(problem.queries) * dq + dq * min(d, dq)) * d
    if numbers > _LARGEST:
        raise Unsupported(
            f"exact verification of {problem.m} margins on a {d} x {dq} matrix would take minutes; "
            "verify() without exact=True recomputes both bounds in floats, with the rounding of "
            "every step on the safe side"
        )
    if certificate.proof != "exact" and (certificate.multipliers < 0).any():
        k = int((certificate.multipliers < 0).argmax())
        return Check(False, f"multiplier {k} is negative", 0.0, np.inf, "exact")
    if certificate.status == "infeasible":
        return _infeasible(certificate)
    least, reason = _lower(certificate, certificate.budget)
    lower = float_below(least)
    if not reason and Fraction(certificate.lower) > least:
        reason = f"lower is {certificate.lower!r}, the multipliers prove only {lower!r}"
    upper = np.inf
    if certificate.W is not None:
        given = certificate.problem, certificate.norm, certificate.W
        above = exact_upper(*given, budget=certificate.budget)
        if above.value is None:
            reason = reason or f"no exactly feasible matrix near W: {above.reason}"
        else:
            upper = float_above(above.value)
            if np.isfinite(certificate.upper) and Fraction(certificate.upper) < above.value:
                reason = reason or f"upper is {certificate.upper!r}, W has {upper!r}"
    elif np.isfinite(certificate.upper):
        reason = reason or "an upper bound is claimed without a W"
    if certificate.status == "optimal" and not reason and upper > 0:
        gap = upper / lower - 1 if lower > 0 else np.inf
        if gap > certificate.tolerance:
            reason = f"the gap is {gap:.3e}, not within {certificate.tolerance:.1e}"
    return Check(not reason, reason, lower, upper, "exact")


def _lower(certificate: Certificate, budget: float = np.inf) -> tuple[Fraction, str]:
    """What the multipliers prove, of a soft margin with a budget, and what is wrong with them."""
    pair = certificate.multipliers, certificate.tie_multipliers
    below = exact_lower(certificate.problem, certificate.norm, *pair, budget=budget)
    if below is not None:
        return below, ""
    if budget < np.inf:
        return Fraction(0), f"a multiplier is above the budget C = {budget!r}"
    return Fraction(0), "the multipliers prove that no W exists"


def _infeasible(certificate: Certificate) -> Check:
    """The Check of a claim that no W exists, or (numerical) none of norm below `lower`."""
    problem, lam, mu = certificate.problem, certificate.multipliers, certificate.tie_multipliers
    if certificate.proof == "exact":
        if certificate.farkas is not None and proves(problem, certificate.farkas):
            return Check(True, "", np.inf, np.inf, "exact")
        reason = (
            "false Farkas certificate: its integers do not combine the constraints to zero and "
            "their right-hand sides to a positive number"
        )
        return Check(False, reason, 0.0, np.inf, "exact")
    if exact_infeasibility(problem, lam, mu) is not None:
        return Check(True, "", np.inf, np.inf, "exact")
    least, reason = _lower(certificate)
    lower = float_below(least)
    left = residual(problem, lam, mu)
    if left > _RESIDUAL * (problem.m + problem.ties + 8):
        reason = f"not a Farkas certificate: residual {left:.1e}"
    elif not reason and Fraction(certificate.lower) > least:
        reason = f"lower is {certificate.lower!r}, the multipliers prove only {lower!r}"
    return Check(not reason, reason, lower, np.inf, "exact")
