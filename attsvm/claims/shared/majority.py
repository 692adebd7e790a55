"""Paired comparisons over runs: whether more than half of them go one way, beyond chance."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from attsvm.claims.claim import Test, at_most

# The chance at which a majority of runs is taken to be one.
LEVEL = 0.01


def chance(wins: int, total: int) -> float:
    """The chance of so many wins or more among fair coins, the sign test; nan of none."""
    if total == 0:
        return float("nan")
    return sum(comb(total, k) for k in range(wins, total + 1)) / 2**total


def mostly(what: str, wins: Sequence[bool]) -> Test:
    """The test that most runs go this way; a draw is no win."""
    count = sum(bool(win) for win in wins)
    said = f"{what}: {count} of {len(wins)} runs, sign test"
    return at_most(said, chance(count, len(wins)), LEVEL)
