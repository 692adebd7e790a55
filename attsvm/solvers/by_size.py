"""Frobenius problems: the active set where it fits, a cutting plane if flat, else Newton."""

from __future__ import annotations

import numpy as np

from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.active_set import by_active_set
from attsvm.solvers.cutting_plane import by_cutting_planes
from attsvm.solvers.frobenius.small import SMALL
from attsvm.solvers.newton import by_newton_steps
from attsvm.solvers.solver import Answer

# Unknowns up to which the cutting plane is the better one for many rows.
FEW = 200


def solve_frobenius(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of the method that fits the size."""
    if budget < np.inf:
        return by_newton_steps(problem, norm, tol=tol, budget=budget)
    if problem.m + problem.ties <= SMALL:
        return by_active_set(problem, norm)
    if problem.shape[0] * problem.shape[1] <= FEW and problem.ties <= SMALL:
        return by_cutting_planes(problem, norm, tol=tol)
    return by_newton_steps(problem, norm, tol=tol)
