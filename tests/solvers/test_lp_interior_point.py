"""The interior point of l1 and max at size: its matrix, its steps, and what it ends in."""

import numpy as np
import pytest

from attsvm import TooLarge, solve
from attsvm.norms.entrywise import L1Norm, MaxNorm
from attsvm.solvers import auto, splitting
from attsvm.solvers import lp_interior_point as path
from attsvm.solvers.cone import interior_point as cone
from attsvm.solvers.lp_interior_point import PAIRS, Handover, reach
from attsvm.solvers.unit_rows import UnitRows, weighted_gram
from tests.solvers.test_splitting import AWKWARD, awkward, plain_bounds, planted
from tests.tolerances import GAP_SPECTRUM, GAP_SPLIT, ROUNDING

BOTH = ("l1", "max")


def rows_of(counts, d=5, dq=4, seed=0):
    """Rows of len(counts) queries, counts[i] of the i-th, sorted by query."""
    draw = np.random.default_rng(seed)
    query = np.repeat(np.arange(len(counts)), counts)
    return draw.standard_normal((len(query), d)), query, draw.standard_normal((len(counts), dq))


def plain_gram(deltas, query, queries, weights, crossed=None):
    """The whole matrix from rows × unknowns, in plain NumPy."""
    A = deltas[:, :, None] * queries[query][:, None, :]
    weighted = A * weights
    if crossed is not None:
        r = len(crossed)
        weighted[:, :r, :r] += crossed * A[:, :r, :r].swapaxes(1, 2)
    return np.asarray(np.einsum("kij,lij->kl", weighted, A))


@pytest.mark.parametrize(
    "counts", [[3, 1, 4, 1, 5], [0, 2, 0, 0, 3], [7], [1], [1] * 9, [0, 0], [2, 0, 6]]
)
@pytest.mark.parametrize("share", [1.0, 0.1, 0.0])
def test_the_matrix_is_that_of_rows_times_unknowns(counts, share):
    deltas, query, queries = rows_of(counts)
    draw = np.random.default_rng(1)
    weights = draw.random((5, 4)) * (draw.random((5, 4)) < share)
    found = weighted_gram(deltas, query, queries, weights)
    wanted = plain_gram(deltas, query, queries, weights)
    assert found.shape == wanted.shape == (sum(counts), sum(counts))
    assert np.abs(np.triu(found - wanted)).max(initial=0.0) <= ROUNDING * max(
        1.0, np.abs(wanted).max(initial=0.0)
    )


def test_entries_may_be_weighed_across():
    deltas, query, queries = rows_of([3, 1, 0, 4], d=6, dq=4)
    draw = np.random.default_rng(5)
    weights, crossed = draw.random((6, 4)), draw.standard_normal((4, 4))
    crossed += crossed.T
    found = weighted_gram(deltas, query, queries, weights, crossed)
    wanted = plain_gram(deltas, query, queries, weights, crossed)
    assert np.triu(found) == pytest.approx(np.triu(wanted))


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (5, 1)])
def test_the_schur_matrix_of_the_spectral_norm_is_that_of_white_rows(shape, monkeypatch):
    draw = np.random.default_rng(7)
    D, Z = draw.standard_normal((9, shape[0])), draw.standard_normal((4, shape[1]))
    unit = UnitRows(D, Z[draw.integers(0, 4, 9)], np.ones(9), np.zeros(9, bool))
    root = draw.standard_normal((sum(shape), sum(shape)))
    hessian = cone.SpectralHessian(root @ root.T, shape[0])
    white = hessian.whiten(unit)
    monkeypatch.setattr(cone, "MANY", 0)
    assert hessian.gram(unit) == pytest.approx(white @ white.T)


