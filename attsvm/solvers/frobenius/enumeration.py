"""Every selection of a small Frobenius problem: one Gram, one walk, infeasible prefixes cut.

The rows Δ = k_iα − k_it of all inputs i, choices α and dropped tokens t are set up once; a
selection uses n(T−1) of them. The walk fixes α input by input; when the rows of the first inputs
alone have no solution, no selection that starts so has one. All prefixes of one length are solved
as one stack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.solvers.frobenius.active_set import (
    NO_SOLUTION,
    STOPPED,
    solve_stack,
    workspace,
)

# Verdicts on a selection: not locally optimal (a tight row with a higher score), perhaps.
NO, MAYBE = 0, 1
# A multiplier above this share of the largest marks its row as tight beyond doubt.
CLEAR = 1e-6
# Selections that are solved in one go.
_CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Walk:
    """All rows of a small problem, and where those of each choice stand.

    G (R, R): Gram of all unit rows; scale (R,) one over their norms. places (n, T, T−1): row index
    of each (input, choice, dropped), count (n, T) how many; allowed (n, T): the choices. gap (R,):
    score of the choice minus score of the dropped token; rank: a bound on the rank of the rows.
    """

    G: Floats
    scale: Floats
    places: Ints
    count: Ints
    allowed: Bools
    gap: Floats
    rank: int


@dataclass(frozen=True, eq=False)
class Feasible:
    """The feasible selections (K, n) in order, their least norms (K,) and verdicts (K,); how many
    problems were solved, found infeasible, and stopped before they were done."""

    choices: Ints
    least: Floats
    verdict: Ints
    solves: int
    infeasible: int
    stopped: int


def walk(task: Walk, prefixes: Ints) -> Feasible:
    """The feasible selections that start with one of the prefixes (S, depth), in their order."""
    n = len(task.count)
    counts = np.zeros(3, np.int64)
    depth = prefixes.shape[1]
    prefixes = prefixes[task.allowed[np.arange(depth), prefixes].all(axis=1)]
    least, verdict = np.empty(len(prefixes)), np.empty(len(prefixes), np.int64)
    if depth:
        prefixes, least, verdict = _solve(task, prefixes, counts)
    for i in range(depth, n):
        choices = task.allowed[i].nonzero()[0]
        longer = np.empty((len(prefixes), len(choices), i + 1), np.int64)
        longer[:, :, :i] = prefixes[:, None]
        longer[:, :, i] = choices
        prefixes, least, verdict = _solve(task, longer.reshape(-1, i + 1), counts)
    return Feasible(prefixes, least, verdict, *counts.tolist())


def _solve(task: Walk, prefixes: Ints, counts: Ints) -> tuple[Ints, Floats, Ints]:
    """The feasible ones among prefixes (B, depth) of one length, their least norms and verdicts."""
    B, depth = prefixes.shape
    # Masked tokens leave a choice with fewer rivals: prefixes of one size make one stack.
    sizes = task.count[np.arange(depth), prefixes].sum(axis=1)
    if 0 < B <= _CHUNK and sizes.min() == sizes.max():
        good, least, verdict = _solve_part(task, prefixes, int(sizes[0]), counts)
        return prefixes[good], least[good], verdict[good]
    good = np.zeros(B, np.bool_)
    least, verdict = np.empty(B), np.empty(B, np.int64)
    for m in np.unique(sizes):
        same = (sizes == m).nonzero()[0]
        for k in range(0, len(same), _CHUNK):
            part = same[k : k + _CHUNK]
            found = _solve_part(task, prefixes[part], int(m), counts)
            good[part], least[part], verdict[part] = found
    return prefixes[good], least[good], verdict[good]


def _solve_part(task: Walk, prefixes: Ints, m: int, counts: Ints) -> tuple[Bools, Floats, Ints]:
    """Which of these prefixes of m rows each are feasible, their least norms and verdicts.

    These two are of whole selections alone.
    """
    B, depth = prefixes.shape
    rows = task.places[np.arange(depth), prefixes].reshape(B, -1)
    if rows.shape[1] != m:
        rows = rows[rows >= 0].reshape(B, m)
    found = np.empty(B, np.int64), np.empty((B, m)), np.empty((B, 0, 0)), np.empty((B, 3))
    none = np.empty((B, 0, 0))
    stack = none, none, np.empty((B, 0), np.int64), np.empty((B, 0)), np.ones((B, m))
    free = np.zeros(m, np.bool_)
    solve_stack(stack, free, (task.G, task.scale, rows), task.rank, workspace(m, 0, 0), found)
    status, lam, top = found[0], found[1], found[3][:, 0]
    feasible = status != NO_SOLUTION
    counts += (B, B - np.count_nonzero(feasible), np.count_nonzero(status == STOPPED))
    if depth < len(task.count):
        return feasible, top, status
    terms = task.scale[rows] / np.where(top > 0, top, 1.0)[:, None] * lam
    # Summed one after another, the same on any machine.
    worth = np.cumsum(terms, axis=1)[:, -1] if m else np.zeros(B)
    clear = lam > CLEAR * lam.max(axis=1, initial=0.0)[:, None]
    beaten = (clear & (task.gap[rows] <= 0.0)).any(axis=1)
    least = top * np.sqrt(np.maximum(worth, 0.0))
    return feasible, least, np.where(beaten, NO, MAYBE)


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
