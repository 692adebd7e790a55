"""Head: what reads the pooled output of attention, a number and its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from attsvm.errors import Unsupported
from attsvm.ground.arrays import Floats


class Head(ABC):
    """h(o) and ∇h(o) at pooled outputs o (B, n, d).

    Parameters carry the stack axis B, or 1 for one head shared by the stack. linear: h(o) is v·o
    with v in `vector`. bend: the c of ∇h(o) − ∇h(x) = c (o − x); 0 for a head that is linear near
    every o, None where no such c exists, and then tokens whose scores tie are told apart to first
    order only. block: the name under which the parameters are trained, where they are.
    """

    name: str
    linear: bool = False
    bend: float | None = None
    block: str = ""

    @property
    def vector(self) -> Floats | None:
        """v (B, d) of a linear head, None for the others."""
        return None

    @abstractmethod
    def value(self, o: Floats) -> Floats:
        """h(o), (B, n)."""

    @abstractmethod
    def gradient(self, o: Floats) -> Floats:
        """∇h(o), (B, n, d)."""

    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i ∂h(o_i) in the parameters, in their shape; weights (B, n)."""
        raise Unsupported(f"head {self.name!r} cannot be trained: it has no method pull")

    def units(self, o: Floats) -> Floats:
        """How each trained unit reads o, (B, n, width): `pull` is Σ_i weights_i o_i unitsᵢᵀ."""
        return np.ones((*o.shape[:2], 1))
