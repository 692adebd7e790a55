"""Several ways of training on the same tokens, side by side: `compare` and its Comparison."""

from __future__ import annotations

from attsvm.comparison.front import compare
from attsvm.comparison.runs import Compared, Comparison

__all__ = ["Compared", "Comparison", "compare"]
