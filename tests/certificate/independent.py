"""The judge of certificates: what is known of a problem, and which claims are true.

It reads the raw arrays of the problem and the numbers claimed, and decides each claim in whole
numbers and many digits:

    TRUE      shown, from the data alone
    FALSE     refuted, from the data alone
    UNPROVEN  neither: what is missing stands in the reason

The least Frobenius norm is solved exactly beside it, which decides whether any W meets the rows;
its solution and multipliers serve as witnesses in the other norms too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from tests.certificate.whole import (
    MOST,
    Least,
    Point,
    Rows,
    Whole,
    combined,
    is_psd,
    least_frobenius,
    meets,
    point_of,
    power,
    repaired,
    rows_of,
    solve_gram,
    whole,
)  # fmt: skip

DIGITS = 60
# Two numbers of so many digits that differ by less than this share are the same number.
SAME = Fraction(1, 10**50)

Norm = str | Fraction  # "nuclear", "spectral", "max", or the power of an entrywise norm


def norm_called(name: str) -> Norm:
    """The norm of this name: 'frobenius' and 'l1' are powers 2 and 1."""
    if name in ("nuclear", "spectral", "max"):
        return name
    return Fraction(2) if name == "frobenius" else Fraction(name[1:])


def dual_of(norm: Norm) -> Norm:
    """The dual norm."""
    pairs: dict[Norm, Norm] = {
        "nuclear": "spectral", "spectral": "nuclear", "max": Fraction(1), Fraction(1): "max"
    }  # fmt: skip
    if norm in pairs:
        return pairs[norm]
    assert isinstance(norm, Fraction)
    return norm / (norm - 1)


def at_most(norm: Norm, M: Whole, square: Fraction) -> bool:
    """Whether ‖M‖² ≤ square, for a matrix M (d, dq) of ints."""
    if square < 0:
        return False
    top, bottom = square.numerator, square.denominator
    norm = _plain(norm, M)
    if norm == "max":
        return max((abs(v) for v in M.flat), default=0) ** 2 * bottom <= top
    if norm == "spectral":
        S = _small_gram(M)
        return is_psd(top * np.eye(len(S), dtype=int).astype(object) - bottom * S)
    if isinstance(norm, Fraction) and norm.denominator == 1:
        p = norm.numerator
        total = sum(abs(v) ** p for v in M.flat)
        if p == 2:
            return total * bottom <= top
        return bool(total**2 * bottom**p <= top**p)
    if not M.any():
        return True
    if square == 0:
        return False
    with mpmath.workdps(DIGITS):
        ratio = value(norm, M) ** 2 * bottom / top
        return bool(ratio <= 1 + mpmath.mpf(SAME.numerator) / SAME.denominator)


def value(norm: Norm, M: Whole) -> Any:
    """‖M‖ as a number of mpmath, to DIGITS digits."""
    with mpmath.workdps(DIGITS):
        norm = _plain(norm, M)
        if norm == "max":
            return mpmath.mpf(max((abs(v) for v in M.flat), default=0))
        if isinstance(norm, Fraction):
            p = mpmath.mpf(norm.numerator) / norm.denominator
            top = max((abs(v) for v in M.flat), default=0)
            if top == 0:
                return mpmath.mpf(0)
            if norm == 2:
                return mpmath.sqrt(sum(v * v for v in M.flat))
            return top * mpmath.fsum((mpmath.mpf(abs(v)) / top) ** p for v in M.flat if v) ** (
                1 / p
            )
        squares = _squares(M)
        if norm == "spectral":
            return mpmath.sqrt(max(squares))
        return mpmath.fsum(mpmath.sqrt(max(s, 0)) for s in squares)


def _plain(norm: Norm, M: Whole) -> Norm:
    """A norm of singular values of a matrix of rank one or less is the Frobenius norm."""
    return Fraction(2) if norm in ("nuclear", "spectral") and min(M.shape) == 1 else norm


def _small_gram(M: Whole) -> Whole:
    """MᵀM or MMᵀ, the smaller one."""
    return M.T.dot(M) if M.shape[0] >= M.shape[1] else M.dot(M.T)


def _squares(M: Whole) -> list[Any]:
    """The squares of the singular values, in twice the digits that their roots keep."""
    with mpmath.workdps(2 * DIGITS + 10):
        S = _small_gram(M)
        top = max(int(v) for v in S.flat) or 1
        scaled = mpmath.matrix([[mpmath.mpf(int(v)) / top for v in line] for line in S])
        if len(S) == 1:
            found = [scaled[0, 0]]
        else:
            found = list(mpmath.eigsy(scaled, eigvals_only=True))
        return [v * top for v in found]


TRUE, FALSE, UNPROVEN = "TRUE", "FALSE", "UNPROVEN"
# A gap may exceed the tolerance by this share of it: the tolerance itself is a rounded number.
TOLERANCE_SHARE = Fraction(1, 10**9)
# Far below any rounding: what is refuted is refuted by more than this share.
SHARE = Fraction(1, 10**40)


@dataclass(frozen=True)
class Claim:
    """One thing a certificate says, and what became of it."""

    name: str
    verdict: str
    reason: str


@dataclass
class Truth:
    """What is known of a problem without any solver.

    feasible: None when not known. points: matrices (floats) that may meet the rows; each is
    tested. weights: multipliers in whole numbers that bound the least norm from below.
    """

    problem: Any
    feasible: bool | None = None
    points: list[Any] = field(default_factory=list)
    weights: list[Whole] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows: Rows = rows_of(self.problem)
        self.least: Least = least_frobenius(self.rows)
        premise, self.found = self.feasible, list(self._witnesses())
        if self.least.feasible is False and not is_proof(self.rows, next(self.bounds())):
            raise AssertionError("the exact method ended with a vector that proves nothing")
        if self.least.feasible is not None:
            self.feasible = self.least.feasible
        elif self.found:
            self.feasible = True
        if premise is not None and self.feasible != premise:
            raise AssertionError(f"the instance was built {premise}, and is {self.feasible}")

    def _witnesses(self) -> Iterator[Point]:
        """Matrices that meet every row exactly."""
        if self.least.feasible:
            point = Point(self.least.x.reshape(self.rows.shape), self.least.denominator)
            if not meets(self.rows, point):
                raise AssertionError("the exact method ended with a matrix that misses a row")
            yield point
        for W in self.points:
            point = point_of(W)
            if not meets(self.rows, point):
                raise AssertionError("a point that the instance was built from misses a row")
            yield point

    def bounds(self) -> Iterator[Whole]:
        """Multipliers in whole numbers on the problem's own rows, each a lower bound."""
        if self.least.multipliers is not None:
            top = max(self.rows.shift, default=0)
            yield np.array(
                [
                    int(v) << (top - s)
                    for v, s in zip(self.least.multipliers, self.rows.shift, strict=True)
                ],
                dtype=object,
            )
        for weights in self.weights:
            if min(weights[: self.rows.m], default=0) < 0:
                raise AssertionError("a multiplier that the instance was built from is negative")
            yield weights


