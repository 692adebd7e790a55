"""What is true of a problem, from its arrays alone: the witnesses that claims are held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tests.certificate.least_frobenius import Least, least_frobenius
from tests.certificate.repair import MOST, Point, meets, point_of
from tests.certificate.sizes import Norm, at_most, dual_of
from tests.certificate.whole import Rows, Whole, combined, power, rows_of, solve_gram, whole

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