@pytest.mark.parametrize("kind", ["duplicate inputs", "ties", "zero right-hand sides", "one query"])
def test_the_interior_point_is_the_same_query_by_query(kind, monkeypatch):
    problem = awkward(kind)
    stacked = solve(problem, "spectral", solver="interior", tol=GAP_SPECTRUM)
    monkeypatch.setattr(cone, "MANY", 0)
    best = solve(problem, "spectral", solver="interior", tol=GAP_SPECTRUM)
    assert best.status == stacked.status == "optimal"
    assert max(best.lower, stacked.lower) <= min(best.upper, stacked.upper)


def test_few_rows_that_do_not_fit_stacked_go_by_splitting(monkeypatch):
    problem, *_ = planted((12, 8, 6))

    def full(*_, **__):
        raise TooLarge("no memory")

    monkeypatch.setattr(auto, "answer_with", full)
    assert solve(problem, "nuclear", tol=GAP_SPLIT).status == "optimal"


def test_the_matrix_of_duplicated_rows_and_queries_repeats_itself():
    deltas, query, queries = rows_of([2, 3])
    deltas, query = np.vstack([deltas, deltas[2:]]), np.append(query, [2, 2, 2])
    queries = np.vstack([queries, queries[1]])
    weights = np.random.default_rng(2).random((5, 4))
    S = np.triu(weighted_gram(deltas, query, queries, weights))
    assert S[2:5, 5:] == pytest.approx(np.triu(S[2:5, 2:5]) + np.triu(S[2:5, 2:5], 1).T)


@pytest.mark.parametrize("norm", [L1Norm(), MaxNorm()])
def test_a_newton_step_meets_every_equation(norm):
    """P dQ + Q dP = c, the equations of the pairs, and those of the rows, all by hand."""
    draw = np.random.default_rng(3)
    pairs, shape, k = PAIRS[type(norm)], (4, 3), 6
    A = draw.standard_normal((k, 12)) / 10
    lam, ratio = draw.random(k), draw.random(k)
    M = (lam @ A).reshape(shape)
    M, lam = 0.7 * M / norm.dual(M), 0.7 * lam / norm.dual(M)
    P, Q = pairs.start(draw.standard_normal(shape), M, inside=0.1, mu=0.01)
    assert (P > 0).all() and (Q > 0).all()
    c, rhs = draw.standard_normal((2, *shape)), draw.standard_normal(k)
    weights = pairs.weigh(P, Q)
    R, h = pairs.load(P, Q, c, weights)
    S = (A * weights.D.ravel()) @ A.T + np.diag(ratio)
    right, v = rhs - A @ R.ravel(), np.zeros(k)
    if weights.E is not None:
        v = A @ weights.E.ravel()
        S, right = S + np.outer(v, v) / weights.kappa, right - v * h
    dlam = np.linalg.solve(S, right)
    dM = (dlam @ A).reshape(shape)
    dP, dQ = pairs.move(P, Q, c, weights, dM, h + v @ dlam / weights.kappa)
    assert P * dQ + Q * dP == pytest.approx(c)
    assert A @ pairs.matrix(dP).ravel() + ratio * dlam == pytest.approx(rhs)
    if isinstance(norm, L1Norm):
        assert dQ[1] == pytest.approx(dM) and dQ[0] == pytest.approx(-dM)
    else:
        assert dQ[0] - dQ[1] == pytest.approx(dM) and dQ.sum() == pytest.approx(0.0)
        assert np.ptp(dP[0] + dP[1]) == pytest.approx(0.0)


@pytest.mark.parametrize("norm", [L1Norm(), MaxNorm()])
def test_rows_that_join_leave_the_dual_feasible(norm):
    draw = np.random.default_rng(4)
    pairs, M = PAIRS[type(norm)], draw.standard_normal((4, 3))
    M *= 0.9 / norm.dual(M)
    _, Q = pairs.start(draw.standard_normal((4, 3)), M, inside=0.1, mu=0.01)
    new = 5 * draw.standard_normal((4, 3))
    Q, share, factor = pairs.join(Q, new)
    both = factor * (M + share * new)
    assert (Q > 0).all() and norm.dual(both) < 1 and 0 < share <= 1 and 0 < factor <= 1
    assert Q[0] - Q[1] == pytest.approx(-2 * both if isinstance(norm, L1Norm) else both)


