"""The default choice of a method, by norm, size and tolerance."""

from __future__ import annotations

from collections.abc import Callable
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
from attsvm.solvers.cone import NUCLEAR, SPECTRAL, interior_point, soft_interior_point
from attsvm.solvers.frobenius.active_set import solve_frobenius
from attsvm.solvers.solver import Answer
from attsvm.solvers.unit_rows import Method, UnitRows
from attsvm.solvers.working_set import answer_with

# Margins beyond which splitting is the sooner one.
MANY = 600
# Margins beyond which a norm's own method is not worth waiting for where splitting has stalled.
HOPELESS = 5_000

# Norms do not import solvers, so the methods of the listed ones are named here, by class; a norm
# from outside brings its own in `inner` and `soft`.
METHODS: dict[type[Norm], Callable[[Any], Method]] = {
    NuclearNorm: lambda _: _cone(NUCLEAR),
    SpectralNorm: lambda _: _cone(SPECTRAL),
    L1Norm: lambda _: linear_program.L1,
    MaxNorm: lambda _: linear_program.MAX,
    LpNorm: lambda norm: Method(partial(power.inner, p=norm.p), splitting.inner_soft),
}


def _cone(norm: Any) -> Method:
    return Method(partial(interior_point, cone=norm), partial(soft_interior_point, cone=norm))


def has_method(norm: Norm) -> bool:
    """Whether a norm has a method of its own, brought along or listed here."""
    return norm.inner is not None or type(norm) in METHODS


def method_of(norm: Norm) -> Method:
    """The method of a norm; soft margins of one that brings only `inner` go the general way."""
    own = norm.inner
    if own is not None:

        def inner(rows: UnitRows, **options: Any) -> tuple[Floats, Floats]:
            return own(rows.D, rows.Z, rows.b, rows.free, **options)

        return Method(inner, general.inner_soft if norm.soft is None else norm.soft)
    make = METHODS.get(type(norm))
    if make is None:
        raise Unsupported(f"norm {norm.name} has no method of its own: solver 'general' needs none")
    return make(norm)


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
    own = partial(answer_with, method_of(norm) if has_method(norm) else general.method_of(norm))
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
