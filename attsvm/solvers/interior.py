"""Norms with a method of their own: an interior point, or a linear program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from attsvm.errors import Unsupported
from attsvm.norms import Norm
from attsvm.norms.entrywise import L1Norm, LpNorm, MaxNorm
from attsvm.norms.matrix import NuclearNorm, SpectralNorm
from attsvm.problem.problem import Problem
from attsvm.solvers import general
from attsvm.solvers.cone import nuclear, spectral
from attsvm.solvers.cone import soft as soft_cone
from attsvm.solvers.power import entrywise, linear, query_rows
from attsvm.solvers.power import soft as soft_power
from attsvm.solvers.solver import Answer
from attsvm.solvers.working_set.method import Method
from attsvm.solvers.working_set.whole import answer_with


def _power(norm: Any) -> Method:
    hard, soft = partial(entrywise.inner, p=norm.p), partial(soft_power.inner, p=norm.p)
    return Method(hard, soft, query_rows.need)


# Norms stand below solvers, so the methods of the listed ones are named here, by class; a norm
# from outside brings its own in `inner` and `soft`.
METHODS: dict[type[Norm], Callable[[Any], Method]] = {
    NuclearNorm: lambda _: Method(nuclear.inner, partial(soft_cone.inner, side=soft_cone.NUCLEAR)),
    SpectralNorm: lambda _: Method(
        spectral.inner, partial(soft_cone.inner, side=soft_cone.SPECTRAL)
    ),
    L1Norm: lambda _: linear.L1,
    MaxNorm: lambda _: linear.MAX,
    LpNorm: _power,
}


def has_method(norm: Norm) -> bool:
    """Whether a norm has a method of its own, brought along or listed here."""
    return norm.inner is not None or type(norm) in METHODS


def method_of(norm: Norm) -> Method:
    """The method of a norm; soft margins of one that brings only `inner` go the general way."""
    if norm.inner is not None:
        return Method(norm.inner, general.inner_soft if norm.soft is None else norm.soft)
    make = METHODS.get(type(norm))
    if make is None:
        raise Unsupported(f"norm {norm.name} has no method of its own: solver 'general' needs none")
    return make(norm)


def by_interior_point(
    problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf
) -> Answer:
    """The answer of the norm's own method, by rounds over a growing set of margins."""
    return answer_with(method_of(norm), problem, norm, tol=tol, budget=budget)
