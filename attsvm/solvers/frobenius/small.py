"""Few rows: the dual active set on all of them, and what mends its answer.

Rows that are nearly dependent are hard on a Gram, which squares their angles: the answer is
polished on the rows themselves, and a proof that looks too weak is tried again by least squares.
"""

from __future__ import annotations

import numpy as np
import scipy

from attsvm._utils.arrays import Floats
from attsvm.problem.problem import StackRows
from attsvm.solvers.frobenius.dual_active_set import NO_SOLUTION
from attsvm.solvers.frobenius.sharpening import sharpen
from attsvm.solvers.frobenius.stacked import solve_small
from attsvm.solvers.solver import Answer, RowArrays

# The active set works on a Gram of all its rows: quadratic memory, cubic time.
SMALL = 300
# Numbers in a dense matrix of the rows, at most.
_DENSE = 2_000_000
# The residual of a proof, for each row, that rounding explains.
_ROUNDING = 2e-16
# Rounds of a polish, each with fewer rows of the support.
_TURNS = 5


def answer_small(rows: RowArrays) -> Answer:
    """The answer of the active set on these rows, polished on the support when that helps."""
    found = solve_small(StackRows.alone(rows.D, rows.z, rows.query, rows.norms, rows.b), rows.free)
    lam, W = found.lam, found.W
    if found.status == NO_SOLUTION:
        proof = sharpen(rows, lam)
        other = least_distance(rows, proof)
        return proof if other is None else other
    if not found.met:
        lam, W = _polish(rows, lam, W)
    margins, ties = rows.spread(lam)
    return Answer(W, margins, ties)


def least_distance(rows: RowArrays, proof: Answer) -> Answer | None:
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
        lam, _ = scipy.optimize.nnls(
            A, np.concatenate([np.zeros(D), [1.0]]), maxiter=30 * A.shape[1]
        )
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


def _polish(rows: RowArrays, lam: Floats, W: Floats) -> tuple[Floats, Floats]:
    """The least-norm solution of the support's equalities, from the rows instead of their Gram.

    The Gram squares the condition number; a QR of the rows themselves does not. A row of the
    support whose multiplier turns out negative does not belong to it: it is taken out, and the
    result is kept only if it is the better one.
    """
    support = (lam != 0).nonzero()[0]
    for turn in range(_TURNS):
        part = RowArrays(
            rows.D[support],
            rows.z,
            rows.query[support],
            rows.norms[support],
            rows.b[support],
            rows.free[support],
            support,
            rows.m,
            rows.total,
        )
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


def _norm_above(rows: RowArrays, w: Floats) -> float:
    """‖w‖ over its worst margin: what scaling it up would give; inf where that is not enough."""
    if rows.free.any() or not (rows.b > 0).all():
        return np.inf
    worst = float((rows.features() @ w * rows.norms / rows.b).min())
    return float(np.linalg.norm(w)) / worst if worst > 0 else np.inf
