"""B, Theorems 1 and 8: with d ≥ max(T − 1, n) a dataset in general position can be separated."""

from __future__ import annotations

import numpy as np

from attsvm.experiments.statements.parts.facts import facts_of
from attsvm.experiments.statements.parts.rationals import (
    exact_rank,
    infeasible,
    matrix_rows,
    written,
)
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement


def premises(one: Instance) -> bool:
    """The queries are independent, and so are the key differences of each input."""
    X, z = one["X"], one["z"]
    n, T, _ = X.shape
    if np.linalg.matrix_rank(z) < n:
        return False
    return all(np.linalg.matrix_rank(x[0] - x[1:]) == T - 1 for x in X)


def violation(one: Instance) -> float:
    """1 where no W keeps the first tokens, else minus their largest margin at ‖W‖ = 1."""
    facts = facts_of(one, [0] * len(one["X"]))
    return 1.0 if facts is None else -1 / facts.size


def confirm(one: Instance) -> Confirmation:
    """Rational multipliers that no W survives; the ranks of the premise in rationals."""
    X, n = one["X"], len(one["X"])
    general = exact_rank(matrix_rows(one["z"])) == n and all(
        exact_rank(matrix_rows(x[0] - x[1:])) == len(x) - 1 for x in X
    )
    found = infeasible(one, [0] * n)
    if not general or found is None:
        return Confirmation(False, "rationals", "no exact proof that the tokens are infeasible")
    return Confirmation(
        True,
        "rationals",
        "rational multipliers prove that no W keeps the first tokens",
        {"multipliers": written(found.multipliers.fractions())},
    )


STATEMENT = Statement(
    "separability",
    title="d ≥ max(T − 1, n) separates",
    says="If d ≥ max(T − 1, n), the queries are independent and the key differences of each input "
    "are, some W keeps the first token of every input (v1, Theorems 1 and 8; 'almost every "
    "dataset' read as these two independences, which almost every dataset has).",
    kind="theorem",
    space=Space(
        {"n": (1, 3), "T": (2, 4), "d": (1, 4)},
        (Field("X", ("n", "T", "d")), Field("z", ("n", "d"))),
        fits=lambda s: s["d"] >= max(s["T"] - 1, s["n"]),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    claims=("B.separability-against-dimension",),
    lines=(
        "tokens = attsvm.Tokens(X, queries=z)",
        "print(attsvm.solve(attsvm.Problem.of(tokens, [0] * len(X))).message)",
    ),
    proves="a rational Farkas vector",
)
