"""Places of records."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats, Ints


def thinned(steps: Ints | Floats, most: int = 40) -> Ints:
    """The places of up to `most` records, evenly spread, the first and the last included."""
    return np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))
