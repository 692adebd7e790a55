"""Any norm with a proximal map: Douglas–Rachford steps between the rows and the map.

    min f(V)  s.t.  W = V,  W meets the rows

    V = prox(Z, γ);   W = the matrix nearest to 2V − Z that meets the rows;   Z ← Z + 1.6 (W − V)

The nearest matrix is 2V − Z + Σ λ_k Δ_k z_kᵀ with λ from coordinate descent, which goes on from
the last λ: a few epochs do. At the end V = W, and λ/γ are multipliers of the problem.

The Frobenius answer comes first, roughly: it proves infeasibility, which no norm changes, and its
multipliers are the start. Rotational norms see the span of the queries alone. In l1 and max, whose
balls have flat faces, splitting slows down: an interior point ends what it began.

Theory: [eckstein1992douglas], inexact steps included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.memory import require
from attsvm._utils.progress import Progress, bar
from attsvm.certificate import certify
from attsvm.errors import Unsupported
from attsvm.norms import Norm
from attsvm.norms.norm import Prox
from attsvm.problem.problem import Problem
from attsvm.solvers.frobenius.coordinate_descent import (
    Segments,
    Waiting,
    descend,
    segments_of,
    sort_rows,
)
from attsvm.solvers.frobenius.newton import by_newton_steps, in_span
from attsvm.solvers.general import CuttingPlanes
from attsvm.solvers.lp_interior_point import Enough, Handover, close_gap, has_pairs
from attsvm.solvers.solver import Answer
from attsvm.solvers.unit_rows import BestPair, QueryGroups, UnitRows
from attsvm.solvers.working_set import contradiction

# Steps at most, between two looks at the bounds, and the first two looks.
STEPS = 20_000
LOOK, EARLY = 10, (3, 6)
# Looks without a gap smaller by a tenth, after which the iteration gives up.
PATIENCE = 40
# Epochs at most, all steps together.
LIMIT = 40_000
# Epochs of coordinate descent in a step: at first, and at most. They double where the last one
# moves W by more than the second share of how far W and V are apart, and halve below the first.
EPOCHS, MOST, CLOSE = 3, 32, (0.02, 0.2)
# Looks without progress after which the least doubles, and the most: nearly dependent rows.
PAUSE, IDLE = 3, 10
# Epochs between two visits of every row; a row waits that is further from tight than the worst
# violation, and than this share of how far W and V are apart.
REFRESH, FAR = 16, 0.1
# How far beyond W − V a step goes: below 2.
RELAXED = 1.6
# Until this step, and where nothing else helps, γ is moved so that ‖W − V‖/‖V‖ and the last change
# of V over ‖Z − V‖ stay within this ratio.
SETTLED, RATIO, FACTOR = 150, 5.0, 0.6

# Where `enough` says no, the gap asked for shrinks by this factor, so many times.
SHARPER, REFUSED = 0.2, 4
# The gap of the Frobenius start.
ROUGH = 0.1
# The gap below which splitting no longer helps where the interior point of l1 and max has stalled.
HELP = 1e-4
# Numbers in rows × unknowns up to which a quasi-Newton method goes on where splitting stalls.
FEW = 200_000
# Entries of W, or numbers in rows × unknowns, up to which cutting planes go on from there.
THIN, SMALL = 30, 3_000
# The root of the map of a square is found to this share; halvings that bracket it, at most.
ROOT, HALVINGS = 1e-11, 100


def by_splitting(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of Douglas–Rachford steps; a proof of infeasibility is the Frobenius one."""
    if norm.prox is None:
        raise Unsupported(f"norm {norm.name} has no prox: solver 'general' needs none")
    none = None if np.isinf(budget) else contradiction(problem, norm, tol=tol)
    if none is not None:
        return none
    d, dq = problem.shape
    # Beside the problem's own: twenty numbers per row, sixteen matrices like W.
    need = 8.0 * (20.0 * (problem.m + problem.ties) + 16.0 * d * dq)
    require(need, f"{problem.m} rows of {problem.shape} unknowns in norm {norm.name}")
    basis = None
    if norm.rotational:
        problem, basis = in_span(problem)
    start = by_newton_steps(problem, norm, tol=ROUGH, budget=budget)
    if start.proof or start.W is None or not start.W.any():
        return _turned(start, basis)
    rows = segments_of(problem, budget)

    def answered(W: Floats, lam: Floats) -> Answer:
        out = rows.unsorted(lam)
        return Answer(W, out[: problem.m], out[problem.m :])

    def enough(W: Floats, lam: Floats) -> bool:
        # Restoring ties and rows with b = 0 costs more than their misses tell.
        found = answered(W, lam)
        pair = found.multipliers, found.tie_multipliers
        return certify(problem, norm, W, *pair, tol=tol, budget=budget).status == "optimal"

    judge = None if problem.scalable else enough
    lam = np.concatenate([start.multipliers, start.tie_multipliers])[rows.order]
    prox = norm.prox if np.isinf(budget) else SquaredProx(norm, norm.prox)
    with bar(f"{problem.m:,} rows in norm {norm.name}", late=True, total=None) as progress:
        if np.isinf(budget) and has_pairs(norm):
            W, lam = _closed(rows, norm, lam, tol=tol, enough=judge, progress=progress)
        else:
            W, lam = alternate(rows, norm, prox, lam, tol=tol, enough=judge, progress=progress)
    return _turned(answered(W, lam), basis)


