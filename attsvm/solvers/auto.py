"""The default choice of a method, by norm, size and tolerance."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import certify
from attsvm.errors import TooLarge, Unsupported
from attsvm.norms import Norm
from attsvm.norms.entrywise import L1Norm, LpNorm, MaxNorm
from attsvm.norms.matrix import NuclearNorm, SpectralNorm
from attsvm.problem.problem import Problem
from attsvm.solvers import general, linear_program, power, splitting
from attsvm.solvers.cone import interior_point
from attsvm.solvers.frobenius.active_set import solve_frobenius
from attsvm.solvers.solver import Answer
from attsvm.solvers.unit_rows import Method, UnitRows
from attsvm.solvers.working_set import answer_with

# Margins beyond which splitting is the sooner one.
MANY = 600
# Margins beyond which a norm's own method is not worth waiting for where splitting has stalled.
HOPELESS = 5_000


def _lp(
    rows: UnitRows, *, norm: Any, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """The best (W, λ) found in an ℓp norm."""
    if rows.cap is not None:
        return splitting.inner_soft(rows, norm=norm, tol=tol, W0=W0, lam0=lam0)
    return power.inner(rows, p=norm.p, tol=tol, W0=W0, lam0=lam0)


# Norms do not import solvers, so the methods of the listed ones are named here, by class; a norm
# from outside brings its own in `inner`.
METHODS: dict[type[Norm], Method] = {
    NuclearNorm: Method(interior_point),
    SpectralNorm: Method(interior_point),
    L1Norm: linear_program.L1,
    MaxNorm: linear_program.MAX,
    LpNorm: Method(_lp),
}


def has_method(norm: Norm) -> bool:
    """Whether a norm has a method of its own, brought along or listed here."""
    return norm.inner is not None or type(norm) in METHODS


def method_of(norm: Norm) -> Method:
    """The method of a norm; the soft margins of one that brings its own go the general way."""
    own = norm.inner
    if own is not None:

        def inner(rows: UnitRows, *, norm: Norm, **options: Any) -> tuple[Floats, Floats]:
            if rows.cap is not None:
                return general.inner(rows, norm=norm, **options)
            return own(rows.D, rows.Z, rows.b, rows.free, **options)

        return Method(inner)
    if type(norm) not in METHODS:
        raise Unsupported(f"norm {norm.name} has no method of its own: solver 'general' needs none")
    return METHODS[type(norm)]


def by_own_method(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of the norm's own method, by rounds over a growing set of margins."""
    return answer_with(method_of(norm), problem, norm, tol=tol, budget=budget)


def solve_auto(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer of the method that fits the norm, the size and the tolerance.

    Splitting is for many rows, where the tolerance allows it. What it cannot bring to the tolerance
    goes on to the norm's own method where that fits into memory.
    """
    if norm.euclidean:
        return solve_frobenius(problem, norm, tol=tol, budget=budget)
    own = partial(answer_with, method_of(norm) if has_method(norm) else general.METHOD)
    if norm.prox is None:
        return own(problem, norm, tol=tol, budget=budget)
    few = problem.m <= HOPELESS
    first = problem.m <= MANY or tol < norm.prox_reach or problem.ties > 0
    if few and first:
        try:
            return own(problem, norm, tol=tol, budget=budget)
        except TooLarge:
            few = False  # splitting needs little memory and tells how far it got
    answer = splitting.by_splitting(problem, norm, tol=tol, budget=budget)
    if answer.proof or not few:
        return answer
    pair = answer.multipliers, answer.tie_multipliers
    if certify(problem, norm, answer.W, *pair, tol=tol, budget=budget).status == "optimal":
        return answer
    try:
        return own(problem, norm, tol=tol, budget=budget)
    except TooLarge:
        return answer
