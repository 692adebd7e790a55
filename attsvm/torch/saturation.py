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
    t = np.asarray(steps[-LATEST:], dtype=np.float64)
    m = np.asarray(odds[-LATEST:], dtype=np.float64)
    known = np.isfinite(m)
    t, m = t[known], m[known]
    if len(t) < LATEST:
        return None
    found = []
    for x, back in ((t, float), (np.log1p(t), _back)):
        slope, error, residual = _line(x, m)
        if slope <= 0 or slope <= SURE * error:
            continue
        # From the last record on: what was reached stays reached.
        at = x[-1] + max(target - float(m[-1]), 0.0) / slope
        found.append((residual, back(at)))
    if not found:
        return None
    ends = [at for _, at in found]
    return Course(min(found)[1], min(ends), max(ends))


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """(slope, its standard error, sum of squared residuals) of the line of least squares."""
    dx, dy = x - x.mean(), y - y.mean()
    square = float(dx @ dx)
    if square == 0:
        return 0.0, math.inf, math.inf
    slope = float(dx @ dy) / square
    residual = float(((dy - slope * dx) ** 2).sum())
    return slope, math.sqrt(residual / max(len(x) - 2, 1) / square), residual


def _back(x: float) -> float:
    return math.expm1(x) if x < 700 else math.inf
