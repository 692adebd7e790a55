"""Many rows in any norm with a proximal map: Douglas–Rachford round coordinate descent.

The Frobenius answer comes first, roughly: it proves infeasibility, which no norm changes, and its
multipliers are the start. Rotational norms see the span of the queries alone.
"""

from __future__ import annotations

import numpy as np

from attsvm.certificate import certify
from attsvm.errors import Unsupported
from attsvm.ground.arrays import Floats
from attsvm.ground.memory import require
from attsvm.ground.progress import telling
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.frobenius.coordinate import sort_rows
from attsvm.solvers.frobenius.span import in_span
from attsvm.solvers.newton import by_newton_steps
from attsvm.solvers.rounds.soft_margin import contradiction
from attsvm.solvers.solver import Answer
from attsvm.solvers.splitting_parts.iteration import alternate
from attsvm.solvers.splitting_parts.squared import Squared

# The gap of the Frobenius start.
ROUGH = 0.1


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

    with telling(f"{problem.m:,} rows in norm {norm.name}") as told:
        W, lam = alternate(
            rows,
            norm,
            norm.prox if np.isinf(budget) else Squared(norm, norm.prox),
            np.concatenate([start.multipliers, start.tie_multipliers])[rows.order],
            tol=tol,
            enough=None if problem.scalable else enough,
            told=told,
        )
    return _turned(answered(W, lam), basis)


def _turned(answer: Answer, basis: Floats | None) -> Answer:
    """The answer in the coordinates of all queries."""
    W = answer.W if answer.W is None or basis is None else answer.W @ basis.T
    return Answer(W, answer.multipliers, answer.tie_multipliers, answer.proof)
