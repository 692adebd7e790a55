"""The other norms: the Frobenius answer first, then the norm's own interior point or program."""

from __future__ import annotations

from functools import partial

import numpy as np

from attsvm.norms import Norm
from attsvm.norms.entrywise import Power
from attsvm.problem import Problem
from attsvm.solvers import (
    entrywise,
    frobenius,
    linear,
    nuclear,
    soft_cone,
    soft_margin,
    soft_power,
    spectral,
)
from attsvm.solvers.answer import Answer
from attsvm.solvers.working_set import Inner, solve_with

# Frobenius multipliers below this share of the budget: the hard margin is tried.
LOOSE = 0.5
# Budgets this far beyond a moderate one are tried by way of it.
IMMENSE = 1e4


def inner_of(norm: Norm) -> Inner:
    """The inner solver of a norm: unit rows in, an untrusted pair out."""
    if isinstance(norm, Power):
        return partial(entrywise.inner, p=norm.p)
    table: dict[str, Inner] = {
        "nuclear": nuclear.inner,
        "spectral": spectral.inner,
        "l1": linear.inner_l1,
        "max": linear.inner_max,
    }
    return table[norm.name]


def soft_inner_of(norm: Norm) -> soft_margin.Inner:
    """The inner solver of a norm for soft margins."""
    if isinstance(norm, Power):
        return partial(soft_power.inner, p=norm.p)
    return soft_cone.inner if norm.rotational else linear.inner_soft


def solve(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer in any norm but Frobenius; a proof of infeasibility is the Frobenius one."""
    if np.isfinite(budget):
        return _soft(problem, norm, tol=tol, budget=budget)
    start = frobenius.solve(problem, norm, tol=min(tol, 1e-9))
    if start.proof or start.W is None:
        return start
    return solve_with(inner_of(norm), problem, norm, tol=tol, start=start)


def _soft(problem: Problem, norm: Norm, *, tol: float, budget: float) -> Answer:
    """The answer of a soft margin; where the budget is no bound, that of the hard margin."""
    none = soft_margin.contradiction(problem, norm, tol=tol)
    if none is not None:
        return none
    start = frobenius.solve(problem, norm, tol=min(tol, 1e-9), budget=budget)
    answers = [start]
    if float(start.multipliers.max(initial=0.0)) < LOOSE * budget:
        firm = solve(problem, norm, tol=tol)
        if not firm.proof:
            answers.append(firm)
    best = soft_margin.merged(problem, norm, answers, budget=budget)
    less = soft_margin.moderate(problem)
    for method in (_immense, _direct) if budget > IMMENSE * less else (_direct,):
        if soft_margin.settled(problem, norm, best, tol=tol, budget=budget):
            break
        more = method(problem, norm, start, tol=tol, budget=budget)
        best = soft_margin.merged(problem, norm, [best, more], budget=budget)
    return best


def _direct(problem: Problem, norm: Norm, start: Answer, *, tol: float, budget: float) -> Answer:
    """The answer of the norm's own method."""
    inner = soft_inner_of(norm)
    return soft_margin.solve_soft(inner, problem, norm, tol=tol, budget=budget, start=start)


def _immense(problem: Problem, norm: Norm, start: Answer, *, tol: float, budget: float) -> Answer:
    """The W of a moderate budget, priced at this one: beyond it ½‖W‖² is lost to rounding."""
    W = _soft(problem, norm, tol=tol, budget=soft_margin.moderate(problem)).W
    return start if W is None else soft_margin.priced(problem, W, budget=budget)
