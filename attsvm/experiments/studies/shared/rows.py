"""Columns of a table from rows and parts that a measure finds one by one; places of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints


def columns_of(rows: Sequence[Mapping[str, Any]], empty: Mapping[str, Any]) -> dict[str, Any]:
    """One column for each name of `empty`, which holds what stands where a row has no value."""
    return {name: np.array([row.get(name, none) for row in rows]) for name, none in empty.items()}


def stacked_columns(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of all parts, one after another.

    A part has at least one column (R,); of a single value every row of the part has it.
    """
    wide = [np.broadcast_arrays(*part.values()) for part in parts]
    return {
        name: np.concatenate([np.atleast_1d(columns[k]) for columns in wide])
        for k, name in enumerate(parts[0])
    }


def thinned(steps: Ints | Floats, most: int = 40) -> Ints:
    """The places of up to `most` records, evenly spread, the first and the last included."""
    return np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))
