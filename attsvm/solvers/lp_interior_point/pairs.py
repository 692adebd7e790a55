"""l1 and max as linear programs: two complementary pairs P, Q ≥ 0 per entry of W.

    l1     min Σ(P₁ + P₂),  W = P₁ − P₂;                  Q₁ = 1 − M,  Q₂ = 1 + M
    max    min t,           P₁ = t − W,  P₂ = t + W;      Q₁ − Q₂ = M,  Σ(Q₁ + Q₂) = 1

with M = A*λ. A Newton step has P dQ + Q dP = c for a given c (2, d, dq), and keeps these equations.
It is eliminated down to the rows: with weights D, a matrix E and a number κ (max alone),

    (A D A* + vvᵀ/κ + …) dλ = … − A(R) − v h,     v = A(E),

and is then read off A*dλ. P, Q and their moves are stacks (2, d, dq).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.norms import Norm
from attsvm.norms.entrywise import L1Norm, MaxNorm


class Weights(NamedTuple):
    """D (d, dq), and for max E (d, dq) and κ."""

    D: Floats
    E: Floats | None = None
    kappa: float = 1.0


class Pairs(Protocol):
    """What the path asks of a norm."""

    def start(self, W: Floats, M: Floats, *, room: float, mu: float) -> tuple[Floats, Floats]:
        """P and Q near W and M, whose dual norm is below 1; room: a share of ‖W‖, mu: about PQ."""

    def matrix(self, P: Floats) -> Floats:
        """W (d, dq)."""

    def weigh(self, P: Floats, Q: Floats) -> Weights:
        """The weights of the Newton matrix."""

    def load(self, P: Floats, Q: Floats, c: Floats, weights: Weights) -> tuple[Floats, float]:
        """R (d, dq) and h of the right-hand side."""

    def move(
        self, P: Floats, Q: Floats, c: Floats, weights: Weights, M: Floats, push: float
    ) -> tuple[Floats, Floats]:
        """dP and dQ from M = A*dλ; push = h + vᵀdλ/κ."""

    def join(self, Q: Floats, M: Floats) -> tuple[Floats, float, float]:
        """Q after new rows with multipliers of adjoint M; what these and then all λ shrink by."""


class SumPairs:
    """Those of l1."""

    def start(self, W: Floats, M: Floats, *, room: float, mu: float) -> tuple[Floats, Floats]:
        """The parts of W, at least mu/Q."""
        Q = np.array([1.0 - M, 1.0 + M])
        return np.maximum([W, -W], mu / Q), Q

    def matrix(self, P: Floats) -> Floats:
        """P₁ − P₂."""
        return np.asarray(P[0] - P[1])

    def weigh(self, P: Floats, Q: Floats) -> Weights:
        """D = P₁/Q₁ + P₂/Q₂."""
        return Weights((P / Q).sum(axis=0))

    def load(self, P: Floats, Q: Floats, c: Floats, weights: Weights) -> tuple[Floats, float]:
        """R = c₁/Q₁ − c₂/Q₂."""
        return c[0] / Q[0] - c[1] / Q[1], 0.0

    def move(
        self, P: Floats, Q: Floats, c: Floats, weights: Weights, M: Floats, push: float
    ) -> tuple[Floats, Floats]:
        """dQ = (−M, M)."""
        dQ = np.array([-M, M])
        return (c - P * dQ) / Q, dQ

    def join(self, Q: Floats, M: Floats) -> tuple[Floats, float, float]:
        """At most half of the way to the boundary."""
        change = np.array([-M, M])
        share = min(1.0, 0.5 * reach(Q, change))
        return Q + share * change, share, 1.0


class LargestPairs:
    """Those of max."""

    def start(self, W: Floats, M: Floats, *, room: float, mu: float) -> tuple[Floats, Floats]:
        """t a little above max |W|; what M leaves of Σ Q = 1 spread evenly."""
        t = (1.0 + room) * float(np.abs(W).max())
        spare = (1.0 - float(np.abs(M).sum())) / (2 * M.size)
        return np.array([t - W, t + W]), np.maximum([M, -M], 0.0) + spare

    def matrix(self, P: Floats) -> Floats:
        """½(P₂ − P₁)."""
        return np.asarray(0.5 * (P[1] - P[0]))

    def weigh(self, P: Floats, Q: Floats) -> Weights:
        """With a, b = Q/P: D = 1/(a + b), E = (a − b)D, κ = Σ 4abD."""
        a, b = Q / P
        D = 1.0 / (a + b)
        return Weights(D, (a - b) * D, float((4.0 * a * b * D).sum()))

    def load(self, P: Floats, Q: Floats, c: Floats, weights: Weights) -> tuple[Floats, float]:
        """With g = c₁/P₁ − c₂/P₂: R = −Dg, h = (Σ c/P − ⟨E, g⟩)/κ."""
        D, E, kappa = weights
        g = c[0] / P[0] - c[1] / P[1]
        return -D * g, (float((c / P).sum()) - float(np.vdot(E, g))) / kappa

    def move(
        self, P: Floats, Q: Floats, c: Floats, weights: Weights, M: Floats, push: float
    ) -> tuple[Floats, Floats]:
        """dt = push, dW = D(M − g) + E dt."""
        D, E, _ = weights
        dW = D * (M - c[0] / P[0] + c[1] / P[1]) + push * np.asarray(E)
        dP = np.array([push - dW, push + dW])
        return dP, (c - Q * dP) / P

    def join(self, Q: Floats, M: Floats) -> tuple[Floats, float, float]:
        """The parts of M join Q, and all is scaled back to Σ Q = 1."""
        Q = Q + np.maximum([M, -M], 0.0)
        total = float(Q.sum())
        return Q / total, 1.0, 1.0 / total


# Norms stand below solvers, so the pairs of the listed ones are named here, by class.
PAIRS: dict[type[Norm], Pairs] = {L1Norm: SumPairs(), MaxNorm: LargestPairs()}


def reach(x: Floats, dx: Floats) -> float:
    """The largest step ≤ 1e3 that keeps x + step·dx ≥ 0."""
    return 1.0 / max(1e-3, -float((dx / x).min(initial=0.0)))
