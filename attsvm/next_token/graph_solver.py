"""The problem of one query on its order's graph, by descent on one edge at a time.

    min ½ Σ_c s_c u_c²   s.t.   u_i − u_j ≥ 1 on the edges i → j

(s_c: the number of tied tokens in node c). With a multiplier λ_e ≥ 0 on each edge, s_c u_c is what
flows out of c less what flows in. One edge at a time, λ_e moves until its margin is 1 or λ_e is 0.
Then the edges with λ > 0 are taken as tight: they fix all differences inside each part they join,
and Σ s u = 0 over a part fixes its level, so u is exact and the error of λ enters the gap squared.

What it returns is not trusted: the caller certifies it.

Theory: [hsieh2008dual].
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import njit

# Passes over the edges in one go, and goes before another solver is asked.
PASSES, GOES = 400, 12
# A pass in which no multiplier moves by more than this is the last.
SETTLED = 1e-9


@njit()
def descend(hi: Ints, lo: Ints, size: Floats, lam: Floats, u: Floats, passes: int) -> float:
    """The largest move of the last pass over the edges; lam (e,) and u (C,) change in place."""
    worst = 0.0
    for _ in range(passes):
        worst = 0.0
        for e in range(len(hi)):
            i, j = hi[e], lo[e]
            short = 1.0 - (u[i] - u[j])
            if short <= 0.0 and lam[e] == 0.0:
                continue
            move = max(short / (1.0 / size[i] + 1.0 / size[j]), -lam[e])
            worst = max(worst, abs(move))
            lam[e] += move
            u[i] += move / size[i]
            u[j] -= move / size[j]
        if worst <= SETTLED:
            break
    return worst


@njit()
def levels(hi: Ints, lo: Ints, size: Floats, lam: Floats) -> Floats:
    """u (C,) with u_i − u_j = 1 on the edges with λ > 0 and Σ s u = 0 over each part they join.

    Where tight edges close a ring they agree at the solution; the first way round is taken.
    """
    C = len(size)
    u = np.zeros(C)
    part = np.full(C, -1)
    degree = np.zeros(C + 1, np.int64)
    for e in range(len(hi)):
        if lam[e] > 0.0:
            degree[hi[e] + 1] += 1
            degree[lo[e] + 1] += 1
    start = np.cumsum(degree)
    fill = start.copy()
    edges = np.empty(start[C], np.int64)
    for e in range(len(hi)):
        if lam[e] > 0.0:
            edges[fill[hi[e]]] = e
            fill[hi[e]] += 1
            edges[fill[lo[e]]] = e
            fill[lo[e]] += 1
    queue = np.empty(C, np.int64)
    for root in range(C):
        if part[root] >= 0:
            continue
        part[root] = root
        queue[0] = root
        count, at = 1, 0
        weight = total = 0.0
        while at < count:
            c = queue[at]
            at += 1
            weight += size[c]
            total += size[c] * u[c]
            for k in range(start[c], start[c + 1]):
                e = edges[k]
                other = lo[e] if hi[e] == c else hi[e]
                if part[other] < 0:
                    part[other] = root
                    u[other] = u[c] - 1.0 if hi[e] == c else u[c] + 1.0
                    queue[count] = other
                    count += 1
        for at in range(count):
            u[queue[at]] -= total / weight
    return u


def solve_graph(hi: Ints, lo: Ints, size: Floats, goes: int = GOES) -> tuple[Floats, Floats]:
    """(u (C,), λ (e,)), not certified: hi, lo (e,) the edges between C nodes, size (C,)."""
    lam, u = np.zeros(len(hi)), np.zeros(len(size))
    for _ in range(goes):
        if descend(hi, lo, size, lam, u, PASSES) <= SETTLED:
            break
    return levels(hi, lo, size, lam), lam
