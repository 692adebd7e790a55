"""What a sweep shows at each point: shares and medians with exact intervals, from its shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import bdtr

from attsvm._utils.arrays import Floats
from attsvm.errors import BadTokens
from attsvm.experiments.binomial import interval
from attsvm.experiments.sweep.folder import kept_tasks, read_shard
from attsvm.experiments.sweep.nearest import unknown
from attsvm.experiments.sweep.spec import Spec

LEVEL = 0.95


@dataclass(frozen=True)
class CellSummary:
    """One point: its parameters, and of a column the share or median with its 95 % interval.

    count: how many instances it is of; those whose value is not a number do not count.
    """

    point: dict[str, Any]
    middle: float
    low: float
    high: float
    count: int


def cells_of(folder: Path, spec: Spec, column: str) -> list[CellSummary]:
    """Every point's share (of a column of truth values) or median (of numbers)."""
    blocks = len(spec.blocks())
    held: list[Any] = []
    out = []
    point: dict[str, Any] = {}
    for k, task in enumerate(kept_tasks(folder, spec)):
        found = read_shard(folder, task)
        if found is not None:
            if column not in found:
                raise BadTokens(unknown("column", column, found))
            if found[column].dtype.kind == "U":
                raise BadTokens(f"{column} holds texts: a picture shows numbers or truth values")
            held.append(found[column])
        point = task.point
        if (k + 1) % blocks == 0:
            if held:
                out.append(_cell(point, np.concatenate(held)))
            held = []
    return out


def _cell(point: dict[str, Any], values: Any) -> CellSummary:
    if values.dtype.kind == "b":
        low, high = interval(int(values.sum()), len(values), LEVEL)
        return CellSummary(point, float(values.mean()), low, high, len(values))
    numbers = np.sort(values[~np.isnan(values)].astype(np.float64))
    if not len(numbers):
        return CellSummary(point, np.nan, np.nan, np.nan, 0)
    low, high = median_interval(numbers)
    return CellSummary(point, float(np.median(numbers)), low, high, len(numbers))


def median_interval(ordered: Sequence[float] | Floats, level: float = LEVEL) -> tuple[float, float]:
    """The interval between two of these ordered values that holds the true median with at least
    this probability; all of them where they are too few for any.

    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    (1.0, 8.0)
    """
    n = len(ordered)
    # P(fewer than k of n are below the median) ≤ (1 − level)/2
    ranks = [k for k in range(1, n // 2 + 1) if bdtr(k - 1, n, 0.5) <= (1 - level) / 2]
    k = ranks[-1] if ranks else 1
    return float(ordered[k - 1]), float(ordered[n - k])
