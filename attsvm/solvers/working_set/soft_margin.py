"""Soft margins in any norm but Frobenius: one scale for the rows, a working set, the best of all.

    min ½‖W‖² + C Σ ξ_k   s.t.  Δ_kᵀ W z_k ≥ b_k − ξ_k,  ξ ≥ 0,  ties exact

The Frobenius solution comes first and sets the scale: rows of norm 1, W of Frobenius norm 1, so
that the budget C of a row becomes cap_k = C‖Δ_k‖‖z_k‖/‖W‖. A row whose cap cannot move W is left
out: its ξ_k and λ_k follow from W.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.certificate.certify import soft_lower, soft_upper
from attsvm.norms import Norm
from attsvm.norms.entrywise import L1Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.by_size import solve_frobenius
from attsvm.solvers.cone.central_path import UnitRows
from attsvm.solvers.power import linear
from attsvm.solvers.solver import Answer, RowArrays, zero_row
from attsvm.solvers.working_set.method import Method
from attsvm.solvers.working_set.soft_rows import Soft
from attsvm.solvers.working_set.working_set import Span, fits, hard_answer

# Up to this many margins all of them go in at once.
ALL = 600
ROUNDS = 20
# Caps that together move W by less than this share are too small to matter.
WEIGHTLESS = 1e-14
# A margin this share of ‖W‖ above its right-hand side waits outside a large working set.
FAR = 0.3
# How much further than its worst margin W is scaled, to be clear of rounding.
BEYOND = 1e-12
# Margins within this share of ‖W‖ are tight; numbers in a dense matrix, at most.
NEAR = 1e-6
DENSE = 2_000_000
# Frobenius multipliers below this share of the budget: the hard margin is tried.
LOOSE = 0.5
# Budgets beyond this, in units of b/(‖Δ‖‖z‖)², leave ½‖W‖² at rounding level beside C Σ ξ.
IMMENSE = 1e8


def soft_answer(
    method: Method, problem: Problem, norm: Norm, *, tol: float, budget: float
) -> Answer:
    """The answer of a soft margin; where the budget is no bound, that of the hard margin.

    Ties that contradict each other have no solution: the answer is their proof.
    """
    # C·ξ may be more than a float holds, or less.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _solve(method, problem, norm, tol=tol, budget=budget)


def _solve(method: Method, problem: Problem, norm: Norm, *, tol: float, budget: float) -> Answer:
    none = contradiction(problem, norm, tol=tol)
    if none is not None:
        return none
    start = solve_frobenius(problem, norm, tol=min(tol, 1e-9), budget=budget)
    answers = [start]
    if float(start.multipliers.max(initial=0.0)) < LOOSE * budget:
        # The gap of ½‖W‖² is twice that of ‖W‖.
        hard = hard_answer(method, problem, norm, tol=0.4 * tol)
        if not hard.proof:
            answers.append(hard)
    best = _merged(problem, norm, answers, budget=budget)
    if _settled(problem, norm, best, tol=tol, budget=budget):
        return best
    if budget > IMMENSE * _natural(problem, 2):
        # ½‖W‖² is all but lost beside C Σ ξ: a linear program serves every norm.
        more = soft_rounds(
            linear.L1, problem, L1Norm(), tol=tol, budget=budget, start=_guess(problem)
        )
        best = _merged(problem, norm, [best, more], budget=budget)
        if _settled(problem, norm, best, tol=tol, budget=budget):
            return best
    more = soft_rounds(method, problem, norm, tol=tol, budget=budget, start=start)
    return _merged(problem, norm, [best, more], budget=budget)


def soft_rounds(
    method: Method, problem: Problem, norm: Norm, *, tol: float, budget: float, start: Answer
) -> Answer:
    """The answer of the method on all rows, by rounds over a growing set of margins.

    start: the Frobenius answer, with the same budget.
    """
    if start.W is None or not np.isfinite(start.W).all() or not start.W.any():
        return start
    size = float(np.linalg.norm(start.W))
    working = _first(problem, start, start.W, size)
    answer = start
    for _ in range(ROUNDS):
        answer = _round(method, problem, norm, start, working, tol=tol, budget=budget)
        if answer.W is None or len(working) == problem.m:
            break
        waiting = np.ones(problem.m, dtype=bool)
        waiting[working] = False
        short = problem.b - problem.margins(answer.W)
        new = np.flatnonzero(waiting & (short > 1e-12 * size * problem.row_norms))
        if not len(new):
            break
        working = np.union1d(working, new)
    return answer


def contradiction(problem: Problem, norm: Norm, *, tol: float) -> Answer | None:
    """The proof that the ties alone have no solution, if they have none."""
    if not problem.ties:
        return None
    alone = problem.part(np.empty(0, dtype=np.int64))
    found = zero_row(alone) or solve_frobenius(alone, norm, tol=tol)
    if not found.proof and found.W is not None:
        return None
    return Answer(None, np.zeros(problem.m), found.tie_multipliers, True)


def _merged(problem: Problem, norm: Norm, answers: list[Answer], *, budget: float) -> Answer:
    """The W of least upper bound and the λ of greatest lower bound among the answers.

    W = 0 takes part, and W and λ scaled: W to meet its worst margin (a large C makes a miss of
    rounding size dear), or changed to do so; λ to its best multiple within the budget.
    """
    weights = [answer.W for answer in answers if answer.W is not None]
    asked = (problem.b > 0) & (problem.row_norms > 0)
    for W in list(weights):
        worst = float((problem.margins(W)[asked] / problem.b[asked]).min(initial=np.inf))
        if 0.5 < worst < 2.0:
            weights.append(W * ((1.0 + BEYOND) / worst))
        if not problem.scalable:
            weights.append(_lifted(problem, W))
    if not problem.c.any():
        weights.append(np.zeros(problem.shape))
    chosen = None
    if weights:
        chosen = min(weights, key=lambda W: soft_upper(problem, norm, W, budget)[1])
    pairs = []
    for answer in answers:
        lam, mu = np.maximum(answer.multipliers, 0.0), answer.tie_multipliers
        pairs.append((np.minimum(lam, budget), mu))
        worth, dual = problem.b @ lam + problem.c @ mu, norm.dual(problem.adjoint(lam, mu))
        if worth > 0 and dual > 0:
            scale = min(
                float(worth / (dual * dual)), budget / max(float(lam.max(initial=0.0)), 1e-300)
            )
            pairs.append((lam * scale, mu * scale))
    lam, mu = max(pairs, key=lambda pair: soft_lower(problem, norm, *pair))
    return Answer(chosen, lam, mu)


def _lifted(problem: Problem, W: Floats) -> Floats:
    """W after the least change that clears rounding on tight margins and restores the ties."""
    rows, size = RowArrays.of(problem), float(np.linalg.norm(W))
    away = (np.einsum("kd,kd->k", rows.D, rows.Z @ W.T) - rows.b) / rows.norms
    goal = np.where(rows.free, -away, 0.1 * BEYOND * size - away)
    tight = rows.free | ((goal > 0.0) & (np.abs(away) < NEAR * size))
    if not tight.any() or len(rows.D) * W.size > DENSE:
        return W
    change = np.linalg.lstsq(rows.features()[tight], goal[tight], rcond=1e-12)[0]
    return np.asarray(W + change.reshape(W.shape))


def _natural(problem: Problem, power: int) -> float:
    """The median b/(‖Δ‖‖z‖)^power: the unit of ‖W‖ for power 1, that of C for 2."""
    asked = (problem.b > 0) & (problem.row_norms > 0)
    unit = problem.b[asked] / problem.row_norms[asked] ** power
    return float(np.median(unit)) if asked.any() else np.inf


def _guess(problem: Problem) -> Answer:
    """The mean of the unit rows, in the unit of W: a start where the Frobenius one has failed."""
    live = problem.row_norms > 0
    W = problem.adjoint(live / np.where(live, problem.row_norms, 1.0))
    size = float(np.linalg.norm(W))
    W = W * (_natural(problem, 1) / size) if size > 0 else W
    return Answer(W, np.zeros(problem.m), np.zeros(problem.ties))


def _settled(problem: Problem, norm: Norm, answer: Answer, *, tol: float, budget: float) -> bool:
    """Whether the answer has a gap of at most `tol`."""
    lower = soft_lower(problem, norm, answer.multipliers, answer.tie_multipliers)
    return soft_upper(problem, norm, answer.W, budget)[1] <= lower * (1.0 + tol)


def _first(problem: Problem, start: Answer, W: Floats, size: float) -> Ints:
    """All margins when they are few, else those not far above their right-hand side."""
    if problem.m <= ALL:
        return np.arange(problem.m)
    far = problem.margins(W) - problem.b > FAR * size * problem.row_norms
    return np.flatnonzero(~far | (start.multipliers > 0))


def _round(
    method: Method,
    problem: Problem,
    norm: Norm,
    start: Answer,
    working: Ints,
    *,
    tol: float,
    budget: float,
) -> Answer:
    """The answer on the margins of `working` and every tie."""
    W0 = np.zeros(problem.shape) if start.W is None else start.W
    size = float(np.linalg.norm(W0))
    rows = RowArrays.of(problem, working)
    cap = np.where(rows.free, np.inf, budget * rows.norms / size)
    heavy = cap > WEIGHTLESS / max(len(cap), 1)
    D, Z, b = rows.D / rows.norms[:, None], rows.Z, rows.b / (rows.norms * size)
    span = Span.of(rows) if norm.rotational else Span(None, None)
    fits(method, norm, span, len(rows.D), problem.shape)
    D, Z, first = span.down(D, Z, W0 / size)
    warm = np.concatenate([start.multipliers, start.tie_multipliers])[rows.place]
    # Rows of norm zero are missed by all of b.
    lost = float(problem.b[problem.row_norms == 0].sum()) * budget / (size * size)
    base = lost + float(cap[~heavy] @ b[~heavy])
    soft = Soft(UnitRows(D[heavy], Z[heavy], b[heavy], rows.free[heavy]), cap[heavy], norm, base)
    lam0 = soft.within((warm * rows.norms / size)[heavy])
    W, unit = method.soft(soft, tol=0.2 * tol, W0=first, lam0=lam0)
    W = span.up(W) * size
    lam = np.zeros(len(cap))
    lam[heavy] = unit * size / rows.norms[heavy]
    margins, ties = rows.spread(lam)
    light = problem.row_norms == 0
    light[rows.place[~heavy]] = True
    missed = problem.b > problem.margins(W)
    return Answer(W, np.where(light, np.where(missed, budget, 0.0), margins), ties)
