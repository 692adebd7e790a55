"""The answer of a method on a whole problem: the Frobenius answer first, then rounds of its own."""

from __future__ import annotations

import numpy as np

from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.solver import Answer
from attsvm.solvers.working_set.method import Method
from attsvm.solvers.working_set.soft_margin import soft_answer
from attsvm.solvers.working_set.working_set import hard_answer


def answer_with(
    method: Method, problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf
) -> Answer:
    """The answer of a norm's method; a proof of infeasibility is the Frobenius one."""
    if np.isfinite(budget):
        return soft_answer(method, problem, norm, tol=tol, budget=budget)
    return hard_answer(method, problem, norm, tol=tol)
