"""Every selection of a small Frobenius problem: one Gram, one walk, infeasible prefixes cut.

The rows Δ = k_iα − k_it of all inputs i, choices α and dropped tokens t are set up once; a
selection uses n(T−1) of them. The walk fixes α input by input; when the rows of the first inputs
alone have no solution, no selection that starts so has one.
"""

from __future__ import annotations

import numpy as np

from attsvm.ground.arrays import Bools, Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.solvers.frobenius.dual_active_set import DONE, NO_SOLUTION, dual_active_set

# Verdicts on a selection: not locally optimal (a tight row with a higher score), perhaps.
NO, MAYBE = 0, 1
# A multiplier above this share of the largest marks its row as tight beyond doubt.
CLEAR = 1e-6


@njit()
def walk(
    G: Floats, norms: Floats, allowed: Bools, count: Ints, places: Ints, gap: Floats,
    prefix: Ints, rank: int, most: int, choices: Ints, least: Floats, verdict: Ints, stats: Ints,
) -> int:  # fmt: skip
    """The number of feasible selections that start with `prefix`; `most` of them are written down.

    G (R, R): Gram of all unit rows; norms (R,). places (n, T, T−1): row index of each (input,
    choice, dropped), count (n, T) how many; allowed (n, T): the choices. gap (R,): score of the
    choice minus score of the dropped token. Filled: choices (most, n), least (most,) the norm,
    verdict (most,), stats (3,): solves, infeasible, stopped.
    """
    n, T = count.shape
    depth0 = len(prefix)
    alpha = np.full(n, -1)
    for i in range(depth0):
        alpha[i] = prefix[i]
        if not allowed[i, prefix[i]]:
            return 0
    depth = depth0 - 1 if depth0 > 0 else 0
    found = 0
    total = n * places.shape[2]
    index = np.empty(total, np.int64)
    lam = np.empty(total)
    right = np.empty(total)
    inner = np.empty(total * total)
    outer = np.empty(total * total)
    free = np.zeros(total, np.bool_)
    fresh = depth0 > 0  # the prefix itself is solved first
    while depth >= 0:
        if not fresh:
            if depth < depth0:
                break
            alpha[depth] += 1
            if alpha[depth] >= T:
                alpha[depth] = -1
                depth -= 1
                continue
            if not allowed[depth, alpha[depth]]:
                continue
        fresh = False
        m = 0
        for i in range(depth + 1):
            for c in range(count[i, alpha[i]]):
                index[m] = places[i, alpha[i], c]
                m += 1
        sub = inner[: m * m].reshape(m, m)
        room = outer[: m * m].reshape(m, m)
        b = right[:m]
        top = 0.0
        for j in range(m):
            for k in range(m):
                sub[j, k] = G[index[j], index[k]]
            b[j] = 1.0 / norms[index[j]]
            top = max(top, b[j])
        for j in range(m):
            b[j] /= top
        status = DONE
        if m > 0:
            status, _ = dual_active_set(sub, b, free[:m], lam[:m], rank, 50 * m + 100, room)
        stats[0] += 1
        if status == NO_SOLUTION:
            stats[1] += 1
            continue
        if status != DONE:
            stats[2] += 1
        if depth < n - 1:
            depth += 1
            alpha[depth] = -1
            continue
        if found < most:
            worth = 0.0
            largest = 0.0
            for j in range(m):
                worth += b[j] * lam[j]
                largest = max(largest, lam[j])
            kind = MAYBE
            for j in range(m):
                if lam[j] > CLEAR * largest and gap[index[j]] <= 0.0:
                    kind = NO
            for i in range(n):
                choices[found, i] = alpha[i]
            least[found] = top * np.sqrt(max(worth, 0.0))
            verdict[found] = kind
        found += 1
    return found


def all_rows(keys: Floats, mask: Bools | None) -> tuple[Floats, Ints, Ints, Ints]:
    """Δ (R, d) of every (input, choice, dropped), its input (R,), places and count for `walk`."""
    n, T, _ = keys.shape
    present = np.ones((n, T), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    i, a, t = (present[:, :, None] & present[:, None, :] & ~np.eye(T, dtype=bool)).nonzero()
    places = np.full((n, T, max(T - 1, 1)), -1)
    count = np.zeros((n, T), np.int64)
    for row, (x, y) in enumerate(zip(i, a, strict=True)):
        places[x, y, count[x, y]] = row
        count[x, y] += 1
    return keys[i, a] - keys[i, t], i, places, count
