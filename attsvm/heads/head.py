"""Head: what reads the pooled output of attention, a number and its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod

from attsvm.tokens import Floats


class Head(ABC):
    """h(o) and ∇h(o) at pooled outputs o (B, n, d).

    Parameters carry the stack axis B, or 1 for one head shared by the stack.
    """

    name: str
    linear: bool

    @abstractmethod
    def value(self, o: Floats) -> Floats:
        """h(o), (B, n)."""

    @abstractmethod
    def gradient(self, o: Floats) -> Floats:
        """∇h(o), (B, n, d)."""
