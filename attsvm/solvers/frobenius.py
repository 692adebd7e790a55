"""Frobenius problems: the active set where it fits, a cutting plane in few dimensions, else Newton.

The cutting plane keeps a working set of rows for the active set and adds the most violated ones;
with D = d·dq unknowns no more than D rows are ever active, whatever the number of margins.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.optimize import nnls

from attsvm.memory import HEADROOM, available
from attsvm.norms import Norm
from attsvm.problem import Problem
from attsvm.solvers.active_set import NO_SOLUTION, solve_small
from attsvm.solvers.answer import Answer, Rows
from attsvm.solvers.farkas import sharpen
from attsvm.solvers.frobenius_large import MEMORY, solve_rows
from attsvm.tokens import Floats

# The active set works on a Gram of all its rows: quadratic memory, cubic time.
SMALL = 300
# Unknowns up to which the cutting plane is the better one for many rows.
FEW = 200
# Numbers in a dense matrix of the rows, at most.
_DENSE = 2_000_000
# The residual of a proof, for each row, that rounding explains.
_ROUNDING = 2e-16
# The gap that a polish on the support may still improve.
_POLISH = 1e-12
# The share of a margin that may be missed before the polish.
_MISSED = 1e-9
# Rounds of a polish, each with fewer rows of the support.
_TURNS = 5


def solve(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of the method that fits the size."""
    if budget < np.inf:
        return newton(problem, norm, tol=tol, budget=budget)
    if problem.m + problem.ties <= SMALL:
        return active_set(problem, norm)
    if problem.shape[0] * problem.shape[1] <= FEW and problem.ties <= SMALL:
        return cutting_plane(problem, norm, tol=tol)
    return newton(problem, norm, tol=tol)


def active_set(problem: Problem, norm: Norm, *, tol: float = 0.0, budget: float = np.inf) -> Answer:
    """The answer of the dual active set on all rows."""
    if not problem.ties and problem.smallest > 0:
        # The common case needs no copy of the rows.
        status, lam, W, short = solve_small(
            problem.differences(), problem.queries, problem.query, problem.row_norms, problem.b,
            np.zeros(problem.m, dtype=bool),
        )  # fmt: skip
        if status != NO_SOLUTION and _met(short, W, problem.row_norms, problem.b):
            return Answer(W, lam, np.empty(0))
    return _small(Rows.of(problem))


