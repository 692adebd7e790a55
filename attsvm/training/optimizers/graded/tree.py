"""Differences of vectors along a tree: fewer vectors for the same sum.

Terms x_k (r_u − r_w) b_kᵀ over pairs (u, w) of N rows have up to N²/2 left vectors, of which N − 1
are independent. The pairs of the heaviest tree, those that the terms weigh most, span the others:
the path between u and w has only pairs at least as heavy as (u, w), and adds them up with signs.
Heaviest first is what `span` does as well, so nothing is lost; here the coefficients are ±1.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.compiled import ENTRY, njit, plain
from attsvm.training.optimizers.graded.wide import Wide


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
    """Writes parent and depth as in `heaviest`; weight (N, N), near and done (N,) are room."""
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
