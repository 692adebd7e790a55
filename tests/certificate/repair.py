"""A matrix that meets every row exactly, next to one that meets them up to rounding."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.certificate.whole import Rows, Whole, solve_gram, whole

# Rounds in which rows that are still missed are added to those that are restored.
ROUNDS = 6
# Rows beyond which an exact least change takes too long.
MOST = 60


@dataclass(frozen=True)
class Point:
    """The matrix whole/denominator (d, dq); the denominator is positive and may be a Fraction."""

    whole: Whole
    denominator: Fraction | int


def point_of(W: Any) -> Point:
    """A matrix of floats."""
    M, exponent = whole(W)
    if M.ndim == 1:
        M = M[:, None]
    if exponent >= 0:
        return Point(M * (1 << exponent), 1)
    return Point(M, 1 << -exponent)


def meets(rows: Rows, point: Point, *, only_ties: bool = False) -> bool:
    """Whether the matrix meets every row exactly."""
    return not _missed(rows, point, 0 if not only_ties else rows.m)


def _missed(rows: Rows, point: Point, first: int = 0) -> list[tuple[int, int]]:
    """Rows that are missed from `first` on, each with the right-hand side it should have."""
    found = []
    for k, v in enumerate(rows.values(point.whole.ravel())):
        high = rows.high[k]
        if k < first:
            continue
        if v < rows.low[k] * point.denominator:
            found.append((k, rows.low[k]))
        elif high is not None and v > high * point.denominator:
            found.append((k, high))
    return found


def repaired(rows: Rows, W: Any, *, only_ties: bool = False) -> Point | None:
    """W with the least change that restores ties and rows that are missed, then scaled up.

    None when nothing near W was found. Without right-hand sides on the ties, margins b > 0 are
    left to the scaling. only_ties: margins are not asked for.
    """
    if W is None or not np.isfinite(W).all():
        return None
    start = point_of(W)
    homogeneous = all(rows.low[k] == rows.high[k] == 0 for k in range(rows.m, rows.count))
    restored: dict[int, int] = {k: rows.low[k] for k in range(rows.m, rows.count) if rows.fixed(k)}
    point: Point | None = start
    for _ in range(ROUNDS):
        if restored:
            if len(restored) > MOST:
                return None
            point = _least_change(rows, start, restored)
        if point is None:
            return None
        missed = _missed(rows, point, rows.m if only_ties else 0)
        if homogeneous:
            missed = [(k, v) for k, v in missed if v == 0]
        new = {k: v for k, v in missed if k not in restored}
        if not missed:
            return point if only_ties else _scaled(rows, point)
        if not new:
            return None
        restored.update(new)
    return None


def _least_change(rows: Rows, start: Point, restored: dict[int, int]) -> Point | None:
    """start plus the least change that gives each restored row its right-hand side.

    The change is Aᵀy with (A Aᵀ) y = right − A·start; None when that has no solution.
    """
    places = list(restored)
    A = rows.a[places]
    gap = [
        restored[k] * start.denominator - v
        for k, v in zip(places, A.dot(start.whole.ravel()), strict=True)
    ]
    if not any(gap):
        return start
    found = solve_gram([list(line) for line in A.dot(A.T)], gap)
    if found.contradiction is not None:
        return None
    change = np.array(found.numerators, dtype=object).dot(A)
    moved = start.whole.ravel() * found.denominator + change
    return Point(moved.reshape(start.whole.shape), start.denominator * found.denominator)


def _scaled(rows: Rows, point: Point) -> Point | None:
    """The point divided by its worst share of a positive margin, where ties allow it."""
    values = rows.values(point.whole.ravel())
    shares = [Fraction(int(values[k]), rows.low[k]) for k in range(rows.m) if rows.low[k] > 0]
    if not shares or any(rows.low[k] or rows.high[k] for k in range(rows.m, rows.count)):
        return point if not _missed(rows, point) else None
    worst = min(shares)
    # W / (worst / denominator) has denominator `worst`.
    return Point(point.whole, worst) if worst > 0 else None
