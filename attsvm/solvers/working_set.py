"""The loop round a norm's own method: unit rows, the data's span, a working set, soft margins.

The Frobenius solution comes first: it proves infeasibility (which no norm changes), scales the
problem so that its least Frobenius norm is 1, and tells which margins matter. Rotational norms
see only the span of the queries and of the differences, when that is smaller.

    min ½‖W‖² + C Σ ξ_k   s.t.  Δ_kᵀ W z_k ≥ b_k − ξ_k,  ξ ≥ 0,  ties exact

A soft margin goes the same way, with the budget C of a row as cap_k = C‖Δ_k‖‖z_k‖/‖W‖ of its unit
row. A row whose cap cannot move W is left out: its ξ_k and λ_k follow from W.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.memory import require
from attsvm.certificate.certificate import soft_lower, soft_upper
from attsvm.norms import Norm
from attsvm.norms.entrywise import L1Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.frobenius.active_set import solve_frobenius
from attsvm.solvers.linear_program import L1
from attsvm.solvers.solver import Answer, RowArrays, zero_row
from attsvm.solvers.unit_rows import Method, UnitRows

# Up to this many margins all of them go in at once; beyond, a rough solve chooses. Up to ALL of
# them do where the margin is soft.
SMALL = 200
ALL = 600
# The gap of the rough solve, and the slack (a share of ‖W‖) within which a margin stays, first and
# then, for entrywise (False) and for rotational norms: singular values move further from the
# Frobenius solution than entries do.
ROUGH = {False: 1e-2, True: 5e-2}
CLOSE = {False: (0.0, 0.004), True: (0.004, 0.012)}
# What the inner solver is asked for, as a share of the gap: it ends at steps of a tenth or better.
SHARE = 0.6
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


@dataclass(frozen=True)
class DataSpan:
    """Orthonormal bases of what the data can see; None stands for the whole space."""

    left: Floats | None
    right: Floats | None

    @classmethod
    def of(cls, rows: RowArrays) -> DataSpan:
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


def answer_with(
    method: Method, problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf
) -> Answer:
    """The answer of a norm's method on all rows, by rounds over a growing set of margins.

    A proof of infeasibility is the Frobenius one.
    """
    if budget < np.inf:
        # C·ξ may be more than a float holds, or less.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return soft_answer(method, problem, norm, tol=tol, budget=budget)
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
    span = DataSpan.of(RowArrays.of(problem)) if norm.rotational else DataSpan(None, None)
    answer, W, lam = start, W0, start.multipliers
    for _ in range(ROUNDS):
        fits(method, norm, span, len(working) + problem.ties, problem.shape)
        rows = RowArrays.of(problem, working)
        unit_rows, first, warm = _scaled(rows, span, start, W0, size)
        goal = max(SHARE * tol, ROUGH[norm.rotational] if rough else 0.0)
        W, unit = method.inner(unit_rows, norm=norm, tol=goal, W0=first, lam0=warm)
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


def _scaled(
    rows: RowArrays, span: DataSpan, start: Answer, W0: Floats, size: float
) -> tuple[UnitRows, Floats, Floats]:
    """The rows at length 1 in the span, in units in which W0 has norm 1; W0 and λ of the start."""
    D, Z, first = span.down(rows.D / rows.norms[:, None], rows.Z, W0 / size)
    warm = np.concatenate([start.multipliers, start.tie_multipliers])[rows.place]
    unit_rows = UnitRows(D, Z, rows.b / (rows.norms * size), rows.free)
    return unit_rows, first, warm * rows.norms / size


def fits(method: Method, norm: Norm, span: DataSpan, k: int, shape: tuple[int, int]) -> None:
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


def soft_answer(
    method: Method, problem: Problem, norm: Norm, *, tol: float, budget: float
) -> Answer:
    """The answer of a soft margin; where the budget is no bound, that of the hard margin.

    Ties that contradict each other have no solution: the answer is their proof.
    """
    none = contradiction(problem, norm, tol=tol)
    if none is not None:
        return none
    start = solve_frobenius(problem, norm, tol=min(tol, 1e-9), budget=budget)
    answers = [start]
    if float(start.multipliers.max(initial=0.0)) < LOOSE * budget:
        # The gap of ½‖W‖² is twice that of ‖W‖.
        hard = answer_with(method, problem, norm, tol=0.4 * tol)
        if not hard.proof:
            answers.append(hard)
    best = _merged(problem, norm, answers, budget=budget)
    if _settled(problem, norm, best, tol=tol, budget=budget):
        return best
    if budget > IMMENSE * _natural(problem, 2):
        # ½‖W‖² is all but lost beside C Σ ξ: a linear program serves every norm.
        more = soft_rounds(L1, problem, L1Norm(), tol=tol, budget=budget, start=_guess(problem))
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
    span = DataSpan.of(rows) if norm.rotational else DataSpan(None, None)
    fits(method, norm, span, len(rows.D), problem.shape)
    unit_rows, first, warm = _scaled(rows, span, start, W0, size)
    # Rows of norm zero are missed by all of b.
    lost = float(problem.b[problem.row_norms == 0].sum()) * budget / (size * size)
    base = lost + float(cap[~heavy] @ unit_rows.b[~heavy])
    soft = replace(unit_rows.part(heavy), cap=cap[heavy], base=base)
    lam0 = soft.within(warm[heavy])
    W, unit = method.inner(soft, norm=norm, tol=0.2 * tol, W0=first, lam0=lam0)
    W = span.up(W) * size
    lam = np.zeros(len(cap))
    lam[heavy] = unit * size / rows.norms[heavy]
    margins, ties = rows.spread(lam)
    light = problem.row_norms == 0
    light[rows.place[~heavy]] = True
    missed = problem.b > problem.margins(W)
    return Answer(W, np.where(light, np.where(missed, budget, 0.0), margins), ties)
