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

from attsvm.norms import Norm
from attsvm.problem import Problem
from attsvm.solvers import frobenius
from attsvm.solvers.answer import Answer
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


def solve_soft(inner: Inner, problem: Problem, norm: Norm, *, tol: float, budget: float) -> Answer:
    """The answer of `inner` on the whole problem, by rounds over a growing set of margins.

    Ties that contradict each other have no solution: the answer is their proof.
    """
    start = frobenius.solve(problem, norm, tol=min(tol, 1e-9), budget=budget)
    if problem.ties:
        alone = problem.part(np.empty(0, dtype=np.int64))
        ties = frobenius.solve(alone, norm, tol=tol)
        if ties.proof or ties.W is None:
            return Answer(None, np.zeros(problem.m), ties.tie_multipliers, True)
    W0 = start.W
    if W0 is None or not np.isfinite(W0).all() or not W0.any():
        return start
    size = float(np.linalg.norm(W0))
    working = _first(problem, start, W0, size)
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
