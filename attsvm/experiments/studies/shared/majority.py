"""Paired comparisons over runs: whether more than half of them go one way, beyond chance."""

from __future__ import annotations

from collections.abc import Iterable
from math import comb

from attsvm.experiments.study import Check, at_most, info

# The chance at which a majority of runs is taken to be one.
LEVEL = 0.01
# Fewer runs than these may be too few to tell a majority from chance.
FEW = 20


def chance(wins: int, total: int) -> float:
    """The chance of so many wins or more among fair coins, the sign test; nan of none."""
    if total == 0:
        return float("nan")
    return sum(comb(total, k) for k in range(wins, total + 1)) / 2**total


def mostly(what: str, wins: Iterable[bool]) -> Check:
    """The check that most runs go this way; a draw is no win.

    Where more than half of a few runs do, and chance would do as much, it is not judged.
    """
    each = [bool(win) for win in wins]
    count, total = sum(each), len(each)
    check = at_most(f"{what}: {count} of {total} runs, sign test", chance(count, total), LEVEL)
    if check.met or total >= FEW or (total and 2 * count <= total):
        return check
    return info(f"{check.what}, too few to say", check.seen)
