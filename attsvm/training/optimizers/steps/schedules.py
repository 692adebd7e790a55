"""Schedules: the factor on the step size at each step, η_t = η · factor(t), t from 0."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, sqrt

from attsvm._utils.expected import shown
from attsvm.errors import Unsupported

Schedule = Callable[[int], float]


def constant(step: int) -> float:
    """1 at every step."""
    return 1.0


def inverse_sqrt(step: int) -> float:
    """1/√(t + 1)."""
    return 1.0 / sqrt(step + 1)


SCHEDULES: dict[str, Schedule] = {"constant": constant, "sqrt": inverse_sqrt}


def schedule_of(spec: str | Schedule) -> Schedule:
    """The schedule of this name, or the user's function of the step, its values checked.

    >>> schedule_of("sqrt")(3)
    0.5
    """
    if callable(spec):
        return _checked(spec)
    if spec not in SCHEDULES:
        known = ", ".join(SCHEDULES)
        raise Unsupported(
            f"unknown schedule {shown(spec)}: known are {known}, or a function of the step"
        )
    return SCHEDULES[spec]


def _checked(given: Schedule) -> Schedule:
    def schedule(step: int) -> float:
        try:
            value = float(given(step))
        except (TypeError, ValueError, OverflowError) as error:
            raise Unsupported(f"the schedule gives no number at step {step}: {error}") from error
        if not (isfinite(value) and value >= 0):
            raise Unsupported(f"the schedule is {value} at step {step}: it must be ≥ 0 and finite")
        return value

    return schedule
