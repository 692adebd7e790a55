"""The first record of a run that is proved to converge."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.theory.convergence.prover import Prover

# Every third record is looked at: they are 15 % apart.
_EVERY = 3
# The records that are returned: before the first proof, at it, later, and the last.
BEFORE, FIRST, LATER, LAST = range(4)


def first_proved(judge: Prover, W: Floats) -> tuple[Ints, bool]:
    """The records BEFORE, FIRST, LATER, LAST of a run W (R, d, d), and whether there is a proof.

    All are the last where there is none.
    """
    last = len(W) - 1
    grid = np.arange(last % _EVERY, last + 1, _EVERY)
    none = np.full(4, last)
    top = np.stack([judge.selected(W[r]) for r in grid])
    loose = (top != top[-1]).any(axis=1).nonzero()[0]
    low, high = int(loose[-1]) if len(loose) else -1, len(grid) - 1
    if not judge.prove(W[last], explain=False).proved:
        return none, False
    while high - low > 1:
        middle = (low + high) // 2
        proved = judge.prove(W[grid[middle]], explain=False).proved
        low, high = (low, middle) if proved else (middle, high)
    later = grid[(high + len(grid) - 1) // 2]
    return np.array([grid[max(low, 0)], grid[high], later, last]), True
