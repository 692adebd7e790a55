"""Soft margins in any norm: the rows in one scale, the judge of a pair, and a working set.

    min ½‖W‖² + Σ cap_k ξ_k   s.t.  D_kᵀ W Z_k ≥ b_k − ξ_k,  ξ ≥ 0,  ties exact
    max Σ b_k λ_k − ½‖A*λ‖²_dual   s.t.  0 ≤ λ_k ≤ cap_k on margins

The Frobenius solution comes first and sets the scale: rows of norm 1, W of Frobenius norm 1, so
that the budget C of a row becomes cap_k = C‖Δ_k‖‖z_k‖/‖W‖. A row whose cap cannot move W is left
out: its ξ_k and λ_k follow from W.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import lsq_linear

from attsvm.norms import Norm
from attsvm.problem import Problem
from attsvm.soft import soft_lower, soft_upper
from attsvm.solvers import frobenius
from attsvm.solvers.answer import Answer, zero_row
from attsvm.solvers.answer import Rows as Listed
from attsvm.solvers.cone import Rows
from attsvm.tokens import Bools, Floats, Ints

# Up to this many margins all of them go in at once.
ALL = 600
ROUNDS = 20
# Caps that together move W by less than this share are too small to matter.
WEIGHTLESS = 1e-14
# A margin this share of ‖W‖ above its right-hand side waits outside a large working set.
FAR = 0.3
# How much further than its worst margin W is scaled, to be clear of rounding.
BEYOND = 1e-12
# The budget that counts as moderate, in units of b/(‖Δ‖‖z‖)².
MODERATE = 1e4
# Margins within this share of b and of ‖W‖ are tight; numbers in a dense matrix, at most.
NEAR = 1e-7
DENSE = 2_000_000


@dataclass(frozen=True)
class Soft:
    """Unit rows with caps: cap (k,), inf on ties; base: what the rows left out add to both bounds.

    The bounds are those of `rows`; a gap is taken relative to the whole, lower + base.
    """

    rows: Rows
    cap: Floats
    norm: Norm
    base: float = 0.0

    @property
    def held(self) -> Bools:
        """True on margins (k,)."""
        return ~self.rows.free

    def upper(self, W: Floats, lam: Floats) -> float:
        """½‖W‖² + Σ cap ξ, and twice what the misses of ties cost to first order."""
        short, held = self.rows.b - self.rows.values(W), self.held
        value = 0.5 * float(self.norm.value(W)) ** 2
        value += float(self.cap[held] @ np.maximum(short[held], 0.0))
        return value + 2.0 * float(np.abs(lam)[~held] @ np.abs(short)[~held])

    def within(self, lam: Floats) -> Floats:
        """λ clipped to its bounds (k,)."""
        return np.where(self.held, np.clip(lam, 0.0, self.cap), lam)

    def lower(self, lam: Floats) -> float:
        """Σ bλ − ½‖A*λ‖²_dual."""
        dual = float(self.norm.dual(self.rows.adjoint(lam)))
        return float(self.rows.b @ lam) - 0.5 * dual**2


@dataclass(frozen=True)
class Best:
    """W of least upper bound and λ of greatest lower bound so far, and their relative gap."""

    soft: Soft
    W: Floats
    lam: Floats
    upper: float = np.inf
    lower: float = -np.inf

    @property
    def gap(self) -> float:
        """(upper − lower)/lower of the whole problem."""
        whole = self.lower + self.soft.base
        return (self.upper - self.lower) / whole if whole > 0.0 else np.inf

    def judged(self, *, W: Floats, lam: Floats) -> Best:
        """The better of this and (W, λ); W and λ are judged apart."""
        best, lam = self, self.soft.within(lam)
        lower = self.soft.lower(lam)
        if lower > best.lower:
            best = replace(best, lam=lam, lower=lower)
        upper = self.soft.upper(W, best.lam)
        return replace(best, W=W.copy(), upper=upper) if upper < best.upper else best


# inner(soft, tol=…, W0=…, lam0=…) -> (W, λ), untrusted
Inner = Callable[..., tuple[Floats, Floats]]


@dataclass(frozen=True)
class Boxed:
    """Positive variables of a barrier method: λ and s, room = cap − λ and ξ, all (k,).

    On the central path λs = room·ξ = weight; both are 1 on ties, where nothing is bounded.
    """

    lam: Floats
    s: Floats
    room: Floats
    xi: Floats


def boxed(soft: Soft, lam: Floats, slack: Floats, *, weight: float) -> Boxed:
    """Variables near λ (k,) and slack = A(W) − b (k,), every product at least about `weight`."""
    held = soft.held
    cap = np.where(held, soft.cap, 2.0)
    over, under = np.maximum(slack, 0.0), np.maximum(-slack, 0.0)
    near = np.sqrt(weight)
    least = np.minimum(weight / np.maximum(over, near), 0.5 * cap)
    spare = np.minimum(weight / np.maximum(under, near), 0.5 * cap)
    # A small room is set, not taken as a difference, which would lose it.
    high = lam > cap - spare
    inside = np.where(high, cap - spare, np.maximum(lam, least))
    room = np.where(high, spare, cap - inside)
    s, xi = np.maximum(over, weight / inside), np.maximum(under, weight / room)
    return Boxed(np.where(held, inside, lam), *(np.where(held, x, 1.0) for x in (s, room, xi)))


def solve_soft(
    inner: Inner, problem: Problem, norm: Norm, *, tol: float, budget: float, start: Answer
) -> Answer:
    """The answer of `inner` on the whole problem, by rounds over a growing set of margins.

    start: the Frobenius answer, with the same budget.
    """
    if start.W is None or not np.isfinite(start.W).all() or not start.W.any():
        return start
    size = float(np.linalg.norm(start.W))
    working = _first(problem, start, start.W, size)
    answer = start
    for _ in range(ROUNDS):
        answer = _round(inner, problem, norm, start, working, tol=tol, budget=budget)
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
    found = zero_row(alone) or frobenius.solve(alone, norm, tol=tol)
    if not found.proof and found.W is not None:
        return None
    return Answer(None, np.zeros(problem.m), found.tie_multipliers, True)


def merged(problem: Problem, norm: Norm, answers: list[Answer], *, budget: float) -> Answer:
    """The W of least upper bound and the λ of greatest lower bound among the answers.

    W = 0 takes part, and W and λ scaled: W to meet its worst margin (a large C makes a miss of
    rounding size dear), λ to its best multiple within the budget.
    """
    weights = [answer.W for answer in answers if answer.W is not None]
    asked = (problem.b > 0) & (problem.row_norms > 0)
    for W in list(weights):
        worst = float((problem.margins(W)[asked] / problem.b[asked]).min(initial=np.inf))
        if 0.5 < worst < 2.0:
            weights.append(W * ((1.0 + BEYOND) / worst))
    if not problem.c.any():
        weights.append(np.zeros(problem.shape))
    chosen = None
    if weights:
        chosen = min(weights, key=lambda W: soft_upper(problem, norm, W, budget)[1])
    pairs = []
    for answer in answers:
        lam, mu = np.clip(answer.multipliers, 0.0, budget), answer.tie_multipliers
        pairs.append((lam, mu))
        worth, dual = problem.b @ lam + problem.c @ mu, norm.dual(problem.adjoint(lam, mu))
        if worth > 0 and dual > 0:
            scale = min(float(worth / dual**2), budget / max(float(lam.max(initial=0.0)), 1e-300))
            pairs.append((lam * scale, mu * scale))
    lam, mu = max(pairs, key=lambda pair: soft_lower(problem, norm, *pair))
    return Answer(chosen, lam, mu)


def moderate(problem: Problem) -> float:
    """A budget beyond which ½‖W‖² hardly matters beside C Σ ξ on rows that cannot be met."""
    asked = (problem.b > 0) & (problem.row_norms > 0)
    unit = problem.b[asked] / problem.row_norms[asked] ** 2
    return MODERATE * float(np.median(unit)) if asked.any() else np.inf


def priced(problem: Problem, W: Floats, *, budget: float) -> Answer:
    """W with the multipliers that a budget without end asks for: A*λ = 0 as nearly as possible.

    λ = C on missed margins, 0 on those met with room, and on tight ones (and ties) the least
    squares solution between these bounds.
    """
    rows = Listed.of(problem)
    away = np.einsum("kd,kd->k", rows.D, rows.Z @ W.T) - rows.b
    close = NEAR * (np.abs(rows.b) + rows.norms * float(np.linalg.norm(W)))
    tight = rows.free | (np.abs(away) <= close)
    lam = np.where(~tight & (away < 0.0), budget, 0.0)
    F = rows.features()
    if tight.any() and F.size <= DENSE:
        unit = rows.norms / rows.norms.max()
        goal = -(lam / budget * unit) @ F
        low = np.where(rows.free, -np.inf, 0.0)[tight]
        high = np.where(rows.free, np.inf, unit)[tight]
        fit = lsq_linear(F[tight].T, goal, bounds=(low, high), method="bvls", tol=1e-15)
        lam[tight] = fit.x / unit[tight] * budget
    margins, ties = rows.spread(lam)
    dead = problem.row_norms == 0
    return Answer(W, np.where(dead & (problem.b > 0), budget, margins), ties)


def settled(problem: Problem, norm: Norm, answer: Answer, *, tol: float, budget: float) -> bool:
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
    inner: Inner, problem: Problem, norm: Norm, start: Answer, working: Ints, *, tol: float,
    budget: float,
) -> Answer:  # fmt: skip
    """The answer on the margins of `working` and every tie."""
    W0 = np.zeros(problem.shape) if start.W is None else start.W
    size = float(np.linalg.norm(W0))
    rows = Listed.of(problem, working)
    cap = np.where(rows.free, np.inf, budget * rows.norms / size)
    heavy = cap > WEIGHTLESS / max(len(cap), 1)
    D, Z, b = rows.D / rows.norms[:, None], rows.Z, rows.b / (rows.norms * size)
    left, right = _bases(rows) if norm.rotational else (None, None)
    first = W0 / size
    if left is not None:
        D, first = D @ left, left.T @ first
    if right is not None:
        Z, first = Z @ right, first @ right
    warm = np.concatenate([start.multipliers, start.tie_multipliers])[rows.place]
    # Rows of norm zero are missed by all of b.
    lost = float(problem.b[problem.row_norms == 0].sum()) * budget / size**2
    base = lost + float(cap[~heavy] @ b[~heavy])
    soft = Soft(Rows(D[heavy], Z[heavy], b[heavy], rows.free[heavy]), cap[heavy], norm, base)
    lam0 = soft.within((warm * rows.norms / size)[heavy])
    W, unit = inner(soft, tol=0.2 * tol, W0=first, lam0=lam0)
    if left is not None:
        W = left @ W
    if right is not None:
        W = W @ right.T
    W = W * size
    lam = np.zeros(len(cap))
    lam[heavy] = unit * size / rows.norms[heavy]
    margins, ties = rows.spread(lam)
    light = problem.row_norms == 0
    light[rows.place[~heavy]] = True
    missed = problem.b > problem.margins(W)
    return Answer(W, np.where(light, np.where(missed, budget, 0.0), margins), ties)


def _bases(rows: Listed) -> tuple[Floats | None, Floats | None]:
    """Orthonormal bases of the span of the differences (d, k) and of the queries (dq, g).

    None where the span is the whole space.
    """
    used = np.unique(rows.query)
    left = np.linalg.qr(rows.D.T)[0] if len(rows.D) < rows.D.shape[1] else None
    right = np.linalg.qr(rows.z[used].T)[0] if len(used) < rows.z.shape[1] else None
    return left, right
