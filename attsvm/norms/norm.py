"""Norm: the geometry in which a direction is short."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from attsvm.norms.exact.rational import Exact

Floats = NDArray[np.float64]
# Half the distance from 1 to the next float: the unit of rounding.
UNIT = 2.0**-53


@dataclass(frozen=True)
class Norm(ABC):
    """A norm on matrices W (d, dq), its dual, and how much rounding its evaluation carries.

    Every method takes stacks (..., d, dq). `tolerance` is the default certified gap; `unique`
    says whether the least-norm solution is always unique; `rotational` whether the norm is kept
    by rotations on both sides (then W may be sought in the span of the data).
    """

    name: str
    tolerance: float
    unique: bool
    rotational: bool

    @abstractmethod
    def value(self, W: Any) -> Any:
        """‖W‖."""

    @abstractmethod
    def dual(self, G: Any) -> Any:
        """max ⟨G, W⟩ over ‖W‖ ≤ 1."""

    @abstractmethod
    def sharp(self, G: Any) -> Floats:
        """A W of norm 1 with ⟨G, W⟩ = dual(G); zero for G = 0."""

    @abstractmethod
    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """The largest value(E) and dual(E) over ‖E‖_F ≤ 1, for matrices of this shape."""

    @abstractmethod
    def rounding(self, shape: tuple[int, int]) -> float:
        """A relative bound on the rounding error of value and dual at this shape."""

    @abstractmethod
    def value_above(self, W: Exact) -> Fraction:
        """A rational that is at least ‖W‖, for an exact matrix."""

    @abstractmethod
    def dual_above(self, G: Exact) -> Fraction:
        """A rational that is at least dual(G), for an exact matrix."""

    def ball(self, upper: float, lower: float) -> float:
        """How far in this norm a feasible W of norm `upper` can lie from the optimum.

        Infinite where the norm is not uniformly convex: then nothing follows from a small gap.
        """
        return np.inf

    def dual_ball(self, ratio: float) -> float:
        """How far in the dual norm A*λ (of dual norm 1, lower/upper = ratio) is from the best."""
        return np.inf


def largest(W: Any) -> Any:
    """max |W_ij| of each matrix in a stack."""
    return np.abs(W).max(axis=(-2, -1), initial=0.0)
