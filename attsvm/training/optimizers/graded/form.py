"""Graded: a block of a gradient as a sum of rank-one terms, each with a size of its own.

    G = Σ_k x_k a_k b_kᵀ,      x_k = share_k 2^power_k

Written out as one array with one common factor, G loses every term below 1e-16 of the largest
beside it. Optimizers that give small singular directions or entries the weight of large ones, as U
Vᵀ and sign do, need the terms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.training.optimizers.graded.entries import Sum, entries
from attsvm.training.optimizers.graded.polar import Resolved, resolve
from attsvm.training.optimizers.graded.tree import climbed, heaviest
from attsvm.training.optimizers.graded.wide import APART, NONE, Wide


@dataclass(frozen=True, eq=False)
class Graded:
    """The terms of one block of shape (d, c), or (d,) with c = 1, for each of B instances.

    left (B, p, d) and right (B, q, c): the vectors; at, into (K,): the left and the right vector of
    each term; share (B, K) and power (B, K): its wide number, share 0 for a term that is not there.
    less (K,): the left vector of a term is left_at − left_less, of rows that are unit vectors; the
    difference is kept in two because there are many pairs of few rows. None: it is left_at.
    """

    left: Floats
    right: Floats
    at: Ints
    into: Ints
    share: Floats
    power: Ints
    less: Ints | None = None

    def entries(self) -> Wide:
        """Every entry as a wide number (B, d, c)."""
        at, into, share, power = self.at, self.into, self.share, self.power
        if self.less is not None:  # no entry has both, as the rows are unit vectors
            at, into = np.concatenate([at, self.less]), np.concatenate([into, into])
            share = np.concatenate([share, -share], axis=1)
            power = np.concatenate([power, power], axis=1)
        return entries(Sum(self.left, self.right, at, into, share, power))

    def direction(self) -> Floats:
        """G/‖G‖ (B, d, c), zero at zero."""
        share, power = self.entries()
        top = np.where(share == 0, NONE, power).max(axis=(1, 2), keepdims=True)
        G = np.ldexp(share, np.maximum(power - top, -APART))
        size = np.sqrt(np.square(G).sum(axis=(1, 2), keepdims=True))
        return G / np.where(size == 0, 1.0, size)

    def resolved(self) -> Resolved:
        """U Vᵀ (B, d, c), and the same sum in bases: X (B, d, d), Y (B, c, c), C (B, d, c) wide."""
        g = self.spanned()
        return resolve(Sum(g.left, g.right, g.at, g.into, g.share, g.power))

    def spanned(self) -> Graded:
        """The same sum by left vectors of its own: differences along the heaviest tree of pairs."""
        if self.less is None:
            return self
        B, p, _ = self.left.shape
        left, found = self.left.copy(), []
        for b in range(B):
            parent, depth = heaviest(p, self.at, self.less, self.share[b], self.power[b])
            left[b] -= self.left[b, parent]
            found.append(climbed(parent, depth, self.at, self.less, self.share[b]))
        at, term, sign = (np.concatenate(x) for x in zip(*found, strict=True))
        own = np.repeat(np.arange(B), [len(x[0]) for x in found]) == np.arange(B)[:, None]
        share = np.where(own, sign * np.take(self.share, term, axis=1), 0.0)
        power = np.take(self.power, term, axis=1)
        return Graded(left, self.right, at, self.into[term], share, power)

    def plus(self, other: Graded) -> Graded:
        """The sum with another block of the same shape."""
        if (self.less is None) != (other.less is None):
            return self.spanned().plus(other.spanned())
        p, q = self.left.shape[1], self.right.shape[1]
        return Graded(
            np.concatenate([self.left, other.left], axis=1),
            np.concatenate([self.right, other.right], axis=1),
            np.concatenate([self.at, p + other.at]),
            np.concatenate([self.into, q + other.into]),
            np.concatenate([self.share, other.share], axis=1),
            np.concatenate([self.power, other.power], axis=1),
            None if self.less is None else np.concatenate([self.less, p + np.asarray(other.less)]),
        )

    def times(self, factor: float) -> Graded:
        """The block times a number."""
        return replace(self, share=factor * self.share)
