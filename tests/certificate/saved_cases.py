"""Problems of every kind, whose certificates are saved, loaded, rechecked and forged."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

from attsvm import Certificate, ConvergenceWarning, Problem, Selection, Tokens, certify, solve
from attsvm.solvers.solve_sets import relaxed

NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "l1.75", "l3")

_DRAW = np.random.default_rng(0)
X = _DRAW.standard_normal((3, 4, 5))
Z = _DRAW.standard_normal((3, 4))
SETS = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]], bool)
ATTENTION = _DRAW.dirichlet(np.ones(4), size=3)
SOME = np.ones((3, 4))
SOME[1] = 0.0
TOKENS = Tokens(X, queries=Z)
LABELLED = Tokens(X, labels=[1, -1, 1])
LINE = Tokens([[[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]])
EQUAL = Tokens([[[1.0, 0.0], [1.0, 0.0]]])
ROUGH = Tokens(0.1 * np.array([[[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]]), queries=[[0.3, 0.7]])


def _one(tokens: Tokens, **options: object) -> Problem:
    return Problem.of(tokens, Selection.of(tokens, [0, 1, 2]), **options)


# The problem of each kind, and the budget of its soft margin.
CASES: dict[str, tuple[Problem, float | None]] = {
    "weights": (_one(TOKENS), None),
    "prompt": (_one(Tokens(X)), None),
    "float32": (_one(Tokens(X.astype(np.float32), queries=Z)), None),
    "small": (_one(Tokens(1e-70 * X, queries=1e-60 * Z)), None),
    "large": (_one(Tokens(1e70 * X, queries=1e60 * Z)), None),
    "ties": (Problem.of(TOKENS, Selection.of(TOKENS, SETS)), None),
    "zero rows": (_one(TOKENS, b=SOME), None),
    "ties and zero rows": (Problem.of(TOKENS, Selection.of(TOKENS, SETS), b=SOME), None),
    "only zero rows": (_one(TOKENS, b=0 * SOME), None),
    "finite": (Problem.finite(TOKENS, Selection.of(TOKENS, SETS), ATTENTION), None),
    "given rows": (
        Problem.from_rows(X[0], Z[[0, 1, 2, 0]], b=[1, 2, 0.5, 0], ties=X[1, :2],
                          tie_queries=Z[:2], c=[0.25, -1.0]), None,
    ),
    "labels": (Problem.of_labels(LABELLED, Selection.of(LABELLED, [0, 1, 2])), None),
    "relaxed": (relaxed(LABELLED, Selection.of(LABELLED, [0, 1, 2])), None),
    "soft": (_one(TOKENS), 0.05),
    "soft ties": (Problem.of(TOKENS, Selection.of(TOKENS, SETS)), 0.5),
    "soft line": (Problem.of(LINE, Selection.of(LINE, [0])), 2.0),
    "a line": (Problem.of(LINE, Selection.of(LINE, [0])), None),
    "a rough line": (Problem.of(ROUGH, Selection.of(ROUGH, [0])), None),
    "equal tokens": (Problem.of(EQUAL, Selection.of(EQUAL, [0])), None),
    # Δ z₁ᵀ + Δ z₂ᵀ − Δ (z₁ + z₂)ᵀ = 0, but for the rounding of z₁ + z₂: no exact proof exists.
    "a rough sum": (
        Problem.from_rows([X[0, 0], X[0, 0], -X[0, 0]], [Z[0], Z[1], Z[0] + Z[1]]), None,
    ),
}  # fmt: skip
INFEASIBLE = ("a line", "a rough line", "equal tokens", "a rough sum")


@cache
def solved(case: str, norm: str) -> Certificate:
    """The certificate of a case, solved once; 'stalled' is one of multipliers alone."""
    if case == "stalled":
        problem = _one(TOKENS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return certify(problem, norm, None, np.ones(problem.m))
    problem, budget = CASES[case]
    return solve(problem, norm, C=budget)