def test_reach_stops_at_the_boundary():
    assert reach(np.array([1.0, 2.0]), np.array([-0.5, -4.0])) == 0.5
    assert reach(np.ones(2), np.ones(2)) == 1e3 and reach(np.ones(0), np.ones(0)) == 1e3


@pytest.mark.parametrize("norm", BOTH)
@pytest.mark.parametrize("size", [(40, 20, 24), (12, 40, 20), (60, 20, 8)])
def test_both_bounds_hold_in_plain_numpy_to_eight_digits(norm, size):
    problem, X, z, alpha = planted(size)
    best = solve(problem, norm, solver="splitting", tol=1e-8)
    assert best.status == "optimal"
    lower, upper = plain_bounds(norm, X, z, alpha, best)
    assert lower <= upper * (1 + ROUNDING) and upper / lower - 1 <= 1e-8
    assert best.lower <= lower * (1 + ROUNDING) and upper <= best.upper * (1 + ROUNDING)


@pytest.mark.parametrize("norm", BOTH)
@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_rows_reach_six_digits(norm, kind):
    problem = awkward(kind)
    best = solve(problem, norm, solver="splitting", tol=GAP_SPECTRUM)
    assert best.status == "optimal" and best.gap <= GAP_SPECTRUM
    assert best.verify().ok


@pytest.mark.parametrize("norm", BOTH)
def test_few_working_rows_grow_into_enough(norm, monkeypatch):
    """Rows that the start leaves out, and W violates, join on the way."""
    problem, X, z, alpha = planted((60, 20, 8))
    monkeypatch.setattr(path, "SHARE", 1.0)
    monkeypatch.setattr(path, "SPARE", 0)
    joined, real = [], path._joined

    def watched(u, pairs, point, values):
        out = real(u, pairs, point, values)
        joined.append(len(out.J) - len(point.J))
        return out

    monkeypatch.setattr(path, "_joined", watched)
    best = solve(problem, norm, solver="splitting", tol=GAP_SPECTRUM)
    assert sum(joined) > 0 and best.status == "optimal"
    lower, upper = plain_bounds(norm, X, z, alpha, best)
    assert upper / lower - 1 <= GAP_SPECTRUM


@pytest.mark.parametrize("norm", BOTH)
def test_without_memory_for_the_matrix_splitting_goes_on_alone(norm, monkeypatch):
    problem, *_ = planted((60, 20, 8))
    monkeypatch.setattr(path, "fits", lambda rows, k: False)
    monkeypatch.setattr(splitting, "close_gap", lambda *a, **k: pytest.fail("not asked for"))
    assert solve(problem, norm, solver="splitting", tol=GAP_SPLIT).status == "optimal"


@pytest.mark.parametrize("norm", BOTH)
def test_where_no_factor_exists_the_answer_is_still_certified(norm, monkeypatch):
    problem, *_ = planted((60, 20, 8))
    monkeypatch.setattr(path, "_factor", lambda *a: None)
    best = solve(problem, norm, solver="splitting", tol=GAP_SPLIT)
    assert best.status == "optimal" and best.verify().ok


def test_the_path_takes_over_sooner_where_more_digits_are_asked_for():
    problem, *_ = planted((60, 20, 8))
    calls = {}
    for tol in (1e-1, 1e-7):
        count, real = [], Handover.__call__

        class Watched(Handover):
            def __call__(self, lam, *, gap, epochs, stale, count=count, real=real):
                count.append(real(self, lam, gap=gap, epochs=epochs, stale=stale))
                return count[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(splitting, "Handover", Watched)
            assert solve(problem, "l1", solver="splitting", tol=tol).gap <= tol
        calls[tol] = any(count)
    assert calls == {1e-1: False, 1e-7: True}
