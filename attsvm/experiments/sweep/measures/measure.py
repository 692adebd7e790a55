"""Measure: a function that finds numbers or texts, one per instance, on a Group.

measure(group, **parameters) -> {column: (B,)}: what is found of an instance depends on it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate

Measure = Callable[..., dict[str, Any]]


def norms_of(found: list[Certificate]) -> Floats:
    """The certified least norms from below (B,); nan where there is no solution."""
    return np.array([float(c.lower) if np.isfinite(c.upper) else np.nan for c in found])


def gaps_of(found: list[Certificate]) -> Floats:
    """The certified gaps (B,); nan where there is no solution."""
    return np.array([float(c.gap) if np.isfinite(c.upper) else np.nan for c in found])
