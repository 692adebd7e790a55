"""Frobenius problems: the active set where it fits, a cutting plane if flat, else Newton."""

from __future__ import annotations

import numpy as np

from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers import active_set, cutting_plane, newton
from attsvm.solvers.frobenius.small import SMALL
from attsvm.solvers.solver import Answer

# Unknowns up to which the cutting plane is the better one for many rows.
FEW = 200


def solve(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of the method that fits the size."""
    if budget < np.inf:
        return newton.solve(problem, norm, tol=tol, budget=budget)
    if problem.m + problem.ties <= SMALL:
        return active_set.solve(problem, norm)
    if problem.shape[0] * problem.shape[1] <= FEW and problem.ties <= SMALL:
        return cutting_plane.solve(problem, norm, tol=tol)
    return newton.solve(problem, norm, tol=tol)
