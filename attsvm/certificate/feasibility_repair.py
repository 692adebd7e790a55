"""The least change that restores ties and zero right-hand sides, and what it costs in norm.

Scaling repairs margins with b > 0 only. A float W misses ties and zero rows by rounding, so the
Frobenius-least E with A_S (W + E) = right-hand side on the missed rows S is added; what rounding
still leaves, ρ on unit rows, is removed by a further change of Frobenius norm at most ‖ρ‖/σ with σ
a proved lower bound of the least singular value of A_S. Its cost enters the upper bound and every
other margin.

Rows that floats cannot prove independent are settled in rational arithmetic where their number
allows; a row that depends on others must then agree with them exactly. Otherwise nothing feasible
is claimed. Ties with an error (c_error) may also be left where W puts them, within that error.

How independent rows surely are follows from a proved lower bound on the least singular value of
unit rows A: a computed σ_min proves that only beyond its own error. Below it, rows may be
independent, dependent and consistent, or dependent and contradictory, and floats cannot tell which.

Theory: singular values move by at most ‖δA‖ [higham2002accuracy].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate.bounds import LEAST_MARGIN, independence, length, margin_error, value_above
from attsvm.norms import Norm
from attsvm.norms.norm import UNIT
from attsvm.problem.problem import Problem

# What a correction may leave on a unit row, in units of the rounding error of that row.
_LEFT = 1e4
_ROUNDS = 6
# Beyond this many missed rows the Gram of the correction would not be small.
_MOST = 6000
# Rows, and numbers in them, that rational arithmetic restores in about a second.
_EXACT_ROWS, _EXACT_NUMBERS = 120, 20_000


class Corrected(NamedTuple):
    """A matrix that is feasible up to a bounded change, and a bound on the norm; None and inf.

    moved: how far from c its ties may lie at most, 0 where they are met exactly.
    reach: how far from W, in Frobenius norm, the feasible matrix may lie.
    """

    W: Floats | None
    norm: float
    moved: float = 0.0
    reach: float = 0.0


@dataclass(frozen=True)
class Restored:
    """W with rows restored; within `reach` of it, in Frobenius norm, a matrix meets them exactly.

    clean: the rows were met to rounding; exact: shown in rational arithmetic, for this very W.
    """

    W: Floats
    reach: float
    clean: bool
    exact: bool = False


_NOTHING = Corrected(None, np.inf)


def correct(problem: Problem, norm: Norm, W: Floats) -> Corrected:
    """The corrected W, scaled to worst margin 1 where scaling is allowed, and its norm above.

    Scaling is allowed when every tie has right-hand side 0. Otherwise margins with b > 0 that are
    missed join the rows to correct. Where ties have an error, they are met exactly if that can be
    shown, and else left within it.
    """
    exact = np.ones(problem.ties, dtype=bool)
    found = _corrected(problem, norm, W, exact)
    if found.W is None and problem.c_error.any():
        pinned = problem.c_error == 0
        near = _least_squares(problem, W)
        found = _corrected(problem, norm, near, pinned)
    return found


def restore_ties(problem: Problem, W: Floats) -> tuple[Restored, float]:
    """W with its ties met, and how far from c they may lie at most; not clean when that fails."""
    none = np.zeros(problem.m, dtype=bool)
    every = np.ones(problem.ties, dtype=bool)
    found = _restored(problem, W, none, every)
    if found.clean or not problem.c_error.any():
        return found, 0.0
    pinned = problem.c_error == 0
    found = _restored(problem, _least_squares(problem, W), none, pinned)
    moved = np.where(pinned, 0.0, _tie_gap(problem, found.W, found.reach))
    clean = found.clean and bool((moved <= problem.c_error).all())
    return replace(found, clean=clean), float(moved.max(initial=0.0))


def _corrected(problem: Problem, norm: Norm, W: Floats, pinned: Bools) -> Corrected:
    """The corrected W when the ties in `pinned` (l,) are met exactly, the others within c_error."""
    scalable = not problem.c.any() and bool(pinned.all())
    zero = problem.b == 0
    if scalable and bool(zero.all()):
        return Corrected(np.zeros(problem.shape), 0.0)
    fixed = zero if scalable else np.ones(problem.m, dtype=bool)
    W = _scaled(problem, W) if scalable else W
    missed = np.zeros(problem.m, dtype=bool)
    reach = 0.0
    for _ in range(_ROUNDS):
        slack, error = _slack(problem, W)
        # Generously: the reach still changes, and a row left out must stay clear of it.
        missed |= fixed & (slack <= 4 * (error + reach * problem.row_norms))
        if int(missed.sum()) + int(pinned.sum()) > _MOST:
            return _NOTHING
        found = _restored(problem, W, missed, pinned)
        if not found.reach < np.inf:
            return _NOTHING
        W, reach = found.W, found.reach
        safe = _safe(problem, W, reach)
        if found.clean and not bool((safe < 0)[fixed & ~missed].any()):
            break
    else:
        return _NOTHING
    if scalable and found.exact:
        # What was shown of W must be shown again of the scaled one, which is rounded.
        found = _restored(problem, _scaled(problem, W), missed, pinned)
        if not found.reach < np.inf:
            return _NOTHING
        W, reach = found.W, found.reach
        safe = _safe(problem, W, reach)
        if not found.clean or bool((safe < 0)[fixed & ~missed].any()):
            return _NOTHING
    moved = np.where(pinned, 0.0, _tie_gap(problem, W, reach))
    if bool((moved > problem.c_error)[~pinned].any()):
        return _NOTHING
    live = ~zero
    worst = 1.0
    if scalable and live.any():
        worst = float(((safe + problem.b)[live] / problem.b[live]).min())
    if not worst > LEAST_MARGIN:
        return _NOTHING
    value = (value_above(norm, W) + norm.spread(problem.shape)[0] * reach) / worst * (1 + 8 * UNIT)
    # A W that was shown to have a feasible matrix near is kept as it is, for that matrix over
    # `worst`; another one is scaled with it.
    away = reach / worst + (length(W) * abs(1 / worst - 1) if found.exact else 0.0)
    return Corrected(
        W if found.exact else W / worst, value, float(moved.max(initial=0.0)), away * 1.01
    )


def _scaled(problem: Problem, W: Floats) -> Floats:
    """W with worst margin 1 over the rows with b > 0, when it is positive."""
    live = problem.b > 0
    worst = float((problem.margins(W)[live] / problem.b[live]).min()) if live.any() else 1.0
    return W / worst if LEAST_MARGIN < worst < np.inf else W


def _slack(problem: Problem, W: Floats) -> tuple[Floats, Floats]:
    """Margins minus b (m,), and the rounding error of each (m,)."""
    error = margin_error(problem.shape) * length(W) * problem.row_norms
    return problem.margins(W) - problem.b, error + 2 * UNIT * problem.b


def _safe(problem: Problem, W: Floats, reach: float) -> Floats:
    """Margins minus b (m,) of any matrix within `reach` of W, rounded down."""
    slack, error = _slack(problem, W)
    return slack - error - 1.01 * reach * problem.row_norms


def _tie_gap(problem: Problem, W: Floats, reach: float) -> Floats:
    """|tie − c| (l,) of any matrix within `reach` of W, rounded up."""
    error = margin_error(problem.shape) * length(W) + 1.01 * reach
    gap = np.abs(problem.tie_values(W) - problem.c)
    return (gap + error * problem.tie_norms + 2 * UNIT * np.abs(problem.c)) * (1 + 4 * UNIT)


def _rows(
    problem: Problem, missed: Bools, pinned: Bools
) -> tuple[Floats, Floats, Floats, Floats, Bools]:
    """Δ, z, ‖row‖, the right-hand side and whether it is a tie, of the rows to restore."""
    rows, ties = missed.nonzero()[0], pinned.nonzero()[0]
    D = np.concatenate([problem.differences(rows), problem.tie_differences()[ties]])
    Z = problem.queries[np.concatenate([problem.query[rows], problem.tie_query[ties]])]
    size = np.concatenate([problem.row_norms[rows], problem.tie_norms[ties]])
    goal = np.concatenate([problem.b[rows], problem.c[ties]])
    return D, Z, size, goal, np.arange(len(size)) >= len(rows)


def _restored(problem: Problem, W: Floats, missed: Bools, pinned: Bools) -> Restored:
    """W + E with margins of `missed` at their right-hand side or above, and ties at theirs."""
    D, Z, size, goal, tie = _rows(problem, missed, pinned)
    live = size > 0
    if not live.all():
        if (goal[~live] != 0).any():
            return Restored(W, np.inf, False)
        D, Z, size, goal, tie = D[live], Z[live], size[live], goal[live], tie[live]
    if not len(size):
        return Restored(W, 0.0, True)
    A = D / size[:, None]
    found = independence(A, Z)
    unit = margin_error(problem.shape)
    lifted = np.zeros(len(size), dtype=bool)
    for turn in range(4):
        gap = goal / size - np.einsum("kd,kd->k", A, Z @ W.T)
        # Rows above their right-hand side already stay where they are: they ask for no change.
        gap = np.where(tie | lifted, gap, np.maximum(gap, 0.0))
        lifted |= gap > 0
        if turn < 3:
            W = W + A.T @ (found.solve(gap)[:, None] * Z)
    error = unit * length(W) + 4 * UNIT * np.abs(goal / size)
    if found.sigma > 0:
        clean = bool((np.abs(gap) <= _LEFT * error).all())
        return Restored(W, length(np.abs(gap) + error) / found.sigma * 1.01, clean)
    fewer = _distinct(problem, missed, pinned)
    if int(fewer[0].sum() + fewer[1].sum()) < len(size):
        return _restored(problem, W, *fewer)
    return _restored_exactly(problem, W, missed, pinned)


def _distinct(problem: Problem, missed: Bools, pinned: Bools) -> tuple[Bools, Bools]:
    """The rows but for zero ones and bitwise copies of others, right-hand side included."""
    seen: set[tuple[bytes, ...]] = set()
    sides = (
        (missed, problem.hi, problem.lo, problem.query, problem.b, problem.row_norms),
        (pinned, problem.tie_hi, problem.tie_lo, problem.tie_query, problem.c, problem.tie_norms),
    )
    out = []
    for kind, (mask, hi, lo, query, right, size) in enumerate(sides):
        kept = mask & (size > 0)
        for k in kept.nonzero()[0]:
            low = problem.keys[lo[k]].tobytes() if lo[k] >= 0 else b""
            row = (
                bytes([kind]),
                problem.keys[hi[k]].tobytes(),
                low,
                problem.queries[query[k]].tobytes(),
                right[k].tobytes(),
            )
            kept[k] = row not in seen
            seen.add(row)
        out.append(kept)
    return out[0], out[1]


def _restored_exactly(problem: Problem, W: Floats, missed: Bools, pinned: Bools) -> Restored:
    """The same in rational arithmetic: a nearby float matrix, and how far from it one is feasible.

    Not clean when the rows contradict each other or are too many.
    """
    from attsvm.certificate.exact import exact_repair

    asked = _asked(problem, missed, pinned)
    count = asked.m + asked.ties
    if count > _EXACT_ROWS or count * sum(problem.shape) > _EXACT_NUMBERS:
        return Restored(W, np.inf, False)
    first = exact_repair(asked, W)
    if first is None:
        return Restored(W, np.inf, False)
    again = exact_repair(asked, first[0])
    if again is None:
        return Restored(W, np.inf, False)
    return Restored(first[0], again[1], True, exact=True)


def _asked(problem: Problem, missed: Bools, pinned: Bools) -> Problem:
    """The problem with only these margins and ties, no tie with an error."""
    return replace(
        problem.part(missed),
        tie_hi=problem.tie_hi[pinned],
        tie_lo=problem.tie_lo[pinned],
        tie_query=problem.tie_query[pinned],
        c=problem.c[pinned],
        c_error=np.zeros(int(pinned.sum())),
    )


def _least_squares(problem: Problem, W: Floats) -> Floats:
    """W with its ties met as well as least squares can, whether or not they are consistent."""
    every = np.ones(problem.ties, dtype=bool)
    D, Z, size, goal, _ = _rows(problem, np.zeros(problem.m, dtype=bool), every)
    live = size > 0
    if not live.any():
        return W
    A, Z = D[live] / size[live, None], Z[live]
    found = independence(A, Z)
    for _ in range(3):
        gap = goal[live] / size[live] - np.einsum("kd,kd->k", A, Z @ W.T)
        W = W + A.T @ (found.solve(gap)[:, None] * Z)
    return W
