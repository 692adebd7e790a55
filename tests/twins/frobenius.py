"""The plain NumPy twins of the Frobenius kernels: the same steps without their loops."""

from __future__ import annotations

from math import inf

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.problem.problem import pairwise
from attsvm.solvers.frobenius.active_set import DEPENDENT, DONE, NO_SOLUTION, STOPPED
from attsvm.solvers.frobenius.coordinate_descent import Pools, Sides


def active_set(G: Floats, b: Floats, free: Bools) -> tuple[int, Floats]:
    """Status and multipliers by the same steps in plain NumPy, G_PP solved afresh each time."""
    m = len(b)
    lam = np.zeros(m)
    P: list[int] = []
    left: set[int] = set()
    for _ in range(50 * m + 100):
        w = b - G @ lam
        size = max(np.sqrt(max(float(lam @ b), 0.0)), float(np.abs(b).max(initial=0.0)))
        waiting = [i for i in range(m) if i not in P and i not in left]
        ties = [i for i in waiting if free[i]]
        j = ties[0] if ties else max(waiting, key=lambda i: w[i], default=-1)
        if j < 0 or (not ties and w[j] <= 1e-13 * size):
            lam[P] = np.linalg.solve(G[np.ix_(P, P)], b[P])
            return DONE, lam
        sign = 1.0 if w[j] >= 0 else -1.0
        while True:
            r = np.linalg.solve(G[np.ix_(P, P)], G[P, j]) if P else np.empty(0)
            q = G[j, j] - G[j, P] @ r
            falling = [
                (lam[i] / (sign * x), i)
                for i, x in zip(P, r, strict=True)
                if not free[i] and sign * x > 0
            ]
            tau, drop = min(falling, default=(np.inf, -1))
            if q <= DEPENDENT and abs(w[j]) <= 1e-13 * size:
                left.add(j)
                break
            if q <= DEPENDENT and drop < 0:
                proof = np.zeros(m)
                proof[j] = sign
                proof[P] = -sign * r
                return NO_SOLUTION, proof
            full = np.inf if q <= DEPENDENT else sign * w[j] / q
            step = min(tau, full)
            lam[P] -= step * sign * r
            lam[j] += step * sign
            w = b - G @ lam
            if full <= tau:
                P.append(j)
                break
            lam[drop] = 0.0
            P.remove(drop)
    return STOPPED, lam


def epoch(
    pools: Pools,
    sides: Sides,
    order: Ints,
    active: Ints,
    count: Ints,
    cut: float,
    passes: int,
    omega: float,
    lam: Floats,
    W: Floats,
) -> float:
    """The worst violation met: the compiled epoch once more, in plain NumPy, for comparison."""
    keys, queries, hi, lo, start, query = pools
    b, floor, ceil, length = sides
    worst = 0.0
    for s in order:
        z, old, span = queries[query[s]], lam.copy(), np.arange(start[s], start[s + 1])
        D = pairwise(keys, hi[span], lo[span])
        for sweep in range(passes):
            i = start[s]
            while i < start[s] + count[s]:
                k, size = active[i], length[active[i]] or inf
                v = W @ z + (z @ z) * ((lam - old)[span] @ D)
                away = (D[k - start[s]] @ v - b[k]) / size
                if sweep == 0 and lam[k] == floor[k] and away > cut and length[k] > 0:
                    count[s] -= 1
                    last = start[s] + count[s]
                    active[[i, last]] = active[[last, i]]
                    continue
                i += 1
                step = min(max(lam[k] - omega * away / size, floor[k]), ceil[k]) - lam[k]
                if sweep == 0:
                    worst = max(worst, min(abs(away), abs(step) * length[k]))
                lam[k] += step
        W += np.outer((lam - old)[span] @ D, z)
    return worst
