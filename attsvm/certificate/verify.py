"""Rechecking a certificate from the problem's data, trusting nothing that it says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from attsvm.certificate.exact.bounds import exact_lower, exact_upper
from attsvm.certificate.exact.farkas import exact_infeasibility
from attsvm.errors import Unsupported
from attsvm.norms.rational import float_above, float_below

if TYPE_CHECKING:
    from attsvm.certificate import Certificate

# Multipliers are stored scaled, so a float recomputation may differ from the claim by rounding.
_SLACK = 1e-12
# Rows times entries of W beyond which exact arithmetic would take minutes.
_LARGEST = 2_000_000


@dataclass(frozen=True)
class Check:
    """The verdict of a recomputation: whether the claims hold, why not, and the bounds found.

    lower and upper are floats on the safe side of what was recomputed (inf where there is none).
    """

    ok: bool
    reason: str
    lower: float
    upper: float
    arithmetic: Literal["float", "exact"]

    def __bool__(self) -> bool:
        return self.ok


def compare(claim: Certificate, again: Certificate) -> Check:
    """The Check of a certificate against the one recomputed in floats from its own pair."""
    reason = ""
    if claim.status == "inseparable":
        if again.status != "inseparable":
            reason = f"the multipliers leave {again.residual:.1e} of the rows: not a proof"
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
    bound when it is below the norm of the exactly feasible matrix next to W.
    """
    problem, norm = certificate.problem, certificate.norm
    if np.isfinite(certificate.budget):
        raise Unsupported("exact verification is for hard margins: verify the soft one in floats")
    size = (problem.m + problem.ties) * problem.shape[0] * problem.shape[1]
    if size > _LARGEST:
        raise Unsupported(
            f"exact verification of {problem.m} margins on a {problem.shape[0]} x "
            f"{problem.shape[1]} matrix would take too long; it is meant for small problems"
        )
    lam, mu = certificate.multipliers, certificate.tie_multipliers
    if certificate.status == "inseparable":
        proof = exact_infeasibility(problem, lam, mu)
        if proof is None:
            reason = "no exact combination of the rows to zero was found near the multipliers"
            return Check(False, reason, certificate.lower, np.inf, "exact")
        return Check(True, "", np.inf, np.inf, "exact")
    below = exact_lower(problem, norm, lam, mu)
    if below.infeasible:
        return Check(False, "the multipliers prove that no W exists", np.inf, np.inf, "exact")
    least = Fraction(0) if below.value is None else below.value
    lower = float_below(least)
    reason = ""
    if Fraction(certificate.lower) > least:
        reason = f"lower is {certificate.lower!r}, the multipliers prove only {lower!r}"
    upper = np.inf
    if certificate.W is not None:
        above = exact_upper(problem, norm, certificate.W)
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
