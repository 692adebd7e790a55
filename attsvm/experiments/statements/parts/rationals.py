"""Facts of an instance in rationals, for the exact check: entries are floats, so rationals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from attsvm.certificate.exact import ExactSolution, Infeasibility, exact_infeasibility, exact_tight
from attsvm.experiments.statements.statement import Instance
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve

Rows = list[list[Fraction]]


def exact_solution(one: Instance, alpha: Iterable[int]) -> ExactSolution | None:
    """The Frobenius solution of a selection in rationals, None where it was not found."""
    problem = Problem.of(one.tokens, [int(a) for a in alpha])
    found = solve(problem)
    return None if found.W is None else exact_tight(problem, found.multipliers)


def infeasible(one: Instance, alpha: Iterable[int]) -> Infeasibility | None:
    """A rational proof that no W separates a selection, None where there is none."""
    problem = Problem.of(one.tokens, [int(a) for a in alpha])
    found = solve(problem)
    if found.W is not None:
        return None
    return exact_infeasibility(problem, found.multipliers, found.tie_multipliers)


def tight_tokens(one: Instance, alpha: Iterable[int], found: ExactSolution) -> set[tuple[int, int]]:
    """(input, token) of every margin of a selection that is exactly 1."""
    rows = Problem.of(one.tokens, [int(a) for a in alpha]).rows
    return {(int(i), int(t)) for i, _, t in rows[found.tight]}


def exact_scores(one: Instance) -> Rows:
    """γ_it = y_i v·x_it, row by row."""
    v = fractions(one["v"])
    labels = fractions(one.arrays.get("y", np.ones(len(one["X"]))))
    return [
        [
            y * sum((a * b for a, b in zip(fractions(x), v, strict=True)), Fraction(0))
            for x in tokens
        ]
        for y, tokens in zip(labels, one["X"], strict=True)
    ]


def fractions(values: Any) -> list[Fraction]:
    """The entries of a vector."""
    return [Fraction(float(x)) for x in np.asarray(values).ravel()]


def matrix_rows(matrix: Any) -> Rows:
    """The rows of a float matrix."""
    return [fractions(row) for row in np.asarray(matrix)]


def exact_rank(rows: Sequence[Sequence[Fraction]]) -> int:
    """The rank of a rational matrix, by elimination.

    >>> exact_rank([[Fraction(1), Fraction(2)], [Fraction(2), Fraction(4)]])
    1
    """
    rest, rank = [list(row) for row in rows], 0
    for column in range(len(rest[0]) if rest else 0):
        pivot = next((k for k in range(rank, len(rest)) if rest[k][column]), None)
        if pivot is None:
            continue
        rest[rank], rest[pivot] = rest[pivot], rest[rank]
        for k in range(rank + 1, len(rest)):
            factor = rest[k][column] / rest[rank][column]
            rest[k] = [a - factor * b for a, b in zip(rest[k], rest[rank], strict=True)]
        rank += 1
    return rank


def written(values: Any) -> str:
    """Rationals as text: (3/2, −1, 0); a matrix row by row."""
    array = np.asarray(values, dtype=object)
    if array.ndim > 1:
        return "[" + ", ".join(written(row) for row in array) + "]"
    return "(" + ", ".join(str(Fraction(x)).replace("-", "−") for x in array.tolist()) + ")"
