"""A conjecture about the nuclear norm: its solution is of small rank."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements.parts import exact, floats
from attsvm.experiments.statements.parts.exact import RATIONALS, written
from attsvm.experiments.statements.statement import (
    Confirmation,
    Field,
    Instance,
    Space,
    Statement,
)
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve


def _two_queries(one: Instance) -> bool:
    """Two independent queries, and some W keeps the first tokens."""
    return bool(np.linalg.matrix_rank(one["z"]) == 2) and floats.keeps_first(one)


def _signed(one: Instance, sign: float) -> Problem:
    """The vectors u with Δ_k·u ≥ 1 in the first input and sign·Δ_k·u ≥ 1 in the second.

    u wᵀ keeps the first tokens of both inputs exactly if ±u is such a vector for one sign: the
    queries are independent, so that w·z_1 and w·z_2 may be any two numbers.
    """
    X = one["X"]
    rows: Floats = np.concatenate([X[0, 0] - X[0, 1:], sign * (X[1, 0] - X[1, 1:])])
    return Problem.from_rows(rows, np.ones((len(rows), 1)))


def _above_rank_one(one: Instance) -> float:
    """1 where no matrix of rank one keeps the first tokens, else minus its largest margin."""
    found = [solve(_signed(one, sign)) for sign in (1.0, -1.0)]
    return max((-1 / float(c.upper) for c in found if c.W is not None), default=1.0)


def _confirm_above_rank_one(one: Instance) -> Confirmation:
    """A rational W that keeps the tokens, and rational proofs that none of rank one does."""
    found = exact.solution(one, one.first)
    said = [
        written(exact.infeasible(_signed(one, sign)).multipliers.fractions())
        for sign in (1.0, -1.0)
    ]
    return Confirmation(
        exact.rank_of(exact.fractions(one["z"])) == 2,
        RATIONALS,
        f"{written(found.matrix.fractions())} keeps the first tokens and no matrix of rank one "
        f"does: multipliers {said[0]} and {said[1]} forbid both signs",
    )


STATEMENTS = (
    Statement(
        "nuclear-rank",
        title="A nuclear solution has rank r with r(r + 1)/2 ≤ n",
        says="The nuclear problem of n inputs has a solution of rank r with r(r + 1)/2 ≤ n; hunted "
        "at n = 2, where it says rank one. (With the number of rows in place of n it is a "
        "theorem.)",
        kind="conjecture",
        space=Space({"T": (2, 4), "d": (1, 3)}, (Field("X", (2, "T", "d")), Field("z", (2, 2)))),
        premises=_two_queries,
        violation=_above_rank_one,
        confirm=_confirm_above_rank_one,
        proves="rational Farkas vectors against both signs of a rank-one matrix",
    ),
)
