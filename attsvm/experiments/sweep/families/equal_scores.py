"""equal-scores: all but an input's best token share one score, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm.experiments.sweep.families.family import sized
from attsvm.experiments.sweep.group import Drawn


def equal(
    seeds: Sequence[int], n: int = 3, T: int = 3, d: int = 4, deviation: float = 1.0, start: int = 0
) -> Drawn:
    """Instances of equal scores, and starts N(0, deviation²), for `init = "drawn"`."""
    from attsvm.experiments.studies.shared.plain_descent import equal_scored

    shape = sized(n, T, d)
    pairs = [equal_scored(shape, seed) for seed in seeds]
    starts = [
        deviation * np.random.default_rng([start, seed, *shape]).standard_normal((d, d))
        for seed in seeds
    ]
    heads = np.stack([v for _, v in pairs])
    return Drawn([t for t, _ in pairs], heads, starts={"W": np.stack(starts)})
