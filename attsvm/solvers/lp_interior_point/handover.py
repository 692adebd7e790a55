"""When the interior point is sooner than more steps of splitting: both counted in operations."""

from __future__ import annotations

from math import log10

from attsvm._utils.arrays import Floats
from attsvm.solvers.frobenius.coordinate import Segments
from attsvm.solvers.lp_interior_point.path import fits, flops, working_rows

# The gap from which the path starts well, and looks without progress after which it starts anyway.
NEAR, IDLE = 0.05, 6
# In l1 and max the gap of splitting falls like epochs^(−1/SLOW), as measured.
SLOW = 0.7
# Steps of the path: so many, and so many per digit.
STEPS, DIGIT = 4.0, 3.0
# How many operations of the path, nearly all in large matrix products, take as long as one of an
# epoch.
FASTER = 4.0
# Splitting gets at least this share of what the path will take: a better start saves steps.
INVEST = 0.15


class Handover:
    """Says whether to leave off splitting at a gap; `left` remembers a yes."""

    def __init__(self, rows: Segments, tol: float) -> None:
        self.rows, self.tol, self.left = rows, tol, False

    def __call__(self, lam: Floats, *, gap: float, epochs: int, stale: int) -> bool:
        """Whether the path should take over; lam: the best multipliers so far."""
        k = working_rows(self.rows, lam)
        sooner = stale >= IDLE
        if self.tol < gap <= NEAR:
            path, epoch = self._path(k, gap), FASTER * self._epoch()
            more = ((gap / self.tol) ** SLOW - 1.0) * epochs * epoch
            sooner = sooner or (INVEST * path < epochs * epoch and path < more)
        self.left = sooner and self.able(lam)
        return self.left

    def able(self, lam: Floats) -> bool:
        """Whether the path has the memory it needs."""
        return fits(self.rows, working_rows(self.rows, lam))

    def _path(self, k: int, gap: float) -> float:
        """Operations of the path to the tolerance."""
        return (STEPS + DIGIT * log10(gap / self.tol)) * flops(self.rows, k)

    def _epoch(self) -> float:
        """Operations of an epoch of splitting."""
        (g, dq), d = self.rows.queries.shape, self.rows.keys.shape[1]
        return 4.0 * g * d * dq + 2.0 * len(self.rows.b) * d