def _closed(
    rows: Segments,
    norm: Norm,
    lam: Floats,
    *,
    tol: float,
    enough: Enough | None,
    progress: Progress | None,
) -> tuple[Floats, Floats]:
    """W and λ of a norm that is a linear program: its interior point ends what splitting began."""
    leave, prox = Handover(rows, tol), cast(Prox, norm.prox)
    W, best = alternate(
        rows, norm, prox, lam, tol=tol, enough=enough, leave=leave, progress=progress
    )
    # Bounds that look good and are refused leave no way on for splitting.
    refused = enough is not None and leave.able(best) and not enough(W, best)
    if not leave.left and not refused:
        return W, best
    W, best, gap = close_gap(rows, norm, W, best, tol=tol, enough=enough, progress=progress)
    if gap <= max(tol, HELP):
        return W, best
    # Nearly dependent rows may stop the one and not the other.
    more = alternate(rows, norm, prox, lam, tol=tol, enough=enough, progress=progress)
    pair = BestPair(rows, norm, W, best).judged(W=W, lam=best).judged(W=more[0], lam=more[1])
    return pair.W, pair.lam


def _turned(answer: Answer, basis: Floats | None) -> Answer:
    """The answer in the coordinates of all queries."""
    return answer if answer.W is None or basis is None else replace(answer, W=answer.W @ basis.T)


