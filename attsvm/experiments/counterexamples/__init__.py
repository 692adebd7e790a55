"""Hunting: the smallest instance that breaks a statement, and the proof that it does."""

from attsvm.experiments.counterexamples.hunt import FoundInstance, Hunt, hunt
from attsvm.experiments.counterexamples.search import found_statement

__all__ = ["FoundInstance", "Hunt", "found_statement", "hunt"]
