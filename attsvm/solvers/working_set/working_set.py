"""The loop round an interior point: unit rows, the data's span, and a working set of margins.

The Frobenius solution comes first: it proves infeasibility (which no norm changes), scales the
problem so that its least Frobenius norm is 1, and tells which margins matter. Rotational norms
see only the span of the queries and of the differences, when that is smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.memory import require
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.by_size import solve_frobenius
from attsvm.solvers.solver import Answer, RowArrays
from attsvm.solvers.working_set.method import Method

# Up to this many margins all of them go in at once; beyond, a rough solve chooses.
SMALL = 200
ALL = 600
# The gap of the rough solve, and the slack (a share of ‖W‖) within which a margin stays, first and
# then, for entrywise (False) and for rotational norms: singular values move further from the
# Frobenius solution than entries do.
ROUGH = {False: 1e-2, True: 5e-2}
CLOSE = {False: (0.0, 0.004), True: (0.004, 0.012)}
# What the inner solver is asked for, as a share of the gap: it ends at steps of a tenth or better.
SHARE = 0.6
_ROUNDS = 20


@dataclass(frozen=True)
class Span:
    """Orthonormal bases of what the data can see; None stands for the whole space."""

    left: Floats | None
    right: Floats | None

    @classmethod
    def of(cls, rows: RowArrays) -> Span:
        """The span of the differences (d, k) and of the queries (dq, g), when smaller."""
        d, dq = rows.D.shape[1], rows.z.shape[1]
        used = np.unique(rows.query)
        left = np.linalg.qr(rows.D.T)[0] if len(rows.D) < d else None
        right = np.linalg.qr(rows.z[used].T)[0] if len(used) < dq else None
        return cls(left, right)

    def down(self, D: Floats, Z: Floats, W: Floats) -> tuple[Floats, Floats, Floats]:
        """Differences, queries and W in the span's coordinates."""
        if self.left is not None:
            D, W = D @ self.left, self.left.T @ W
        if self.right is not None:
            Z, W = Z @ self.right, W @ self.right
        return D, Z, W

    def up(self, W: Floats) -> Floats:
        """W (d, dq) from the span's coordinates."""
        if self.left is not None:
            W = self.left @ W
        return W if self.right is None else W @ self.right.T


def hard_answer(method: Method, problem: Problem, norm: Norm, *, tol: float) -> Answer:
    """The answer of the method on all rows, by rounds over a growing set of margins."""
    start = solve_frobenius(problem, norm, tol=min(tol, 1e-9))
    if start.proof or start.W is None or not start.W.any():
        return start
    W0 = start.W
    size = float(np.linalg.norm(W0))
    length = problem.row_norms
    live = length > 0
    slack = _slack(problem, W0, length, size)
    working = np.flatnonzero(live)
    rough = len(working) > SMALL
    if len(working) > SMALL:
        working = _near(slack, start.multipliers, live, CLOSE[norm.rotational][0])
    require(16.0 * problem.m * problem.shape[0], f"{problem.m} rows in norm {norm.name}")
    span = Span.of(RowArrays.of(problem)) if norm.rotational else Span(None, None)
    answer, W, lam = start, W0, start.multipliers
    for _ in range(_ROUNDS):
        fits(method, norm, span, len(working) + problem.ties, problem.shape)
        rows = RowArrays.of(problem, working)
        D, Z, first = span.down(rows.D / rows.norms[:, None], rows.Z, W0 / size)
        warm = np.concatenate([start.multipliers, start.tie_multipliers])[rows.place]
        W, unit = method.inner(
            D,
            Z,
            rows.b / (rows.norms * size),
            rows.free,
            tol=max(SHARE * tol, ROUGH[norm.rotational] if rough else 0.0),
            W0=first,
            lam0=warm * rows.norms / size,
        )
        W = span.up(W) * size
        lam, mu = rows.spread(unit / rows.norms)
        answer = Answer(W, lam, mu)
        slack = _slack(problem, W, length, float(np.linalg.norm(W)))
        if rough:
            # The rough solution tells which margins matter in this norm: those alone go on.
            rough, working = False, _near(slack, lam, live, CLOSE[norm.rotational][1])
            continue
        inside = np.zeros(problem.m, dtype=bool)
        inside[working] = True
        worst = min(0.0, float(slack[inside].min(initial=0.0)))
        new = np.flatnonzero(~inside & live & (slack < worst - 1e-12))
        if not len(new):
            break
        working = _grow(working, new, slack, lam)
    return answer


def fits(method: Method, norm: Norm, span: Span, k: int, shape: tuple[int, int]) -> None:
    """Raises TooLarge unless k rows fit into memory while the method works on them.

    The rows are those in the span's coordinates.
    """
    left = shape[0] if span.left is None else span.left.shape[1]
    right = shape[1] if span.right is None else span.right.shape[1]
    N = left * right
    require(method.need(k, N), f"{k} rows of {N} unknowns in norm {norm.name}")


def _slack(problem: Problem, W: Floats, length: Floats, size: float) -> Floats:
    """(margin − b)/(‖Δ‖‖z‖‖W‖): how far each margin is from tight, as a share of ‖W‖."""
    gap = problem.margins(W) - problem.b
    return np.divide(gap, length * size, out=np.full(len(gap), np.inf), where=length > 0)


def _near(slack: Floats, lam: Floats, live: Bools, close: float) -> Ints:
    """The margins that are nearly tight or carry weight, a hundred at least."""
    least = np.partition(slack, min(100, len(slack) - 1))[min(100, len(slack) - 1)]
    keep = (slack <= max(close, least)) | (lam > 1e-3 * lam.max(initial=0.0))
    return np.flatnonzero(live & keep)


def _grow(working: Ints, new: Ints, slack: Floats, lam: Floats) -> Ints:
    """The working set with the new rows; rows far from tight and without weight leave."""
    if len(working) > 2 * ALL:
        far = (slack[working] > 0.3) & (lam[working] <= 1e-9 * lam.max(initial=0.0))
        working = working[~far]
    return np.union1d(working, new)
