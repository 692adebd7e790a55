"""Compiled kernels against plain NumPy: the same answer by another route."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm.problem.problem import StackRows
from attsvm.solvers.frobenius import active_set
from attsvm.solvers.frobenius.active_set import DONE, NO_SOLUTION, gram
from attsvm.solvers.solver import RowArrays
from tests.tolerances import EXACTLY, PROOF, ROUNDING
from tests.twins import frobenius as twins
from tests.zoo import KINDS, infeasible, known


def dense(rows):
    """The Gram of the unit rows by one matrix product, and b over the row norms."""
    F = rows.features()
    return F @ F.T, rows.b / rows.norms


def kernel(G, b, free, rank):
    """Status and multipliers of the compiled active set, on memory that must not be read."""
    m = len(b)
    work = active_set.workspace(m, 0, 0)
    work[0].fill(np.nan)
    found = np.empty(1, np.int64), np.empty((1, m)), np.empty((1, 0, 0)), np.empty((1, 3))
    none = np.empty((1, 0, 0))
    stack = none, none, np.empty((1, 0), np.int64), np.empty((1, 0)), b[None].copy()
    shared = G.copy(), np.ones(m), np.arange(m)[None]
    active_set.solve_stack(stack, free, shared, rank, work, found)
    scale = 1.0 if found[0][0] == NO_SOLUTION else found[3][0, 0]
    return int(found[0][0]), found[1][0] * scale


def alone(rows):
    """The rows of one problem, as kernels take them."""
    return StackRows.alone(rows.D, rows.z, rows.query, rows.norms, rows.b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_gram_and_active_set_equal_their_twins(kind, seed):
    rows = RowArrays.of(known("frobenius", kind, seed=seed).problem)
    G, b = dense(rows)
    assert_allclose(gram(rows.D, rows.z, rows.query, rows.norms), G, rtol=0, atol=ROUNDING)
    status, lam = kernel(G, b, rows.free, rows.D.shape[1] * rows.z.shape[1])
    other, twin = twins.active_set(G, b, rows.free)
    assert status == other == DONE
    # multipliers need not be unique, what they combine to is
    assert_allclose(G @ lam, G @ twin, rtol=0, atol=EXACTLY * np.abs(b).max())
    assert_allclose(b @ lam, b @ twin, rtol=EXACTLY)


@pytest.mark.parametrize("case", [c for c in infeasible() if c not in ("same token", "zero query")])
def test_both_find_a_proof(case):
    rows = RowArrays.of(infeasible()[case])
    G, b = dense(rows)
    for status, lam in (
        kernel(G, b, rows.free, rows.D.shape[1] * rows.z.shape[1]),
        twins.active_set(G, b, rows.free),
    ):
        assert status == NO_SOLUTION and b @ lam > 0
        assert (lam[~rows.free] >= -ROUNDING).all()
        assert np.linalg.norm(rows.features().T @ lam) <= PROOF * np.abs(lam).sum()
