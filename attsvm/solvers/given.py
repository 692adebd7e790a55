"""certify(): a W of one's own, judged; the multipliers are computed where none are given."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from attsvm._utils.expected import expect, number
from attsvm.certificate import Certificate
from attsvm.certificate.certify import certify as certify_pair
from attsvm.errors import BadTokens, ConvergenceWarning
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.weights import WeightBlocks
from attsvm.solvers.solve import solve


def certify(
    problem: Problem,
    norm: str | Norm,
    W: Any,
    multipliers: Any = None,
    tie_multipliers: Any = None,
    *,
    tol: float | None = None,
    budget: float = np.inf,
) -> Certificate:
    """The Certificate that (W, λ, μ) supports, recomputed from the problem's data.

    Its upper bound is of this W, scaled to worst margin 1; with ties or zero right-hand sides it is
    corrected by the least change that restores them, whose norm enters `upper`. Its lower bound is
    of these multipliers; negative λ count as 0, and both may come at any scale of floats. With
    multipliers W may be None: then nothing feasible is claimed.

    Without multipliers the problem is solved for them, so that the lower bound is the best there
    is, and the gap says how far W is from the least norm. W may then be a prompt (d,), a pair or
    dict of factors K and Q, or a tensor, as in `attsvm.outcome`.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> problem = attsvm.Problem.of(tokens, [0])
    >>> found = attsvm.certify(problem, "frobenius", [[0.0], [3.0]], [0.0, 1.0])
    >>> found.status, round(found.lower, 9), round(found.upper, 9)
    ('optimal', 1.0, 1.0)
    >>> own = attsvm.certify(problem, "frobenius", [3.0, 4.0])
    >>> own.status, round(own.lower, 9), round(own.upper, 9)
    ('stalled', 1.0, 5.0)
    """
    expect(problem, Problem, "problem", make="Problem.of(tokens, kept) makes one")
    if multipliers is not None:
        return certify_pair(problem, norm, W, multipliers, tie_multipliers, tol=tol, budget=budget)
    if tie_multipliers is not None:
        raise BadTokens("multipliers of ties are given without those of margins: give both or none")
    matrix = WeightBlocks.of(W, problem.shape).matrix
    with warnings.catch_warnings():
        # A bound that stops early is still one: the certificate says how far apart the two are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = solve(problem, norm, tol=tol, C=None if number(budget) == np.inf else budget)
    return certify_pair(
        problem, norm, matrix, best.multipliers, best.tie_multipliers, tol=tol, budget=budget
    )
