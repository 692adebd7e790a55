"""Differences of vectors along a tree: fewer vectors for the same sum.

Terms x_k (r_u − r_w) b_kᵀ over pairs (u, w) of N rows have up to N²/2 left vectors, of which N − 1
are independent. The pairs of the heaviest tree, those that the terms weigh most, span the others:
the path between u and w has only pairs at least as heavy as (u, w), and adds them up with signs.
Heaviest first is what `span` does as well, so nothing is lost; here the coefficients are ±1.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm.ground.arrays import Floats, Ints
from attsvm.ground.compiled import njit


@njit()
def heaviest(rows: int, at: Ints, less: Ints, share: Floats, power: Ints) -> tuple[Ints, Ints]:
    """(parent (N,), depth (N,)) of the heaviest tree over N rows; a root is its own parent.

    at, less (K,): the pair of each term; share, power (K,): its wide number. Rows that no term
    joins are in trees of their own.
    """
    weight = np.full((rows, rows), -np.inf)
    for k in range(len(at)):
        if share[k] != 0.0 and at[k] != less[k]:
            x = power[k] + math.log2(abs(share[k]))
            if x > weight[at[k], less[k]]:
                weight[at[k], less[k]] = weight[less[k], at[k]] = x
    parent, depth = np.arange(rows), np.zeros(rows, np.int64)
    near = np.full(rows, -np.inf)
    done = np.zeros(rows, np.bool_)
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
                near[i], parent[i] = weight[best, i], best
    return parent, depth


@njit()
def climbed(
    parent: Ints, depth: Ints, at: Ints, less: Ints, share: Floats
) -> tuple[Ints, Ints, Floats]:
    """(number, term, sign): r_u − r_w = Σ sign (r_number − r_parent) along the path of each term.

    Terms with share 0 have no path.
    """
    total = 0
    for fill in range(2):
        number, term = np.empty(total, np.int64), np.empty(total, np.int64)
        sign = np.empty(total)
        m = 0
        for k in range(len(at)):
            u, w = at[k], less[k]
            while share[k] != 0.0 and u != w:
                up = depth[u] >= depth[w]
                if fill == 1:
                    number[m], term[m], sign[m] = (u if up else w), k, (1.0 if up else -1.0)
                m += 1
                if up:
                    u = parent[u]
                else:
                    w = parent[w]
        total = m
    return number, term, sign
