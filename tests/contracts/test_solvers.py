"""Every listed solver, on every kind of instance, in every norm it takes, judged by its answer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import Problem, Selection, Tokens, Unsupported, certify, solve
from attsvm.norms import norm_of
from attsvm.solvers import SOLVERS
from tests.tolerances import (
    DIRECTION,
    GAP,
    ORACLE,
    PROOF_RESIDUAL,
)
from tests.zoo import KINDS, LEAST, NORMS, UNIQUE, agrees, infeasible, known, near, sphere_tokens

# A solver that joins the registry is tried in every norm it takes, and held to what it promises.
# These are tried in fewer norms, for time: 'general' is one method for all, and 'auto' has the
# methods of the others.
FEWER = {
    "auto": ("frobenius", "nuclear", "max", "l1.1", "l3"),
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


@each
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
@pytest.mark.parametrize("name", list(SOLVERS))
def test_a_near_duplicate_is_not_infeasible(name, eps):
    zoo = near(eps)
    norm = next(norm for norm in NORMS if SOLVERS[name].takes(norm_of(norm)))
    # at 1e-11 the rounding of the margins, which the bounds carry, is itself beyond GAP
    best = solve(zoo.problem, norm, solver=name, tol=GAP if eps >= GAP else ORACLE)
    assert best.status == "optimal"
    assert agrees(best, zoo.least)


@each
def test_keys_other_than_values_are_the_ones_compared(name, norm):
    zoo = known(norm, "plain")
    tokens = zoo.tokens
    values = np.random.default_rng(0).standard_normal((tokens.n, tokens.T, 2))
    split = Tokens(values, keys=tokens.X, queries=tokens.queries)
    best = solve(Problem.of(split, zoo.keep), norm, solver=name, tol=promised(name, norm))
    assert best.W.shape == (4, 3) and best.status == "optimal" and agrees(best, zoo.least)


@pytest.mark.parametrize("norm", NORMS)
def test_a_masked_token_takes_no_part(norm):
    zoo = known(norm, "masked")
    open_ = Tokens(zoo.tokens.X, queries=zoo.tokens.queries)
    bare = Problem.of(open_, Selection.of(open_, zoo.keep.kept))
    assert bare.m == zoo.problem.m + zoo.tokens.n
    assert bare.margins(zoo.W).min() < 0  # the masked token would have mattered


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


def test_float32_and_shared_keys_are_solved():
    tokens, _ = sphere_tokens(4, 5, 6, seed=1)
    single = Tokens(tokens.X.astype(np.float32), queries=tokens.queries)
    double = Tokens(tokens.X.astype(np.float32).astype(float), queries=tokens.queries)
    keep = [0, 1, 2, 3]
    one, two = (solve(Problem.of(t, Selection.of(t, keep))) for t in (single, double))
    assert one.lower == two.lower and one.upper == two.upper
    sequence = Tokens.sequence(tokens.X[:1], causal=False)
    flat = Tokens(np.repeat(tokens.X[:1], 5, axis=0), queries=tokens.X[0])
    alpha = [1, 1, 2, 0, 3]
    one, two = (solve(Problem.of(t, Selection.of(t, alpha))) for t in (sequence, flat))
    assert one.lower == two.lower and one.status == "optimal"


def test_causal_inputs_use_only_earlier_tokens():
    X = np.random.default_rng(2).standard_normal((1, 4, 6))
    tokens = Tokens.sequence(X)
    problem = Problem.of(tokens, Selection.of(tokens, [0, 0, 1, 2]))
    assert problem.m == 1 + 2 + 3
    assert (problem.rows[:, 2] <= problem.rows[:, 0]).all()
    assert solve(problem).status == "optimal"


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