def inner_soft(
    unit: UnitRows, *, norm: Norm, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """The best (W, λ) found for a soft margin on unit rows, from the Frobenius pair.

    Where splitting stalls, a quasi-Newton method goes on, and then cutting planes.
    """
    best, cap = unit.start(norm, W0, lam0), cast(Floats, unit.cap)
    groups, index = QueryGroups.of(unit.Z), np.arange(len(unit.b))
    query = groups.query[groups.back]
    rows = sort_rows(unit.D, groups.queries, index, index * 0 - 1, query, unit.b, free=unit.free)
    rows = replace(rows, ceil=cap[rows.order])
    if best.lam.any():
        prox = SquaredProx(norm, cast(Prox, norm.prox))
        W, lam = alternate(rows, norm, prox, best.lam[rows.order], tol=0.5 * tol)
        best = unit.judged(best, W, rows.unsorted(lam))
    if best.gap > tol and len(unit.b) * best.W.size <= FEW:
        cuts = CuttingPlanes(unit, norm, best.W)
        best = cuts.descend(best, tol)
        if best.W.size <= THIN or len(unit.b) * best.W.size <= SMALL:
            best = cuts.close(best, tol)
    return best.W, best.lam


def alternate(
    rows: Segments,
    norm: Norm,
    prox: Prox,
    lam: Floats,
    *,
    tol: float,
    enough: Enough | None = None,
    leave: Handover | None = None,
    progress: Progress | None = None,
) -> tuple[Floats, Floats]:
    """The best W (d, dq) and λ (m,) found for the sorted rows, from Frobenius multipliers λ.

    prox: that of the norm; of half its square where the rows have a budget. leave: asked at every
    look whether to leave off before the gap is reached.
    """
    W = rows.adjoint(lam)
    unit = float(norm.value(W))
    # In units in which the start has norm 1, whatever f is grows there with slope 1.
    cap = rows.ceil / unit
    rows, lam, W = replace(rows, b=rows.b / unit), lam / unit, W / unit
    soft = bool(np.isfinite(cap).any())
    best = BestPair(rows, norm, W, lam, cap if soft else None).judged(W=W, lam=lam)
    step = _first_step(norm, W)
    Z, draw = 2.0 * W, np.random.default_rng(0)
    V = prox(Z, step)
    rows, lam = _capped(rows, lam, step * cap)
    combined = rows.adjoint(lam)
    waiting, epochs, worst, apart = Waiting(rows, refresh=REFRESH), EPOCHS, np.inf, np.inf
    mark = best.gap
    stale = refused = 0
    for count in range(1, STEPS + 1):
        if stale >= PATIENCE or waiting.epochs > LIMIT:
            break
        if best.gap <= tol:
            if enough is None or enough(best.W * unit, best.lam * (unit if soft else 1.0)):
                break
            tol, refused = tol * SHARPER, refused + 1
            if refused == REFUSED:
                break
        centre = 2.0 * V - Z
        W = centre + combined
        worst = max(worst, FAR * apart)
        worst = descend(rows, lam, W, epochs=epochs - 1, draw=draw, cut=worst, waiting=waiting)
        last = W.copy()
        worst = descend(rows, lam, W, epochs=1, draw=draw, cut=worst, waiting=waiting)
        apart = _size(W - V)
        epochs = _epochs(epochs, float(np.linalg.norm(W - last)) / apart, stale)
        combined = W - centre
        Z = Z + RELAXED * (W - V)
        before, V = V, prox(Z, step)
        if count % LOOK and count not in EARLY:
            continue
        combined = rows.adjoint(lam)
        best = best.judged(W=W, lam=lam / step).judged(W=V)
        stale = 0 if best.gap < 0.9 * mark else stale + 1
        mark = best.gap if stale == 0 else mark
        if progress is not None:
            progress(0.0, f"gap {best.gap:.1e}")
        if leave and leave(best.lam, gap=best.gap, epochs=waiting.epochs, stale=stale):
            break
        # What stands still may be a row that waits, and is missed in between.
        waiting.refresh = max(1, REFRESH >> stale // 2)
        if count <= SETTLED or (stale and stale % IDLE == 0):
            factor = _balance(apart / _size(V), _size(V - before) / _size(Z - V))
            if factor != 1.0:
                step, lam, combined = step * factor, lam * factor, combined * factor
                Z = V + (Z - V) * factor
                V = prox(Z, step)
                rows, lam = _capped(rows, lam, step * cap)
    return best.W * unit, best.lam * (unit if soft else 1.0)


def _capped(rows: Segments, lam: Floats, ceil: Floats) -> tuple[Segments, Floats]:
    """The rows with other bounds on λ, and λ within them; a row without features has the bound."""
    if not np.isfinite(ceil).any():
        return rows, lam
    lam = np.where((rows.length == 0.0) & (rows.b > 0.0), ceil, np.minimum(lam, ceil))
    return replace(rows, ceil=ceil), lam


def _size(V: Floats) -> float:
    """‖V‖_F, and 1 for zero."""
    return float(np.linalg.norm(V)) or 1.0


def _epochs(now: int, moved: float, stale: int) -> int:
    """How many epochs the next step takes; moved: how far W went in the last one, over ‖W − V‖."""
    least, most = 2 << min(stale // PAUSE, 5), MOST << min(stale // IDLE, 2)
    if moved > CLOSE[1]:
        now = 2 * now
    elif moved < CLOSE[0]:
        now = now // 2
    return min(max(now, least), most)


def _first_step(norm: Norm, W: Floats) -> float:
    """γ with which γ∇f is as large as W, for W of norm 1."""
    size = float(np.linalg.norm(W))
    if norm.normal is not None:
        return size / float(np.linalg.norm(norm.normal(W)))
    return size * size


def _balance(apart: float, moved: float) -> float:
    """The factor by which γ is to change: W and V too far apart, or V moving too fast."""
    if apart > RATIO * moved:
        return FACTOR
    return 1.0 / FACTOR if moved > RATIO * apart else 1.0


class SquaredProx:
    """prox(V, γ) of ½‖·‖², from the map of the norm: a root in one number.

        X = prox(V, t) with t such that ‖V − X‖_dual = γ‖X‖   minimises   γ ½‖X‖² + ½‖X − V‖_F²

    The left side grows with t and the right side falls, whatever growing function of the norm the
    map belongs to; V − X is aligned with X for every t. A root begins where the last one lay.
    """

    def __init__(self, norm: Norm, prox: Prox) -> None:
        self.norm, self.prox = norm, prox
        self.t = 1.0

    def __call__(self, V: Floats, step: float) -> Floats:
        """The X that minimises γ ½‖X‖² + ½‖X − V‖_F²."""
        if not V.any():
            return V
        found: Floats = V

        def excess(t: float) -> float:
            nonlocal found
            found = self.prox(V, t)
            left, right = float(self.norm.dual(V - found)), step * float(self.norm.value(found))
            return (left - right) / (left + right)

        low, high = self._bracket(excess)
        below, above = excess(low), excess(high)
        side, t = 0, high
        for _ in range(HALVINGS):
            if below == above:  # both are zero
                break
            # False position; an end that stays twice counts half, so that it moves as well.
            t = (low * above - high * below) / (above - below)
            value = excess(t)
            if abs(value) <= ROOT or high - low <= ROOT * high:
                break
            if value > 0.0:
                high, above = t, value
                below = below / 2 if side > 0 else below
                side = 1
            else:
                low, below = t, value
                above = above / 2 if side < 0 else above
                side = -1
        self.t = t
        return found

    def _bracket(self, excess: Callable[[float], float]) -> tuple[float, float]:
        """Two t round the root, near the last one."""
        low = high = self.t
        wide = 1.25
        for _ in range(HALVINGS):
            if excess(high) > 0.0:
                break
            low, high, wide = high, high * wide, min(wide**2, 1e100)
        else:
            return low, high
        wide = 1.25
        for _ in range(HALVINGS if low == high else 0):
            low, wide = low / wide, min(wide**2, 1e100)
            if excess(low) < 0.0:
                break
            high = low
        return low, high
