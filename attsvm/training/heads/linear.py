"""h(o) = v·o."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.training.heads.head import Head


@final
@dataclass(frozen=True, eq=False)
class Linear(Head):
    """The linear head with v (B, d)."""

    v: Floats
    name = "linear"
    linear = True
    curvature = 0.0
    block = "v"

    @property
    def vector(self) -> Floats:
        """v."""
        return self.v

    def value(self, o: Floats) -> Floats:
        """v·o."""
        return np.einsum("bnd,bd->bn", o, np.broadcast_to(self.v, (len(o), o.shape[2])))

    def gradient(self, o: Floats) -> Floats:
        """v, whatever o."""
        return np.broadcast_to(self.v[:, None, :], o.shape)

    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i o_i."""
        return np.einsum("bn,bnd->bd", weights, o)
