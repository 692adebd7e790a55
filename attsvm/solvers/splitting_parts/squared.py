"""The proximal map of half a norm's square, from that of the norm: a root in one number.

    X = prox(V, t) with t such that ‖V − X‖_dual = γ‖X‖   minimises   γ ½‖X‖² + ½‖X − V‖_F²

The left side grows with t and the right side falls, whatever growing function of the norm `prox`
belongs to; V − X is aligned with X for every t.
"""

from __future__ import annotations

from collections.abc import Callable

from attsvm._utils.arrays import Floats
from attsvm.norms import Norm
from attsvm.norms.norm import Prox

# The root is found to this share; factors and halvings that bracket it, at most.
_CLOSE = 1e-11
_MOST = 100


class Squared:
    """prox(V, γ) of ½‖·‖²; a root begins where the last one lay."""

    def __init__(self, norm: Norm, prox: Prox) -> None:
        self.norm, self.prox = norm, prox
        self.t = 1.0

    def __call__(self, V: Floats, step: float) -> Floats:
        """The X that minimises γ ½‖X‖² + ½‖X − V‖_F²."""
        if not V.any():
            return V
        found: Floats = V

        def excess(t: float) -> float:
            nonlocal found
            found = self.prox(V, t)
            left, right = float(self.norm.dual(V - found)), step * float(self.norm.value(found))
            return (left - right) / (left + right)

        low, high = self._bracket(excess)
        below, above = excess(low), excess(high)
        side = 0
        for _ in range(_MOST):
            # False position; an end that stays twice counts half, so that it moves as well.
            t = (low * above - high * below) / (above - below)
            value = excess(t)
            if abs(value) <= _CLOSE or high - low <= _CLOSE * high:
                break
            if value > 0.0:
                high, above = t, value
                below = below / 2 if side > 0 else below
                side = 1
            else:
                low, below = t, value
                above = above / 2 if side < 0 else above
                side = -1
        self.t = t
        return found

    def _bracket(self, excess: Callable[[float], float]) -> tuple[float, float]:
        """Two t round the root, near the last one."""
        low = high = self.t
        wide = 1.25
        for _ in range(_MOST):
            if excess(high) > 0.0:
                break
            low, high, wide = high, high * wide, wide**2
        else:
            return low, high
        wide = 1.25
        for _ in range(_MOST if low == high else 0):
            low, wide = low / wide, wide**2
            if excess(low) < 0.0:
                break
            high = low
        return low, high
