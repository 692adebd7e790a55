"""Graded: a block of a gradient as a sum of rank-one terms, each with a size of its own.

    G = Σ_k x_k a_k b_kᵀ,      x_k = share_k 2^power_k

Written out as one array with one common factor, G loses every term below 1e-16 of the largest
beside it. Rules that give small singular directions or entries the weight of large ones, as U Vᵀ
and sign do, need the terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm.rules.graded.entries import entries
from attsvm.rules.graded.polar import resolve
from attsvm.rules.graded.wide import APART, NONE, Wide
from attsvm.tokens import Floats, Ints


@dataclass(frozen=True, eq=False)
class Graded:
    """The terms of one block of shape (d, c), or (d,) with c = 1, for each of B instances.

    left (B, p, d) and right (B, q, c): the vectors; at, into (K,): the left and the right vector of
    each term; share (B, K) and power (B, K): its wide number, share 0 for a term that is not there.
    """

    left: Floats
    right: Floats
    at: Ints
    into: Ints
    share: Floats
    power: Ints

    def entries(self) -> Wide:
        """Every entry as a wide number (B, d, c)."""
        return entries(self.left, self.right, self.at, self.into, self.share, self.power)

    def direction(self) -> Floats:
        """G/‖G‖ (B, d, c), zero at zero."""
        share, power = self.entries()
        top = np.where(share == 0, NONE, power).max(axis=(1, 2), keepdims=True)
        G = np.ldexp(share, np.maximum(power - top, -APART))
        size = np.sqrt(np.square(G).sum(axis=(1, 2), keepdims=True))
        return G / np.where(size == 0, 1.0, size)

    def resolved(self) -> tuple[Floats, Floats, Floats, Floats, Ints]:
        """U Vᵀ (B, d, c), and the same sum in bases: X (B, d, d), Y (B, c, c), C (B, d, c) wide."""
        return resolve(self.left, self.right, self.at, self.into, self.share, self.power)

    def plus(self, other: Graded) -> Graded:
        """The sum with another block of the same shape."""
        p, q = self.left.shape[1], self.right.shape[1]
        return Graded(
            np.concatenate([self.left, other.left], axis=1),
            np.concatenate([self.right, other.right], axis=1),
            np.concatenate([self.at, p + other.at]),
            np.concatenate([self.into, q + other.into]),
            np.concatenate([self.share, other.share], axis=1),
            np.concatenate([self.power, other.power], axis=1),
        )

    def times(self, factor: float) -> Graded:
        """The block times a number."""
        return Graded(self.left, self.right, self.at, self.into, factor * self.share, self.power)
