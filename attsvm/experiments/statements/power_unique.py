"""C: the ℓp problem has one solution for 1 < p < ∞."""

from __future__ import annotations

import numpy as np

from attsvm.experiments.statements.parts.facts import facts_of
from attsvm.experiments.statements.statement import Field, Instance, Space, Statement
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

_NORM = "l3"


def premises(one: Instance) -> bool:
    """Some prompt keeps the first token of every input."""
    return facts_of(one, [0] * len(one["X"])) is not None


def violation(one: Instance) -> float:
    """How far two solves of one problem, its inputs and tokens in another order, lie apart.

    As a share of the norm, less what their certified gaps allow.
    """
    X, norm = one["X"], norm_of(_NORM)
    n, T, _ = X.shape
    back = np.concatenate([[0], np.arange(T - 1, 0, -1)])
    first = solve(Problem.of(Tokens(X), [0] * n), norm)
    second = solve(Problem.of(Tokens(X[::-1][:, back]), [0] * n), norm)
    if first.W is None or second.W is None:
        return 1.0 if (first.W is None) != (second.W is None) else -1.0
    middle = float(norm.value((np.asarray(first.W) + np.asarray(second.W)) / 2))
    # Half way between two solutions is feasible, and shorter than either unless they are one.
    return float(max(first.lower, second.lower) / middle) - 1


STATEMENT = Statement(
    "power-unique",
    title="The ℓ3 problem has one solution",
    says="For 1 < p < ∞ the ℓp problem has one solution (strict convexity; tried at p = 3): two "
    "solves agree, and no point between them is shorter than the certified least norm.",
    kind="theorem",
    space=Space({"n": (1, 2), "T": (2, 3), "d": (1, 3)}, (Field("X", ("n", "T", "d")),)),
    premises=premises,
    violation=violation,
    block=50,
)
