"""Compiled kernels against plain NumPy: the same answer by another route."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm.certificate.bounds import margin_error, measure, worst_margin
from attsvm.problem.problem import StackRows
from attsvm.solvers.frobenius import active_set, enumeration
from attsvm.solvers.frobenius.active_set import DONE, NO_SOLUTION, gram
from attsvm.solvers.frobenius.enumeration import MAYBE, Walk, all_rows, walk
from attsvm.solvers.solver import RowArrays
from tests.tolerances import EXACTLY, PROOF, ROUNDING
from tests.twins import frobenius as twins
from tests.zoo import KINDS, infeasible, known, sphere_tokens


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


@pytest.mark.parametrize("kind", ["plain", "prompt", "masked"])
def test_the_measures_of_a_problem_equal_its_methods(kind):
    zoo = known("frobenius", kind)
    p, rng = zoo.problem, np.random.default_rng(5)
    W = zoo.W + 0.1 * rng.standard_normal(zoo.W.shape)
    lam = np.where(rng.random(p.m) < 0.5, rng.random(p.m), 0.0)
    (G,), sums = measure(p.stacked, lam[None], W[None], margin_error(p.shape))
    worth, size, used, worst = sums[0]
    assert used == np.count_nonzero(lam)
    assert_allclose([worth, size], [p.b @ lam, p.row_norms @ lam], rtol=ROUNDING)
    assert_allclose(G, p.adjoint(lam), rtol=0, atol=ROUNDING)
    expected = worst_margin(p.shape, W, margins=p.margins(W), row_norms=p.row_norms, b=p.b)
    assert_allclose(worst, expected, rtol=EXACTLY)
    # and the share taken off is that of the worst row
    bare = measure(p.stacked, lam[None], W[None], 0.0)[1][0, 3]
    assert bare == pytest.approx(float((p.margins(W) / p.b).min()), rel=EXACTLY)
    assert bare > worst


@pytest.mark.parametrize("masked", [False, True])
def test_the_walk_visits_each_feasible_selection_once(masked):
    tokens, v = sphere_tokens(3, 3, 2, seed=4, queries=False)
    mask = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1]], dtype=bool) if masked else None
    keys = np.asarray(tokens.X)
    D, _, places, count = all_rows(keys, mask)
    gap = D @ v
    norms = np.linalg.norm(D, axis=1)
    G = (D @ D.T) / np.outer(norms, norms)
    allowed = np.ones((3, 3), bool) if mask is None else mask
    expected = {}
    for alpha in product(range(3), repeat=3):
        if not all(allowed[i, a] for i, a in enumerate(alpha)):
            continue
        index = [places[i, a, c] for i, a in enumerate(alpha) for c in range(count[i, a])]
        part = G[np.ix_(index, index)]
        status, lam = twins.active_set(part, 1 / norms[index], np.zeros(len(index), bool))
        if status == DONE:
            kind = not ((lam > enumeration.CLEAR * lam.max()) & (gap[index] <= 0)).any()
            expected[alpha] = (np.sqrt(lam @ (1 / norms[index])), kind)
    task = Walk(G, 1 / norms, places, count, allowed, gap, 2)
    feasible = walk(task, np.empty((1, 0), np.int64))
    choices, least, verdict, found = (
        feasible.choices, feasible.least, feasible.verdict, len(feasible.choices)
    )  # fmt: skip
    assert 0 < found < allowed.sum(axis=1).prod()
    assert [tuple(c) for c in choices[:found].tolist()] == sorted(expected)
    for k, alpha in enumerate(map(tuple, choices[:found].tolist())):
        assert_allclose(least[k], expected[alpha][0], rtol=EXACTLY)
        assert (verdict[k] == MAYBE) == expected[alpha][1]
