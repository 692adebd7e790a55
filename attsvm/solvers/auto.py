"""Any norm: splitting for many rows where the tolerance allows it, else the norm's own method."""

from __future__ import annotations

import numpy as np

from attsvm.certificate import certify
from attsvm.errors import TooLarge
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.general import by_cuts
from attsvm.solvers.interior import by_interior_point, has_method
from attsvm.solvers.solver import Answer
from attsvm.solvers.splitting import by_splitting

# Margins beyond which splitting is the sooner one.
MANY = 600
# Margins beyond which a norm's own method is not worth waiting for where splitting has stalled.
HOPELESS = 5_000


def solve_fitting(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of the method that fits the size and the tolerance.

    What splitting cannot bring to the tolerance goes on to the norm's own method where that fits
    into memory; the better of the two answers is handed back.
    """
    if norm.prox is None:
        return _own(problem, norm, tol=tol, budget=budget)
    few = problem.m <= HOPELESS
    if few and (problem.m <= MANY or tol < norm.prox_reach or problem.ties):
        try:
            return _own(problem, norm, tol=tol, budget=budget)
        except TooLarge:
            few = False  # splitting needs little memory and tells how far it got
    answer = by_splitting(problem, norm, tol=tol, budget=budget)
    if answer.proof or not few or _settled(problem, norm, answer, tol=tol, budget=budget):
        return answer
    try:
        return _own(problem, norm, tol=tol, budget=budget)
    except TooLarge:
        return answer


def _own(problem: Problem, norm: Norm, *, tol: float, budget: float) -> Answer:
    """The answer of the norm's own method, or of the general one."""
    method = by_interior_point if has_method(norm) else by_cuts
    return method(problem, norm, tol=tol, budget=budget)


def _settled(problem: Problem, norm: Norm, answer: Answer, *, tol: float, budget: float) -> bool:
    """Whether the certificate of an answer is optimal."""
    pair = answer.multipliers, answer.tie_multipliers
    return certify(problem, norm, answer.W, *pair, tol=tol, budget=budget).status == "optimal"
