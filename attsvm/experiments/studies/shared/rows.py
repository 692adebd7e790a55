"""Columns of a table from rows that a measure finds one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def columns_of(rows: Sequence[Mapping[str, Any]], empty: Mapping[str, Any]) -> dict[str, Any]:
    """One column for each name of `empty`, which holds what stands where a row has no value."""
    return {name: np.array([row.get(name, none) for row in rows]) for name, none in empty.items()}
