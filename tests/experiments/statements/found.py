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
    "nuclear-rank": {
        "X": [[[0, 1], [1, 1], [0, 0]], [[0, 0], [1, 0], [0, 1]]],
        "z": [[0, 1], [1, 0]],
    },
    "monotone-correlation": {
        "X": [[[-1, 0], [0, 0], [-1, 1]], [[1, 0], [-1, 0], [-1, 0]]],
        "v": [1, 0],
    },
}

# equal-scores is checked from its saved proof by tools/check_proof.py instead.
CHECKS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "proposition-2": lambda one: independent.column_is_off_formula(one["marks"]),
    "weak-order": lambda one: independent.order_falls(one["marks"]),
    "falls-along-solution": lambda one: independent.slope_along_solution(one) > 1e-4,
    "least-norm": independent.shorter_local_optimum,
    "nuclear-rank": independent.rank_one_is_too_little,
    "monotone-correlation": lambda one: (
        independent.others_share_a_score(one)
        and independent.correlation_falls(one, Fraction(1, 8), 60)
    ),
}
