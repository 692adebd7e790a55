"""Head: what reads the pooled output of attention, a number and its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from attsvm.ground.arrays import Floats


class Head(ABC):
    """h(o) and ∇h(o) at pooled outputs o (B, n, d).

    Parameters carry the stack axis B, or 1 for one head shared by the stack. `block` is the name
    under which they are trained, where they are.
    """

    name: str
    linear: bool
    block: str

    @abstractmethod
    def value(self, o: Floats) -> Floats:
        """h(o), (B, n)."""

    @abstractmethod
    def gradient(self, o: Floats) -> Floats:
        """∇h(o), (B, n, d)."""

    @abstractmethod
    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i ∂h(o_i) in the parameters, in their shape; weights (B, n)."""

    def units(self, o: Floats) -> Floats:
        """How each trained unit reads o, (B, n, width): `pull` is Σ_i weights_i o_i unitsᵢᵀ."""
        return np.ones((*o.shape[:2], 1))