def cutting_plane(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of the active set on a working set that grows by the most violated rows."""
    D = problem.shape[0] * problem.shape[1]
    batch = max(2 * D, 60)
    live = problem.row_norms > 0
    unit = np.where(live, problem.row_norms, 1.0)
    # The first guess: the mean of the rows.
    W = problem.adjoint(np.where(live, 1.0 / unit, 0.0))
    working = np.empty(0, np.int64)
    lam = np.zeros(problem.m)
    answer = Answer(W, lam, np.zeros(problem.ties))
    for _ in range(500):
        violation = np.where(live, (problem.b - problem.margins(W)) / unit, -np.inf)
        size = float(np.linalg.norm(W))
        if len(working) and float(violation.max()) <= max(1e-14, 0.05 * tol) * size:
            break
        count = min(batch, problem.m)
        new = np.argpartition(-violation, count - 1)[:count]
        grown = np.union1d(working[lam[working] > 0], new)
        if len(working) and len(np.setdiff1d(grown, working)) == 0:
            break  # nothing new is violated beyond what rounding explains
        working = grown
        rows = Rows.of(problem, working)
        answer = _small(rows)
        if answer.proof or answer.W is None:
            break
        lam, W = answer.multipliers, answer.W
    return answer


def newton(
    problem: Problem,
    norm: Norm,
    *,
    tol: float,
    budget: float = np.inf,
) -> Answer:
    """The answer of coordinate descent and Newton steps on a working set; takes a budget."""
    right = np.concatenate([problem.b, problem.c])
    W, lam = solve_rows(
        problem.keys,
        problem.queries,
        np.concatenate([problem.hi, problem.tie_hi]),
        np.concatenate([problem.lo, problem.tie_lo]),
        np.concatenate([problem.query, problem.tie_query]),
        right,
        free=np.arange(problem.m + problem.ties) >= problem.m,
        tol=0.1 * tol,
        budget=budget,
        memory=min(MEMORY, HEADROOM * available()),
    )
    proof = not W.any() and np.isinf(budget) and float(right @ lam) > 0
    return Answer(None if proof else W, lam[: problem.m], lam[problem.m :], proof)


def _small(rows: Rows) -> Answer:
    """The answer of the active set on these rows, polished on the support when that helps."""
    status, lam, W, short = solve_small(rows.D, rows.z, rows.query, rows.norms, rows.b, rows.free)
    if status == NO_SOLUTION:
        proof = sharpen(rows, lam)
        found = least_distance(rows, proof)
        return proof if found is None else found
    if not _met(short, W, rows.norms, rows.b):
        lam, W = _polish(rows, lam, W)
    margins, ties = rows.spread(lam)
    return Answer(W, margins, ties)


def _met(short: float, W: Floats, norms: Floats, b: Floats) -> bool:
    """Whether margins missed by `short`, in shares of ‖Δ‖‖z‖‖W‖, are nothing to a polish.

    A margin b is a small share of ‖Δ‖‖z‖‖W‖ where ‖W‖ is large, and missed by more of itself.
    """
    if short > _POLISH:
        return False
    if short <= 0.0:
        return True
    size = short * sqrt(np.vdot(W, W))
    if size * float(norms.max(initial=0.0)) <= _MISSED * float(b.min(initial=1.0)):
        return True  # the row of all that asks the most
    return size * float((norms / np.where(b > 0, b, np.inf)).max(initial=0.0)) <= _MISSED


def least_distance(rows: Rows, proof: Answer) -> Answer | None:
    """The answer that non-negative least squares on the rows themselves finds, against a proof.

    Rows that are nearly opposite look dependent in their Gram, which squares their angles. When
    the residual of the proof is more than rounding, its lower bound L sets the scale at which

        min ‖Fᵀλ‖² + (Σ bλ/L − 1)²,  λ ≥ 0

    tells a solution of norm about L (W = L Fᵀλ/(1 − Σ bλ/L)) from none. None: the proof stands, or
    the problem is too large for a dense matrix.

    Theory: least-distance programming [lawson1974nnls].
    """
    D = rows.D.shape[1] * rows.z.shape[1]
    unit = np.concatenate([proof.multipliers, proof.tie_multipliers])[rows.place] * rows.norms
    if len(unit) * D > _DENSE:
        return None
    F = rows.features()
    left, size = float(np.linalg.norm(F.T @ unit)), float(np.abs(unit).sum())
    right = rows.b / rows.norms
    worth = float(right @ unit)
    if left <= _ROUNDING * len(unit) * size or not worth > 0:
        return None
    scale = left / worth
    # Ties have multipliers of both signs: they enter twice.
    signs = np.concatenate([np.ones(len(unit)), -np.ones(int(rows.free.sum()))])
    place = np.concatenate([np.arange(len(unit)), rows.free.nonzero()[0]])
    A = np.vstack([F.T, scale * right])[:, place] * signs
    try:
        lam, _ = nnls(A, np.concatenate([np.zeros(D), [1.0]]), maxiter=30 * A.shape[1])
    except RuntimeError:  # out of iterations
        return None
    both = np.zeros(len(unit))
    np.add.at(both, place, signs * lam)
    rest = 1.0 - scale * float(right @ both)
    if not rest > 0 or not both.any():
        return None
    both /= rest * scale
    W = (F.T @ both).reshape(rows.D.shape[1], -1)
    lam, W = _polish(rows, both / rows.norms, W)
    margins, ties = rows.spread(lam)
    return Answer(W, margins, ties)


def _polish(rows: Rows, lam: Floats, W: Floats) -> tuple[Floats, Floats]:
    """The least-norm solution of the support's equalities, from the rows instead of their Gram.

    The Gram squares the condition number; a QR of the rows themselves does not. A row of the
    support whose multiplier turns out negative does not belong to it: it is taken out, and the
    result is kept only if it is the better one.
    """
    support = (lam != 0).nonzero()[0]
    for turn in range(_TURNS):
        part = Rows(
            rows.D[support], rows.z, rows.query[support], rows.norms[support], rows.b[support],
            rows.free[support], support, rows.m, rows.total,
        )  # fmt: skip
        F = part.features()
        # More rows than unknowns depend on each other: there is no one solution to polish.
        if not 0 < len(support) <= F.shape[1] or F.size > 2.5e7:
            return lam, W
        goal = part.b / part.norms
        # W = Fᵀ y with F W = goal: y from two triangular solves, refined once in W.
        Q, R = np.linalg.qr(F.T)
        if float(np.abs(np.diag(R)).min(initial=1.0)) < 1e-11:
            return lam, W
        w = Q @ np.linalg.solve(R.T, goal)
        w = w + Q @ np.linalg.solve(R.T, goal - F @ w)
        y = np.linalg.solve(R, Q.T @ w)
        wrong = ~part.free & (y < 0)
        if wrong.any():
            support = support[~wrong]
            continue
        if turn and not _norm_above(rows, w) < _norm_above(rows, W.ravel()):
            return lam, W
        better = np.zeros(len(lam))
        better[support] = y / part.norms
        return better, w.reshape(W.shape)
    return lam, W


def _norm_above(rows: Rows, w: Floats) -> float:
    """‖w‖ over its worst margin: what scaling it up would give; inf where that is not enough."""
    if rows.free.any() or not (rows.b > 0).all():
        return np.inf
    worst = float((rows.features() @ w * rows.norms / rows.b).min())
    return float(np.linalg.norm(w)) / worst if worst > 0 else np.inf
