"""Hunting: the smallest instance that breaks a statement, and the proof that it does."""

from attsvm.hunting.front import hunt
from attsvm.hunting.outcome import Found, Hunt
from attsvm.hunting.search import found_statement

__all__ = ["Found", "Hunt", "found_statement", "hunt"]
