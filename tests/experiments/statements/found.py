"""Counterexamples that hunts with seed 0 have found, as they were shrunk, and how each is checked.

The checks are those of tests/experiments/statements/independent.py, which import nothing of the
package.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.experiments.statements import independent

# Drawn arrays by statement.
FOUND: dict[str, dict[str, Any]] = {
    "every-input-tight": {"X": [[[0], [-1]], [[1], [-1]]]},
    "equal-scores": {
        "X": [[[0, -1], [1, 1]], [[0, 0], [0, 1]]],
        "v": [0, -1],
        "y": [-1, 1],
        "p0": [-1, -3],
    },
    "proposition-2": {"marks": [[0, 0, 2, 0], [1, 1, 0, 2]]},
    "weak-order": {"marks": [[0, 0, 1, 0], [1, 2, 0, 1], [0, 0, 0, 2]]},
    "falls-along-solution": {
        "X": [[[2, -2], [-2, 0], [0, -3]]],
        "v": [0, 1],
        "p0": [0, -2],
    },
    "least-norm": {"X": [[[-2, 0], [2, 1]], [[0, 1], [1, 0]]], "v": [0, 1]},
    "nuclear-unique": {
        "X": [[[0, 0], [0, 1]], [[0, 1], [1, 0]]],
        "z": [[0, 1], [1, 1]],
    },
    "nuclear-rank": {
        "X": [[[0, 1], [1, 1], [0, 0]], [[0, 0], [1, 0], [0, 1]]],
        "z": [[0, 1], [1, 0]],
    },
    "monotone-correlation": {
        "X": [[[-1, 0], [0, 0], [-1, 1]], [[1, 0], [-1, 0], [-1, 0]]],
        "v": [1, 0],
    },
}

HALF = Fraction(1, 2)


def _two_nuclear(one: dict[str, Any]) -> bool:
    first = [-HALF, Fraction(-7, 4), Fraction(-1, 4), Fraction(-1)]
    second = [-HALF, Fraction(-5, 4), Fraction(1, 4), Fraction(-1)]
    lam = [Fraction(4, 3), Fraction(2, 3)]
    return independent.two_nuclear_solutions(one, first, second, lam)


# equal-scores is checked from its saved proof by tools/check_proof.py instead.
CHECKS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "every-input-tight": independent.no_tight_token,
    "proposition-2": lambda one: independent.column_is_off_formula(one["marks"]),
    "weak-order": lambda one: independent.order_falls(one["marks"]),
    "falls-along-solution": lambda one: independent.slope_along_solution(one) > 1e-4,
    "least-norm": independent.shorter_local_optimum,
    "nuclear-unique": _two_nuclear,
    "nuclear-rank": independent.rank_one_is_too_little,
    "monotone-correlation": lambda one: (
        independent.others_share_a_score(one)
        and independent.correlation_falls(one, Fraction(1, 8), 60)
    ),
}
