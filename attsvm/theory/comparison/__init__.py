"""Several ways of training on the same tokens, side by side: `compare` and its Comparison."""

from __future__ import annotations

from attsvm.theory.comparison.compare import compare
from attsvm.theory.comparison.runs import Compared, Comparison

__all__ = ["Compared", "Comparison", "compare"]
