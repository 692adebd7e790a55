"""The least change that restores ties and zero right-hand sides, and what it costs in norm.

Scaling repairs margins with b > 0 only. A float W misses ties and zero rows by rounding, so the
Frobenius-least E with A_S (W + E) = right-hand side on the missed rows S is added; what rounding
still leaves, ρ on unit rows, could be removed by a further change of Frobenius norm at most
‖ρ‖/σ with σ the smallest nonzero singular value of A_S. Its cost enters the upper bound and every
other margin. (The rows of S are taken as consistent, as they are for the exact solution.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm.norms import Norm
from attsvm.norms.norm import UNIT
from attsvm.problem import Problem
from attsvm.tokens import Bools, Floats

# Singular values of the unit rows below this share of the largest count as zero: from the rows
# themselves, and from their Gram, which squares them.
_FLAT, _FLAT_GRAM = 1e-14, 3e-7
# Numbers in the dense rows, beyond which the Gram is used.
_DENSE = 4_000_000
# What a correction may leave on a unit row, in units of the rounding error of that row.
_LEFT = 1e4
_ROUNDS = 6
# Beyond this many missed rows the Gram of the correction would not be small.
_MOST = 6000


@dataclass(frozen=True)
class Corrected:
    """A feasible matrix (up to the change bounded here) and a bound on the norm; None and inf."""

    W: Floats | None
    norm: float


def correct(problem: Problem, norm: Norm, W: Floats) -> Corrected:
    """The corrected W, scaled to worst margin 1 where scaling is allowed, and its norm above.

    Scaling is allowed when every tie has right-hand side 0. Otherwise margins with b > 0 that are
    missed join the rows to correct.
    """
    homogeneous = not problem.c.any()
    zero = problem.b == 0
    if homogeneous and bool(zero.all()):
        return Corrected(np.zeros(problem.shape), 0.0)
    shape = problem.shape
    fixed = zero if homogeneous else np.ones(problem.m, dtype=bool)
    W = _scaled(problem, W) if homogeneous else W
    missed = np.zeros(problem.m, dtype=bool)
    reach = 0.0
    safe = np.zeros(problem.m)
    for _ in range(_ROUNDS):
        slack, error = _slack(problem, W)
        # Generously: the reach still changes, and a row left out must stay clear of it.
        missed |= fixed & (slack <= 4 * (error + reach * problem.row_norms))
        if int(missed.sum()) + problem.ties > _MOST:
            return Corrected(None, np.inf)
        W, reach, clean = _change(problem, W, missed)
        slack, error = _slack(problem, W)
        safe = slack - error - reach * problem.row_norms
        if clean and not bool((safe < 0)[fixed & ~missed].any()):
            break
    else:
        return Corrected(None, np.inf)
    live = ~zero
    worst = 1.0
    if homogeneous and live.any():
        worst = float(((safe + problem.b)[live] / problem.b[live]).min())
    if not worst > 0:
        return Corrected(None, np.inf)
    value = float(norm.value(W)) * (1 + norm.rounding(shape)) + norm.spread(shape)[0] * reach
    return Corrected(W / worst, value / worst * (1 + 8 * UNIT))


def restore_ties(problem: Problem, W: Floats) -> tuple[Floats, float, bool]:
    """W + E with the ties met, the Frobenius reach of what is left, and whether they are met."""
    return _change(problem, W, np.zeros(problem.m, dtype=bool))


def _scaled(problem: Problem, W: Floats) -> Floats:
    """W with worst margin 1 over the rows with b > 0, when it is positive."""
    live = problem.b > 0
    worst = float((problem.margins(W)[live] / problem.b[live]).min()) if live.any() else 1.0
    return W / worst if worst > 0 else W


def _slack(problem: Problem, W: Floats) -> tuple[Floats, Floats]:
    """Margins minus b (m,), and the rounding error of each (m,)."""
    d, dq = problem.shape
    unit = (d + dq + 7) * UNIT * 1.01 * float(np.linalg.norm(W))
    return problem.margins(W) - problem.b, unit * problem.row_norms


def _change(problem: Problem, W: Floats, missed: Bools) -> tuple[Floats, float, bool]:
    """W + E, the Frobenius reach of what is left, and whether the rows are met to rounding.

    Margins of `missed` are brought to their right-hand side (never lowered), ties to theirs.
    """
    rows = missed.nonzero()[0]
    D = np.concatenate([problem.differences(rows), problem.tie_differences()])
    Z = problem.queries[np.concatenate([problem.query[rows], problem.tie_query])]
    size = np.concatenate([problem.row_norms[rows], problem.tie_norms])
    goal = np.concatenate([problem.b[rows], problem.c])
    tie = np.arange(len(size)) >= len(rows)
    live = size > 0
    if not live.all():
        if (goal[~live] != 0).any():
            return W, np.inf, False
        D, Z, size, goal, tie = D[live], Z[live], size[live], goal[live], tie[live]
    if not len(size):
        return W, 0.0, True
    A = D / size[:, None]
    sigma, Q = _spectrum(A, Z)
    d, dq = problem.shape
    unit = (d + dq + 7) * UNIT * 1.01
    lifted = np.zeros(len(size), dtype=bool)
    for turn in range(4):
        gap = goal / size - np.einsum("kd,kd->k", A, Z @ W.T)
        # Rows above their right-hand side already stay where they are: they ask for no change.
        gap = np.where(tie | lifted, gap, np.maximum(gap, 0.0))
        lifted |= gap > 0
        if turn < 3:
            y = Q @ ((Q.T @ gap) / sigma**2)
            W = W + A.T @ (y[:, None] * Z)
    error = unit * float(np.linalg.norm(W)) + UNIT * np.abs(goal / size)
    left = np.abs(gap) + error
    reach = float(np.linalg.norm(left) / sigma.min())
    return W, reach, bool((np.abs(gap) <= _LEFT * error).all())


def _spectrum(A: Floats, Z: Floats) -> tuple[Floats, Floats]:
    """The nonzero singular values (r,) of the rows A_k z_kᵀ and their left vectors (k, r).

    Rows that are nearly parallel have a small value that is not zero: it must not be dropped, for
    what rounding leaves on such rows takes a large change to remove.
    """
    if A.shape[0] * A.shape[1] * Z.shape[1] <= _DENSE:
        F = (A[:, :, None] * Z[:, None, :]).reshape(len(A), -1)
        Q, sigma, _ = np.linalg.svd(F, full_matrices=False)
        solid = sigma > _FLAT * sigma[0]
    else:
        level, Q = np.linalg.eigh((A @ A.T) * (Z @ Z.T))
        sigma = np.sqrt(np.maximum(level, 0.0))
        solid = sigma > _FLAT_GRAM * sigma[-1]
    return sigma[solid], Q[:, solid]
