"""The shares of v1, Figures 5 and 6, read off the bars, and ours beside them.

Bars are read to ±0.001; each is a share of 500 instances, so that it has an error of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools
from attsvm.experiments.binomial import beyond_chance, chance, interval

INSTANCES = 500
# Chance finds a difference anywhere in a figure with at most this probability.
LEVEL = 0.01
# Models by the name of their family in these figures.
NAMES = {"weight": "W", "factored": "KQ"}

# Figure 5, n = T = 5. "local" holds the global ones as well; B.1 is declared there when the average
# margin of the tokens that are not best is below 1.1.
DIMENSIONS_5 = (2, 3, 4, 5, 10, 20, 40)
FIGURE_5 = {
    ("W", "not local"): (0.630, 0.170, 0.020, 0.002, 0.0, 0.0, 0.0),
    ("W", "global"): (0.178, 0.456, 0.672, 0.790, 0.970, 1.0, 1.0),
    ("W", "local"): (0.362, 0.820, 0.978, 0.998, 1.0, 1.0, 1.0),
    ("W", "B.1"): (0.0, 0.0, 0.0, 0.010, 0.694, 1.0, 1.0),
    ("KQ", "not local"): (0.244, 0.006, 0.0, 0.0, 0.0, 0.0, 0.0),
    ("KQ", "global"): (0.270, 0.572, 0.712, 0.784, 0.958, 1.0, 1.0),
    ("KQ", "local"): (0.740, 0.990, 0.998, 1.0, 1.0, 1.0, 1.0),
    ("KQ", "B.1"): (0.0, 0.0, 0.0, 0.0, 0.252, 0.878, 1.0),
}

# Figure 6: the share of runs that end at the best tokens, by (n, T).
DIMENSIONS_6 = (5, 10, 15, 20, 25, 30)
FIGURE_6 = {
    ("W", 5, 5): (0.784, 0.966, 1.0, 0.998, 1.0, 1.0),
    ("W", 10, 5): (0.288, 0.800, 0.958, 0.994, 1.0, 1.0),
    ("W", 20, 5): (0.004, 0.254, 0.680, 0.936, 0.984, 0.996),
    ("W", 5, 10): (0.596, 0.836, 0.938, 0.982, 0.986, 0.998),
    ("W", 5, 20): (0.606, 0.719, 0.854, 0.898, 0.948, 0.976),
    ("KQ", 5, 5): (0.786, 0.960, 0.980, 0.994, 1.0, 1.0),
    ("KQ", 10, 5): (0.274, 0.772, 0.908, 0.978, 0.994, 0.998),
    ("KQ", 20, 5): (0.008, 0.190, 0.574, 0.794, 0.908, 0.962),
    ("KQ", 5, 10): (0.732, 0.884, 0.946, 0.974, 0.984, 0.990),
    ("KQ", 5, 20): (0.794, 0.902, 0.944, 0.952, 0.980, 0.984),
}


@dataclass(frozen=True)
class ShareCell:
    """One bar: its name, our count of so many instances, and the published share."""

    name: str
    count: int
    trials: int
    published: float

    @property
    def share(self) -> float:
        """Our share."""
        return self.count / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of our share."""
        return interval(self.count, self.trials)

    @property
    def pair(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Our count and the published one, each with its trials."""
        return (self.count, self.trials), (round(self.published * INSTANCES), INSTANCES)

    def __str__(self) -> str:
        return f"{self.name} ({self.share:.3g} here, {self.published:.3g} published)"


def apart(cells: Sequence[ShareCell], level: float = LEVEL) -> list[ShareCell]:
    """The cells whose two shares differ beyond chance, by Holm's rule over all of them."""
    found = beyond_chance([chance(*cell.pair) for cell in cells], level)
    return [cell for cell, far in zip(cells, found, strict=True) if far]


def listed(cells: Sequence[ShareCell]) -> str:
    """The cells by name, or `none`."""
    return ", ".join(map(str, cells)) or "none"


def rise(after: Sequence[bool] | Bools, before: Sequence[bool] | Bools) -> float:
    """By how many standard errors the share of runs in `after` is above that in `before`.

    0 when they are equal; the error is at least that of one run.
    """
    a, b = float(np.mean(after)), float(np.mean(before))
    error = np.sqrt(a * (1 - a) / len(after) + b * (1 - b) / len(before))
    return 0.0 if a == b else (a - b) / max(float(error), 1 / min(len(after), len(before)))
