"""Soft margins in every norm but Frobenius: known answers, an oracle, limits of C, the parts."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

from attsvm import ConvergenceWarning, Problem, Selection, Tokens, certify, solve
from attsvm.norms import norm_of
from tests.tolerances import EXACTLY, GAP, GAP_SPECTRUM, ORACLE
from tests.zoo import KINDS, infeasible, known, size_in_cvxpy, sphere_tokens

NORMS = ("nuclear", "spectral", "max", "l1", "l1.1", "l1.75", "l2", "l3", "l10")
each = pytest.mark.parametrize("norm", NORMS)


def goal(norm):
    """The certified gap that is promised."""
    return GAP_SPECTRUM if norm in ("nuclear", "spectral") else GAP


def softened(norm, kind, *, C, seed=0):
    """A problem, the least value of ½‖W‖² + C Σ ξ, and a pair (W, λ, μ) that attains it.

    From a known least norm: λ is scaled to ‖A*λ‖_dual = ‖W‖; then every other row that carries it
    is scaled so that its multiplier becomes C, and asked for ξ more than W gives.
    """
    zoo = known(norm, kind, seed=seed)
    p, geometry = zoo.problem, norm_of(norm)
    scale = zoo.least / geometry.dual(p.adjoint(zoo.multipliers, zoo.tie_multipliers))
    lam, mu = scale * zoo.multipliers, scale * zoo.tie_multipliers
    carrier = np.flatnonzero(lam)[::2]
    factor, xi = np.ones(p.m), np.zeros(p.m)
    factor[carrier] = lam[carrier] / C
    xi[carrier] = np.random.default_rng(seed).uniform(0.1, 2.0, len(carrier))
    # the others must stay within the budget
    factor = np.where((xi == 0) & (lam > C), 2 * lam / C, factor)
    problem = Problem.from_rows(
        p.differences() * factor[:, None], p.queries[p.query], b=p.b * factor + xi,
        ties=p.tie_differences() if p.ties else None,
        tie_queries=p.queries[p.tie_query] if p.ties else None, c=p.c if p.ties else None,
    )  # fmt: skip
    lam = np.where(lam > 0, lam / factor, 0.0)
    lam[carrier] = C
    value = zoo.least**2 / 2 + C * xi.sum()
    assert problem.b @ lam + problem.c @ mu - zoo.least**2 / 2 == pytest.approx(value, rel=EXACTLY)
    return problem, value, (zoo.W, lam, mu)


def oracle(problem, norm, C):
    """The least value by cvxpy, written from the definition of the problem."""
    W = cp.Variable(problem.shape)
    size = size_in_cvxpy(norm, W)
    D, z = problem.differences(), problem.queries[problem.query]
    short = cp.pos(problem.b - cp.sum(cp.multiply(D @ W, z), axis=1))
    E, y = problem.tie_differences(), problem.queries[problem.tie_query]
    ties = [cp.sum(cp.multiply(E @ W, y), axis=1) == problem.c] if problem.ties else []
    program = cp.Problem(cp.Minimize(cp.square(size) / 2 + C * cp.sum(short)), ties)
    program.solve(solver=cp.CLARABEL)
    assert program.status == "optimal"
    return float(program.value)


@each
@pytest.mark.parametrize("kind", KINDS)
def test_known_value_is_found_and_certified(norm, kind):
    for C in (0.05, 3.0):
        problem, value, pair = softened(norm, kind, C=C)
        assert certify(problem, norm, *pair, budget=C).gap <= EXACTLY
        best = solve(problem, norm, C=C)
        assert best.status == "optimal" and best.gap <= goal(norm)
        assert best.lower <= value * (1 + EXACTLY) and value <= best.upper * (1 + EXACTLY)
        assert best.multipliers.min() >= 0 and best.multipliers.max() <= C


def random_selection():
    """A selection of few tokens drawn at random."""
    tokens, _ = sphere_tokens(5, 5, 3, seed=2)
    return Problem.of(tokens, Selection.of(tokens, [0, 1, 2, 3, 4]))


@each
@pytest.mark.parametrize("case", [*infeasible(), "random selection"])
def test_infeasible_rows_and_random_selections_equal_the_oracle(norm, case):
    problem = infeasible().get(case) or random_selection()
    for C in (0.03, 2.0) if case in infeasible() else (0.02, 0.5, 20.0):
        best = solve(problem, norm, C=C)
        assert best.status == "optimal" and best.gap <= goal(norm)
        value = oracle(problem, norm, C)
        assert best.lower * (1 - ORACLE) <= value <= best.upper * (1 + ORACLE)


@each
def test_ties_that_contradict_each_other_are_not_bought_off(norm):
    problem = Problem.from_rows([[1.0, 1.0]], ties=[[1.0, 0.0], [2.0, 0.0]], c=[1.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = solve(problem, norm, C=1.0)
    assert best.status == "stalled" and best.W is None and best.upper == np.inf


@pytest.mark.parametrize("norm", ["nuclear", "max", "l1.75", "l3"])
def test_a_working_set_finds_the_rows_it_needs(norm):
    rng = np.random.default_rng(5)
    X, z = rng.standard_normal((60, 16, 3)), rng.standard_normal((60, 2))
    score = np.einsum("ntd,de,ne->nt", X, rng.standard_normal((3, 2)), z)
    tokens = Tokens(X, queries=z)
    for alpha in (score.argmax(axis=1), np.arange(60) % 16):  # separable, and not at all
        problem = Problem.of(tokens, Selection.of(tokens, alpha))
        assert problem.m > 800
        best = solve(problem, norm, C=0.5)
        assert best.status == "optimal" and best.gap <= goal(norm)


@pytest.mark.parametrize("norm", ["spectral", "l1", "max", "l1.5", "l10"])
def test_an_immense_budget_on_rows_that_cannot_be_met(norm):
    # C beyond 1e8 in the unit of the data: the value is C times the least Σ ξ, which is 7/3 by
    # λ = (1, 1, 1/3), whose rows combine to zero
    problem = Problem.from_rows([[1.0, 0.0], [-1.0, 1.0], [0.0, -3.0]])
    best = solve(problem, norm, C=1e12)
    assert best.status == "optimal"
    assert best.upper == pytest.approx(7e12 / 3, rel=GAP)
