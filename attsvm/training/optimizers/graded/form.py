"""Graded: a block of a gradient as a sum of rank-one terms, each with a size of its own.

    G = Σ_k x_k a_k b_kᵀ,      x_k = share_k 2^power_k

Written out as one array with one common factor, G loses every term below 1e-16 of the largest
beside it. Optimizers that give small singular directions or entries the weight of large ones, as U
Vᵀ and sign do, need the terms.

Differences of vectors along a tree: fewer vectors for the same sum.

Terms x_k (r_u − r_w) b_kᵀ over pairs (u, w) of N rows have up to N²/2 left vectors, of which N − 1
are independent. The pairs of the heaviest tree, those that the terms weigh most, span the others:
the path between u and w has only pairs at least as heavy as (u, w), and adds them up with signs.
Heaviest first is what `span` does as well, so nothing is lost; here the coefficients are ±1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints, plain
from attsvm._utils.compiled import ENTRY, njit
from attsvm.training.optimizers.graded.polar import Resolved, resolve
from attsvm.training.optimizers.graded.wide import APART, NONE, Sum, Wide, entries


@njit(**ENTRY)
def _heaviest(
    at: Ints,
    less: Ints,
    x: Wide,
    weight: Floats,
    near: Floats,
    done: Bools,
    parent: Ints,
    depth: Ints,
) -> None:
    """Writes parent and depth as in `heaviest`; weight (N, N), near and done (N,) are workspace."""
    share, power = x
    rows = len(parent)
    for i in range(rows):
        parent[i] = i
        depth[i] = 0
        near[i] = -np.inf
        done[i] = False
        for j in range(rows):
            weight[i, j] = -np.inf
    for k in range(len(at)):
        if share[k] != 0.0 and at[k] != less[k]:
            f = power[k] + math.log2(abs(share[k]))
            if f > weight[at[k], less[k]]:
                weight[at[k], less[k]] = weight[less[k], at[k]] = f
    for _ in range(rows):
        best = -1
        for i in range(rows):
            if not done[i] and (best < 0 or near[i] > near[best]):
                best = i
        done[best] = True
        if parent[best] != best:
            depth[best] = depth[parent[best]] + 1
        for i in range(rows):
            if not done[i] and weight[best, i] > near[i]:
                near[i] = weight[best, i]
                parent[i] = best


def heaviest(rows: int, at: Ints, less: Ints, share: Floats, power: Ints) -> tuple[Ints, Ints]:
    """(parent (N,), depth (N,)) of the heaviest tree over N rows; a root is its own parent.

    at, less (K,): the pair of each term; share, power (K,): its wide number. Rows that no term
    joins are in trees of their own.
    """
    parent, depth = np.empty(rows, np.int64), np.empty(rows, np.int64)
    _heaviest(
        plain(at),
        plain(less),
        (plain(share), plain(power)),
        np.empty((rows, rows)),
        np.empty(rows),
        np.empty(rows, np.bool_),
        parent,
        depth,
    )
    return parent, depth


@njit(**ENTRY)
def _climb(
    tree: tuple[Ints, Ints],
    at: Ints,
    less: Ints,
    share: Floats,
    number: Ints,
    term: Ints,
    sign: Floats,
) -> int:
    """How long all paths of `climbed` are; writes them as far as the arrays go."""
    parent, depth = tree
    m = 0
    for k in range(len(at)):
        u, w = at[k], less[k]
        while share[k] != 0.0 and u != w:
            up = depth[u] >= depth[w]
            if m < len(number):
                number[m] = u if up else w
                term[m] = k
                sign[m] = 1.0 if up else -1.0
            m += 1
            if up:
                u = parent[u]
            else:
                w = parent[w]
    return m


def climbed(
    parent: Ints, depth: Ints, at: Ints, less: Ints, share: Floats
) -> tuple[Ints, Ints, Floats]:
    """(number, term, sign): r_u − r_w = Σ sign (r_number − r_parent) along the path of each term.

    Terms with share 0 have no path.
    """
    given = (plain(parent), plain(depth)), plain(at), plain(less), plain(share)
    length = 0
    for _ in range(2):  # once to see how long they are
        number, term = np.empty(length, np.int64), np.empty(length, np.int64)
        sign = np.empty(length)
        length = _climb(*given, number, term, sign)
    return number, term, sign


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
