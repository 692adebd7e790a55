"""When a head will be saturated: the odds of its top token, carried on along their own course.

A query is saturated when its largest attention p is at least `level`, a head when half of its
queries are: when the median m of log(p/(1 − p)) is at least log(level/(1 − level)). Under steps of
one length margins grow like the number of steps t, under plain descent like log t. So m is fitted
by a line over t and by one over log t, through the last records; the one that fits better gives the
estimate, the two together the range. It is an extrapolation, and no promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats

# Records that a line is fitted to, and how many times its standard error a slope must be.
LATEST, SURE = 6, 2.0


class SaturationWarning(UserWarning):
    """A head of a model in training is about to saturate, or has.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SaturationWarning)  # of a run that is meant to saturate
    >>> issubclass(SaturationWarning, UserWarning)
    True
    """


class Saturation(NamedTuple):
    """The warning of one head: given at `step`, for about `expected`, between `first` and `last`.

    expected is `step` itself where the head was already saturated when it was looked at.

    >>> Saturation(40, "encoder", 2, 64, 55, 80).message.partition(" (")[0]
    'step 40: head 2 of encoder will be saturated at about step 64 if it goes on so'
    """

    step: int
    layer: str
    head: int
    expected: float
    first: float
    last: float

    @property
    def message(self) -> str:
        """One sentence."""
        who = f"step {self.step}: head {self.head} of {self.layer}"
        if self.expected <= self.step:
            return f"{who} is saturated: half of its queries give nearly all attention to one key"
        last = "never" if math.isinf(self.last) else f"step {self.last:,.0f}"
        return (
            f"{who} will be saturated at about step {self.expected:,.0f} if it goes on so "
            f"(between step {self.first:,.0f}, at the present pace by steps, and {last}, by "
            "their logarithm)"
        )


class Course(NamedTuple):
    """Where a course is expected to reach its target: the better line's step, and the range."""

    expected: float
    first: float
    last: float


def course_of(steps: Sequence[float], odds: Sequence[float], target: float) -> Course | None:
    """When odds that are below the target will reach it; None where they do not clearly rise."""
    return courses_of(steps, np.asarray(odds, dtype=np.float64)[:, None], target)[0]


def courses_of(steps: Sequence[float], odds: Floats, target: float) -> list[Course | None]:
    """`course_of` each column of odds (records, heads), all at once."""
    t = np.asarray(steps[-LATEST:], dtype=np.float64)
    m = odds[-LATEST:]
    if len(t) < LATEST:
        return [None] * m.shape[1]
    known = np.isfinite(m).all(axis=0)
    m = np.where(known, m, 0.0)
    way = np.maximum(target - m[-1], 0.0)
    found: list[list[tuple[float, float]]] = [[] for _ in range(m.shape[1])]
    for x, back in ((t, float), (np.log1p(t), _back)):
        slope, error, residual = _lines(x, m)
        for head in np.flatnonzero(known & (slope > 0) & (slope > SURE * error)):
            # From the last record on: what was reached stays reached.
            found[head].append((float(residual[head]), back(x[-1] + way[head] / slope[head])))
    return [_between(both) if both else None for both in found]


def _between(found: list[tuple[float, float]]) -> Course:
    """The course of the better of one or two lines, (squared residuals, step) each."""
    ends = [at for _, at in found]
    return Course(min(found)[1], min(ends), max(ends))


def _lines(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """(slope, its standard error, squared residuals) of the lines of least squares, by column."""
    dx, dy = x - x.mean(), y - y.mean(axis=0)
    square = float(dx @ dx)
    if square == 0:
        nothing = np.full(y.shape[1], np.inf)
        return np.zeros(y.shape[1]), nothing, nothing
    slope = dx @ dy / square
    residual = ((dy - dx[:, None] * slope) ** 2).sum(axis=0)
    return slope, np.sqrt(residual / max(len(x) - 2, 1) / square), residual


def _back(x: float) -> float:
    return math.expm1(x) if x < 700 else math.inf
