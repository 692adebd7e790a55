"""sphere: tokens, queries and head on the unit sphere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm.errors import Unsupported
from attsvm.experiments.sweep.families.family import sized
from attsvm.experiments.sweep.group import Drawn


def on_the_sphere(
    seeds: Sequence[int], n: int = 6, T: int = 8, d: int = 10, equal_scores: bool = False,
    queries: str = "free",
) -> Drawn:  # fmt: skip
    """v, x and z uniform on the unit sphere, labels random signs.

    equal_scores: all but an input's best token share one score. queries: "free", or "first" for
    each input's first token.
    """
    from attsvm.experiments.studies.shared.random_instances import self_attending, stacked

    shape = sized(n, T, d)
    if queries == "first":
        pairs = [self_attending(shape, seed) for seed in seeds]
        return Drawn([t for t, _ in pairs], np.stack([v for _, v in pairs]))
    if queries != "free":
        raise Unsupported(f'queries is {queries!r}: it is "free" or "first"')
    tokens, heads = stacked(shape, list(seeds), equal_scores=equal_scores)
    return Drawn(tokens, heads)
