"""Every listed solver, on every kind of instance, in every norm it takes, judged by its answer."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import ConvergenceWarning, Problem, Unsupported, certify, solve
from attsvm.norms import norm_of
from attsvm.solvers import SOLVERS
from tests.tolerances import (
    DIRECTION,
    GAP,
    ORACLE,
    PROOF_RESIDUAL,
    ROUNDING,
)
from tests.zoo import (
    KINDS,
    LEAST,
    NORMS,
    UNIQUE,
    agrees,
    infeasible,
    known,
    near,
    sizes,
)

# A solver that joins the registry is tried in every norm it takes, and held to what it promises.
# These are tried in fewer norms, for time: tests/against compares the values of cvxpy, 'general' is
# one method for all, and 'auto' has the methods of the others.
FEWER = {
    "auto": ("frobenius", "nuclear", "max", "l1.1", "l3"),
    "cvxpy": ("frobenius", "nuclear", "l1"),
    "general": ("frobenius", "spectral", "l1", "l3"),
}
PAIRS = [
    (name, norm)
    for name, solver in SOLVERS.items()
    for norm in NORMS
    if solver.takes(norm_of(norm)) and norm in FEWER.get(name, NORMS)
]
each = pytest.mark.parametrize(("name", "norm"), PAIRS)
kinds = pytest.mark.parametrize("kind", KINDS)


def promised(name, norm):
    """The gap a solver is asked for."""
    return max(norm_of(norm).tolerance, SOLVERS[name].promises)


@each
@kinds
def test_known_least_norm_is_found_and_certified(name, norm, kind):
    goal = promised(name, norm)
    for seed in range(2):
        zoo = known(norm, kind, seed=seed)
        best = solve(zoo.problem, norm, solver=name, tol=goal)
        assert best.status == "optimal" and best.gap <= goal
        assert agrees(best, zoo.least)
        again = certify(zoo.problem, norm, best.W, best.multipliers, best.tie_multipliers, tol=goal)
        assert_allclose([again.lower, again.upper], [best.lower, best.upper], rtol=GAP)
        assert again.status == "optimal" and agrees(again, zoo.least)
        margins = zoo.problem.margins(best.W) - zoo.problem.b
        assert margins.min() >= -goal
        if norm in UNIQUE and goal <= GAP:
            assert np.abs(best.W - zoo.W).max() <= DIRECTION * LEAST


@each
@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (7, 2)], ids=str)
def test_widths_of_keys_and_queries_may_differ(name, norm, shape):
    zoo = known(norm, "plain", d=shape[0], dq=shape[1], seed=3)
    best = solve(zoo.problem, norm, solver=name, tol=promised(name, norm))
    assert best.W.shape == shape
    assert best.status == "optimal" and agrees(best, zoo.least)


@pytest.mark.parametrize(("name", "norm"), [pair for pair in PAIRS if pair[0] != "cvxpy"])
@pytest.mark.parametrize("case", infeasible())
def test_infeasible_is_reported_with_its_proof(name, norm, case):
    problem = infeasible()[case]
    end = solve(problem, norm, solver=name)
    assert end.status == "infeasible" and end.W is None and end.upper == np.inf
    lam, mu = end.multipliers, end.tie_multipliers
    assert (lam >= 0).all() and problem.b @ lam + problem.c @ mu > 0
    left = np.linalg.norm(problem.adjoint(lam, mu))
    size = problem.row_norms @ lam + problem.tie_norms @ np.abs(mu)
    assert left <= PROOF_RESIDUAL * size
    assert end.residual <= PROOF_RESIDUAL
    assert certify(problem, norm, None, lam, mu).status == "infeasible"
    assert end.verify().ok


@pytest.mark.parametrize("eps", [1e-4, 1e-8, 1e-11])
@pytest.mark.parametrize("name", [n for n, s in SOLVERS.items() if n != "cvxpy"])
def test_a_near_duplicate_is_not_infeasible(name, eps):
    zoo = near(eps)
    norm = next(norm for norm in NORMS if SOLVERS[name].takes(norm_of(norm)))
    # at 1e-11 the rounding of the margins, which the bounds carry, is itself beyond GAP
    best = solve(zoo.problem, norm, solver=name, tol=GAP if eps >= GAP else ORACLE)
    assert best.status == "optimal"
    assert agrees(best, zoo.least)


@each
def test_only_zero_right_sides_are_met_by_zero(name, norm):
    problem = Problem.from_rows([[1.0, 2.0], [-1.0, 0.5]], b=[0.0, 0.0])
    best = solve(problem, norm, solver=name)
    assert best.status == "optimal" and best.upper == 0.0 and best.gap == 0.0
    assert not best.W.any()


@each
def test_ties_alone(name, norm):
    problem = Problem.from_rows(np.empty((0, 2)), ties=[[3.0, 4.0]], c=[-5.0])
    best = solve(problem, norm, solver=name, tol=promised(name, norm))
    dual = norm_of(norm).dual(np.array([[3.0], [4.0]]))
    assert best.status == "optimal" and agrees(best, 5.0 / dual)


@each
def test_a_solver_that_does_not_fit_is_refused(name, norm):
    problem = Problem.from_rows([[1.0, 0.0]])
    with pytest.raises(Unsupported, match="unknown solver"):
        solve(problem, norm, solver=name + "x")
    for other, solver in SOLVERS.items():
        if not solver.takes(norm_of(norm)):
            with pytest.raises(Unsupported, match="does not take"):
                solve(problem, norm, solver=other)
    if not SOLVERS[name].soft:
        with pytest.raises(Unsupported, match="takes no budget"):
            solve(problem, norm, solver=name, C=1.0)
    for bad in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(Unsupported, match=r"tol is|C is"):
            solve(problem, norm, solver=name, tol=bad)


@pytest.mark.parametrize("p", [1.0001, 1.01, 1.05, 1.3, 2.5, 7, 20, 100, 1000, 1_000_000])
@pytest.mark.parametrize("kind", ["plain", "sets", "zeros"])
def test_extreme_exponents_end(p, kind):
    """Far exponents end with the best pair found, and its gap is small."""
    norm, zoo = f"l{p}", known("frobenius", kind, d=6, dq=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = solve(zoo.problem, norm)
    # beyond p = 100 the answer may be that of p = 100, off by at most N^(1/100)
    assert best.gap <= (GAP if 1.01 < p <= 20 else 1e-5 if p <= 100 else 0.05)
    G = zoo.problem.adjoint(best.multipliers, best.tie_multipliers)
    lower = zoo.problem.b @ best.multipliers / sizes(norm, G)[1]
    upper = sizes(norm, best.W)[0] / zoo.problem.margins(best.W)[zoo.problem.b > 0].min()
    assert best.lower <= lower * (1 + ROUNDING) and upper <= best.upper * (1 + ROUNDING)
