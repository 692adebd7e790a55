"""A problem in the span of its queries: exact for norms that rotations keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.problem.problem import Problem


def in_span(problem: Problem) -> tuple[Problem, Floats | None]:
    """The problem with queries in their span's coordinates, and its basis (dq, r).

    None and the problem itself where the queries in use are as many as their entries. A solution W
    (d, r) of the smaller problem is W·basisᵀ in the larger one, of the same singular values.
    """
    used = np.unique(np.concatenate([problem.query, problem.tie_query]))
    if len(used) >= problem.shape[1]:
        return problem, None
    basis = np.linalg.qr(problem.queries[used].T)[0]
    queries = np.zeros((len(problem.queries), basis.shape[1]))
    queries[used] = problem.queries[used] @ basis
    return replace(problem, queries=queries), basis