def weights_of(multipliers: Any, tie_multipliers: Any) -> Whole:
    """Whole numbers proportional to the multipliers, negative ones and no numbers being 0."""
    return weights_and_exponent(multipliers, tie_multipliers)[0]


def weights_and_exponent(
    multipliers: Any, tie_multipliers: Any, most: float = np.inf
) -> tuple[Whole, int]:
    """The multipliers as whole numbers times a power of two, margins cut to [0, most]."""
    lam = np.nan_to_num(np.asarray(multipliers, dtype=float), nan=0.0, posinf=0.0, neginf=0.0)
    mu = np.nan_to_num(np.asarray(tie_multipliers, dtype=float), nan=0.0, posinf=0.0, neginf=0.0)
    return whole(np.concatenate([np.clip(lam, 0.0, most), mu]))


def proves(rows: Rows, weights: Whole, norm: Norm, bound: Fraction) -> bool:
    """Whether these multipliers show that the least norm is at least `bound`."""
    G, worth, _ = combined(rows, weights)
    if worth <= 0:
        return bound <= 0
    if bound <= 0:
        return True
    return at_most(dual_of(norm), G.reshape(rows.shape), (Fraction(worth) / bound) ** 2)


def is_proof(rows: Rows, weights: Whole) -> bool:
    """Whether these multipliers show exactly that no W exists."""
    G, worth, _ = combined(rows, weights)
    return worth > 0 and not G.any() and min(weights[: rows.m], default=0) >= 0


def retied(rows: Rows, weights: Whole, exponent: int) -> tuple[Whole, Fraction] | None:
    """The same multipliers of margins with the best ones of ties for the Frobenius norm.

    weights · 2^exponent are multipliers; with G = A*λ + C*μ the best μ has C G = c. Returns whole
    numbers and the factor that makes multipliers of them, None where ties are many or contradict.
    """
    ties = list(range(rows.m, rows.count))
    if not ties or len(ties) > MOST:
        return None
    margins = np.array([*weights[: rows.m], *[0] * len(ties)], dtype=object)
    G, _, least = combined(rows, margins)
    A = rows.a[ties]
    unit = power(exponent + least)
    right = [
        rows.low[k] * unit.denominator - unit.numerator * int(v)
        for k, v in zip(ties, A.dot(G), strict=True)
    ]
    found = solve_gram([list(line) for line in A.dot(A.T)], right)
    if found.contradiction is not None:
        return None
    share = found.denominator * unit.denominator
    base = min(exponent, -max(rows.shift[k] for k in ties))
    out = [int(v) * share << (exponent - base) for v in weights[: rows.m]]
    out += [v << (-rows.shift[k] - base) for k, v in zip(ties, found.numerators, strict=True)]
    return np.array(out, dtype=object), power(base) / share


def closed(certificate: Any) -> bool:
    """Whether upper ≤ lower (1 + tolerance), exactly."""
    lower, upper = float(certificate.lower), float(certificate.upper)
    if upper == 0:
        return True
    if not (np.isfinite(lower) and np.isfinite(upper)):
        return False
    share = Fraction(float(certificate.tolerance)) * (1 + TOLERANCE_SHARE)
    return Fraction(upper) <= Fraction(lower) * (1 + share)


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
            return Claim("upper", FALSE, f"upper is {upper!r}, the least norm is larger")
    if fixed is None:
        return Claim("upper", UNPROVEN, "no exactly feasible matrix was found near W")
    return Claim("upper", UNPROVEN, f"the matrix next to W is longer than {upper!r}")


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


def judge_soft(certificate: Any, truth: Truth, norm: Norm) -> list[Claim]:
    """The claims of a soft-margin certificate."""
    lower, upper = _soft_lower(certificate, truth, norm), _soft_upper(certificate, truth, norm)
    return [lower, upper, _soft_status(certificate, lower, upper)]


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


def _soft_lower(certificate: Any, truth: Truth, norm: Norm) -> Claim:
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


def _soft_upper(certificate: Any, truth: Truth, norm: Norm) -> Claim:
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


def _soft_status(certificate: Any, lower: Claim, upper: Claim) -> Claim:
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
