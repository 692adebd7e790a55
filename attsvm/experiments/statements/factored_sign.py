"""Conjecture: sign descent on factors maximizes the margin in the gauge of sign outer products."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from scipy.optimize import linprog

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.statements.parts.facts import best_tokens, facts_of
from attsvm.experiments.statements.statement import Field, Instance, Space, Statement
from attsvm.problem.problem import Problem

_STEPS, _WIDTH, _SHARE = 3000, 8, 0.75


@cache
def _atoms(d: int, dq: int) -> Floats:
    """Every x yᵀ of signs (2^(d + dq − 1), d, dq): the sign of one entry is fixed."""
    left = [np.array(x) for x in product((1.0, -1.0), repeat=d)]
    right = [np.array(y) for y in product((1.0, -1.0), repeat=dq) if y[0] > 0]
    return np.array([np.outer(x, y) for x in left for y in right])


def gauge(W: Floats) -> float:
    """The least Σ c with W = Σ c_a a over the sign outer products a, c ≥ 0."""
    atoms = _atoms(*W.shape)
    found = linprog(np.ones(len(atoms)), A_eq=atoms.reshape(len(atoms), -1).T, b_eq=W.ravel())
    return float(np.asarray(found.fun))


def least_gauge(problem: Problem) -> float:
    """The least gauge of a W that meets every margin."""
    atoms = _atoms(*problem.shape)
    rows = np.stack([problem.margins(a) for a in atoms], axis=1)
    found = linprog(np.ones(len(atoms)), A_ub=-rows, b_ub=-problem.b)
    return float(np.asarray(found.fun))


def premises(one: Instance) -> bool:
    """The best tokens are unique, can be kept, and share one score with no other."""
    best = best_tokens(one)
    return best is not None and facts_of(one, best) is not None and bool(one["z"].any(axis=1).all())


def violation(one: Instance) -> float:
    """¾ less the share of the best margin in this gauge that the end of a run has.

    At the tokens that the run selects; the start is of deviation 0.01, with seed 0.
    """
    path = train(
        one.tokens,
        model="factored",
        optimizer="sign",
        head=one["v"],
        lr=0.1,
        steps=_STEPS,
        init="normal:0.01",
        width=_WIDTH,
        schedule="sqrt",
    )
    W = path.weights["K"][-1, 0] @ path.weights["Q"][-1, 0].T
    problem = Problem.of(one.tokens, path.selection[0])
    worst = float(problem.margins(W).min())
    if facts_of(one, path.selection[0]) is None or worst <= 0:
        return -_SHARE  # no margin yet: nothing is said
    return _SHARE - worst / gauge(W) * least_gauge(problem)


STATEMENT = Statement(
    "factored-sign",
    title="Factored sign descent follows the gauge of sign outer products",
    says="Sign descent on K and Q (width 8, steps 0.1/√t, 3,000 of them) ends with at least three "
    "quarters of the largest margin in the gauge of the sign outer products x yᵀ, at the tokens it "
    "selects.",
    kind="conjecture",
    space=Space(
        {"n": (1, 2), "T": (2, 3), "d": (2, 2)},
        (Field("X", ("n", "T", "d")), Field("z", ("n", 2)), Field("v", ("d",))),
    ),
    premises=premises,
    violation=violation,
    lines=(
        "from attsvm.experiments.statements.factored_sign import STATEMENT, Instance",
        "print(0.75 - STATEMENT.violation(Instance({'X': X, 'z': z, 'v': v})))",
    ),
    proves="nothing: a run of finite length is evidence",
    block=20,
)
