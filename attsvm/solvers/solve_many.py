"""solve_many(): thousands of problems in one call, in input order, the same on any machine."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from attsvm._utils import expected
from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.objects import load_files, loaded_files
from attsvm._utils.parallel import guarded, leave_unguarded, map_chunks
from attsvm.certificate import Certificate
from attsvm.certificate.certificate import certify_stack
from attsvm.errors import ConvergenceWarning
from attsvm.norms import Norm, norm_of
from attsvm.problem.problem import Problem, Stack, StackRows
from attsvm.solvers.frobenius.active_set import DONE, SMALL, sharpen, solve_stacked
from attsvm.solvers.solve import Chosen, solve
from attsvm.solvers.solver import RowArrays

# Problems that share one set of work arrays.
_CHUNK = 32


def solve_all(rows: StackRows) -> tuple[Ints, Floats, Floats]:
    """Status (B,), multipliers (B, m) and W (B, d, dq) of a stack, by as many threads as there are.

    Each part of the stack has work arrays of its own.
    """
    B, m = rows.b.shape
    free = np.zeros(m, np.bool_)

    def some(begin: int, end: int) -> list[tuple[Any, ...]]:
        cuts = [slice(k, min(k + _CHUNK, end)) for k in range(begin, end, _CHUNK)]
        return [solve_stacked(rows.part(cut), free) for cut in cuts]

    found = [part for share in map_chunks(some, B, least=_CHUNK) for part in share]
    status, lam, W, _ = map(np.concatenate, zip(*found, strict=True))
    return status, lam, W


def solve_many(
    problems: Sequence[Problem] | Stack,
    norm: str | Norm = "frobenius",
    *,
    tol: float | None = None,
    jobs: int = 1,
    solver: Chosen = None,
) -> list[Certificate]:
    """The Certificates of many problems, in input order.

    Small Frobenius problems of one size are solved by one compiled kernel, in parallel over the
    problems. The rest is solved one by one, in `jobs` processes when more than one is asked for.
    The result does not depend on the number of threads or processes, and equals that of solving
    each alone up to rounding. solver: as in `solve`; then every problem is solved alone.

    >>> import numpy as np, attsvm
    >>> X = np.random.default_rng(0).standard_normal((3, 2, 4, 5))
    >>> stack = attsvm.Stack(X, alpha=np.zeros((3, 2), int))
    >>> [c.status for c in attsvm.solve_many(stack)]
    ['optimal', 'optimal', 'optimal']
    """
    geometry = norm_of(norm)
    jobs = expected.whole(jobs, "jobs", least=1)
    whole: StackRows | None = None
    if isinstance(problems, Stack):
        listed, whole = problems.set_up()
    else:
        given = expected.listed(problems, "problems", of="Problems")
        listed = [expected.expect(p, Problem, f"problems[{k}]") for k, p in enumerate(given)]
    out: list[Certificate | None] = [None] * len(listed)
    if geometry.euclidean and solver is None:
        if whole is None:
            groups = _groups(listed)
        else:
            groups = [list(range(len(listed)))] if whole.b.shape[1] <= SMALL else []
        for place in groups:
            part = [listed[k] for k in place]
            rows = whole if whole is not None else StackRows.of(part)
            found = _batch(part, rows, tol)
            if len(found) == len(out) and all(c.status != "stalled" for c in found):
                return found
            for k, certificate in zip(place, found, strict=True):
                if certificate.status != "stalled":
                    out[k] = certificate
    rest = [k for k, certificate in enumerate(out) if certificate is None]
    alone = partial(_alone, norm=geometry, tol=tol, solver=solver)
    solved: Iterable[Certificate]
    if jobs > 1 and len(rest) > 1:
        share = max(1, len(rest) // (4 * jobs))
        spawn, own = get_context("spawn"), (loaded_files(),)
        leave_unguarded()
        with (
            ProcessPoolExecutor(jobs, spawn, initializer=load_files, initargs=own) as pool,
            guarded(),
        ):
            solved = list(pool.map(alone, [listed[k] for k in rest], chunksize=share))
    else:
        solved = map(alone, [listed[k] for k in rest])
    for k, certificate in zip(rest, solved, strict=True):
        out[k] = certificate
    done = [certificate for certificate in out if certificate is not None]
    stalled = sum(done[k].status == "stalled" for k in rest)
    if stalled:
        warnings.warn(
            f"{stalled} of {len(done)} problems stopped before the tolerance",
            ConvergenceWarning,
            stacklevel=2,
        )
    return done


def _alone(problem: Problem, norm: Norm, tol: float | None, solver: Chosen) -> Certificate:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(problem, norm, tol=tol, solver=solver)


def _groups(problems: Sequence[Problem]) -> list[list[int]]:
    """The places of small problems that can be stacked: same sizes, no ties, every b positive."""
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for k, p in enumerate(problems):
        if p.m <= SMALL and p.scalable:
            groups[(p.m, *p.keys.shape[1:], *p.queries.shape)].append(k)
    return [place for place in groups.values() if len(place) > 1]


def _batch(problems: list[Problem], rows: StackRows, tol: float | None) -> list[Certificate]:
    """The Certificates of stackable Frobenius problems."""
    flat = (rows.norms == 0).any(axis=1)
    norms = np.where(flat[:, None], 1.0, rows.norms)
    status, lam, W = solve_all(rows._replace(norms=norms))
    for k in ((status != DONE) & ~flat).nonzero()[0]:
        lam[k] = sharpen(RowArrays.of(problems[k]), lam[k]).multipliers
    lam[flat] = 0.0  # solved one by one: the zero row is the proof
    return certify_stack(problems, "frobenius", W, lam, rows=rows, tol=tol)
