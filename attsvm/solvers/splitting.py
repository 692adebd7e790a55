"""Many rows in any norm with a proximal map: Douglas–Rachford round coordinate descent.

The Frobenius answer comes first, roughly: it proves infeasibility, which no norm changes, and its
multipliers are the start. Rotational norms see the span of the queries alone. In l1 and max, whose
balls have flat faces, splitting slows down: an interior point ends what it began.
"""

from __future__ import annotations

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
from attsvm.solvers.frobenius.coordinate import Segments, sort_rows
from attsvm.solvers.frobenius.span import in_span
from attsvm.solvers.lp_interior_point.handover import Handover
from attsvm.solvers.lp_interior_point.path import close_gap, has_pairs
from attsvm.solvers.newton import by_newton_steps
from attsvm.solvers.solver import Answer
from attsvm.solvers.splitting_parts.best import Best
from attsvm.solvers.splitting_parts.iteration import Enough, alternate
from attsvm.solvers.splitting_parts.squared import Squared
from attsvm.solvers.working_set.soft_margin import contradiction

# The gap of the Frobenius start.
ROUGH = 0.1
# The gap below which splitting no longer helps where the interior point of l1 and max has stalled.
HELP = 1e-4


def has_prox(norm: Norm) -> bool:
    """Whether a norm brings the proximal map that splitting needs."""
    return norm.prox is not None


def memory_need(problem: Problem) -> float:
    """Bytes beside the problem's own: twenty numbers per row, sixteen matrices like W."""
    d, dq = problem.shape
    return 8.0 * (20.0 * (problem.m + problem.ties) + 16.0 * d * dq)


def by_splitting(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of Douglas–Rachford steps; a proof of infeasibility is the Frobenius one."""
    if norm.prox is None:
        raise Unsupported(f"norm {norm.name} has no prox: solver 'general' needs none")
    none = None if np.isinf(budget) else contradiction(problem, norm, tol=tol)
    if none is not None:
        return none
    require(
        memory_need(problem), f"{problem.m} rows of {problem.shape} unknowns in norm {norm.name}"
    )
    basis = None
    if norm.rotational:
        problem, basis = in_span(problem)
    start = by_newton_steps(problem, norm, tol=ROUGH, budget=budget)
    if start.proof or start.W is None or not start.W.any():
        return _turned(start, basis)
    free = np.arange(problem.m + problem.ties) >= problem.m
    rows = sort_rows(
        problem.keys,
        problem.queries,
        np.concatenate([problem.hi, problem.tie_hi]),
        np.concatenate([problem.lo, problem.tie_lo]),
        np.concatenate([problem.query, problem.tie_query]),
        np.concatenate([problem.b, problem.c]),
        free=free,
        budget=budget,
    )

    def answered(W: Floats, lam: Floats) -> Answer:
        out = np.empty(len(free))
        out[rows.order] = lam
        return Answer(W, out[: problem.m], out[problem.m :])

    def enough(W: Floats, lam: Floats) -> bool:
        # Restoring ties and rows with b = 0 costs more than their misses tell.
        found = answered(W, lam)
        pair = found.multipliers, found.tie_multipliers
        return certify(problem, norm, W, *pair, tol=tol, budget=budget).status == "optimal"

    judge = None if problem.scalable else enough
    lam = np.concatenate([start.multipliers, start.tie_multipliers])[rows.order]
    prox = norm.prox if np.isinf(budget) else Squared(norm, norm.prox)
    with bar(f"{problem.m:,} rows in norm {norm.name}", late=True) as told:
        if np.isinf(budget) and has_pairs(norm):
            W, lam = _closed(rows, norm, lam, tol=tol, enough=judge, told=told)
        else:
            W, lam = alternate(rows, norm, prox, lam, tol=tol, enough=judge, told=told)
    return _turned(answered(W, lam), basis)


def _closed(
    rows: Segments,
    norm: Norm,
    lam: Floats,
    *,
    tol: float,
    enough: Enough | None,
    told: Progress | None,
) -> tuple[Floats, Floats]:
    """W and λ of a norm that is a linear program: its interior point ends what splitting began."""
    shares = [0.0]

    def heard(share: float, said: str) -> None:
        shares.append(share)
        if told is not None:
            told(share, said)

    def onward(share: float, said: str) -> None:
        if told is not None:
            told(shares[-1] + (1.0 - shares[-1]) * share, said)

    leave, prox = Handover(rows, tol), cast(Prox, norm.prox)
    W, best = alternate(rows, norm, prox, lam, tol=tol, enough=enough, leave=leave, told=heard)
    # Bounds that look good and are refused leave no way on for splitting.
    refused = enough is not None and leave.able(best) and not enough(W, best)
    if not leave.left and not refused:
        return W, best
    W, best, gap = close_gap(rows, norm, W, best, tol=tol, enough=enough, told=onward)
    if gap <= max(tol, HELP):
        return W, best
    # Nearly dependent rows may stop the one and not the other.
    more = alternate(rows, norm, prox, lam, tol=tol, enough=enough, told=told)
    pair = Best(W, best).below(rows, norm, best).above(rows, norm, W)
    pair = pair.below(rows, norm, more[1]).above(rows, norm, more[0])
    return pair.W, pair.lam


def _turned(answer: Answer, basis: Floats | None) -> Answer:
    """The answer in the coordinates of all queries."""
    W = answer.W if answer.W is None or basis is None else answer.W @ basis.T
    return Answer(W, answer.multipliers, answer.tie_multipliers, answer.proof)
