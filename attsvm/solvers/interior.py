"""The other norms: the Frobenius answer first, then the norm's own interior point or program."""

from __future__ import annotations

from functools import partial

import numpy as np

from attsvm.norms import Norm
from attsvm.norms.entrywise import Power
from attsvm.problem.problem import Problem
from attsvm.solvers import by_size
from attsvm.solvers.cone import nuclear, spectral
from attsvm.solvers.power import entrywise, linear
from attsvm.solvers.rounds import soft_margin
from attsvm.solvers.rounds.working_set import Inner, solve_with
from attsvm.solvers.solver import Answer


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


def solve(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer in any norm but Frobenius; a proof of infeasibility is the Frobenius one."""
    if np.isfinite(budget):
        return soft_margin.solve(problem, norm, tol=tol, budget=budget, hard=solve)
    start = by_size.solve(problem, norm, tol=min(tol, 1e-9))
    if start.proof or start.W is None:
        return start
    return solve_with(inner_of(norm), problem, norm, tol=tol, start=start)
