"""B, Lemma 1: the solution has rank at most n, and its rows are in the span of the queries."""

from __future__ import annotations

import numpy as np

from attsvm.experiments.statements.parts.facts import facts_of
from attsvm.experiments.statements.parts.rationals import exact_rank, exact_solution, matrix_rows
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement


def premises(one: Instance) -> bool:
    """Some W keeps the first token of every input."""
    return facts_of(one, [0] * len(one["X"])) is not None


def violation(one: Instance) -> float:
    """The part of W outside the span of the queries, as a share of ‖W‖, over 1e-6."""
    facts = facts_of(one, [0] * len(one["X"]))
    if facts is None:
        return -1.0
    z = one["z"]
    outside = facts.W - facts.W @ np.linalg.pinv(z) @ z
    return float(np.linalg.norm(outside)) / facts.size - 1e-6


def confirm(one: Instance) -> Confirmation:
    """The rational solution, and the rank of its rows together with the queries."""
    found = exact_solution(one, [0] * len(one["X"]))
    if found is None:
        return Confirmation(False, "rationals", "no exact solution was found")
    z, W = matrix_rows(one["z"]), found.matrix.fractions().tolist()
    spans, together, rank = exact_rank(z), exact_rank([*z, *W]), exact_rank(W)
    return Confirmation(
        together > spans or rank > len(z),
        "rationals",
        f"the exact solution has rank {rank} with {len(z)} inputs; queries span {spans} "
        f"dimensions, {together} with its rows",
    )


STATEMENT = Statement(
    "low-rank",
    title="The solution has rank at most n",
    says="W^mm has its rows in the span of the queries, and so rank at most n (v1, Lemma 1, "
    "Frobenius norm).",
    kind="theorem",
    space=Space(
        {"n": (1, 3), "T": (2, 3), "d": (2, 4)},
        (Field("X", ("n", "T", "d")), Field("z", ("n", "d"))),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    claims=("B.low-rank",),
    lines=(
        "best = attsvm.solve(attsvm.Problem.of(attsvm.Tokens(X, queries=z), [0] * len(X)))",
        "print(np.linalg.matrix_rank(best.W), np.linalg.matrix_rank(np.vstack([z, best.W])))",
    ),
    proves="ranks of the rational solution",
)
