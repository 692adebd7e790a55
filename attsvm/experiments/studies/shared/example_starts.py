"""The published examples of a few inputs, and descent from several starts on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm._utils.arrays import Ints
from attsvm.datasets import EXAMPLES
from attsvm.experiments import group
from attsvm.experiments.group import Drawn
from attsvm.problem.tokens import Tokens

# The second coordinates of the published starts; the others are 0.
STARTS = (1.0, 0.5, 0.0, -0.5, -1.0, -1.5)


def example_starts(seeds: Sequence[int], example: str, reach: float = 0.0, edge: int = 0) -> Drawn:
    """The example once for each seed, which counts the starts, for `init = "drawn"`.

    The published starts come first, then a square grid of `edge` starts a side with coordinates up
    to `reach`.
    """
    arrays = EXAMPLES[example]()
    tokens = Tokens(arrays["X"], keys=arrays.get("keys"), labels=arrays["y"])
    side = np.linspace(-reach, reach, edge)
    starts = [(0.0, c, 0.0) for c in STARTS] + [(x, y, 0.0) for y in side for x in side]
    heads = np.stack([arrays["v"]] * len(seeds))
    return Drawn([tokens] * len(seeds), heads, starts={"p": np.array(starts)[list(seeds)]})


def thinned(steps: Ints, early: int, most: int = 60) -> Ints:
    """The places of at most so many records, those up to the step `early` before others."""
    some, late = np.flatnonzero(steps <= early), np.flatnonzero(steps > early)
    some = some[group.thinned(some, 2 * most // 3)]
    return np.concatenate([some, late[group.thinned(late, most // 3)]])
