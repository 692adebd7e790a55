"""Against cvxpy and scikit-learn: our bounds hold their values, up to their own tolerance."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.svm import SVC, LinearSVC

from attsvm import Problem, Selection, Tokens, solve
from tests.tolerances import DIRECTION, EXACTLY, GAP, ORACLE
from tests.zoo import KINDS, NORMS, chosen, known, size_in_cvxpy, sphere_tokens


def oracle_value(problem, norm):
    """The least norm by cvxpy, written from the definition of the problem, row by row."""
    W = cp.Variable(problem.shape)
    z = problem.queries
    rows = [
        D @ W @ z[q] >= b
        for D, q, b in zip(problem.differences(), problem.query, problem.b, strict=True)
    ]
    rows += [
        D @ W @ z[q] == c
        for D, q, c in zip(problem.tie_differences(), problem.tie_query, problem.c, strict=True)
    ]
    program = cp.Problem(cp.Minimize(size_in_cvxpy(norm, W)), rows)
    program.solve(solver=cp.CLARABEL)
    assert program.status == "optimal"
    return float(program.value)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_our_bounds_hold_the_value_of_cvxpy(norm, kind):
    zoo = known(norm, kind, seed=11, d=3, dq=2)
    best = solve(zoo.problem, norm).require()
    value = oracle_value(zoo.problem, norm)
    assert best.lower * (1 - ORACLE) <= value <= best.upper * (1 + ORACLE)
    assert_allclose(value, zoo.least, rtol=ORACLE)


@pytest.mark.parametrize("norm", ["frobenius", "nuclear", "l1.75", "max"])
def test_random_selections_equal_cvxpy(norm):
    tokens, v = sphere_tokens(4, 5, 4, seed=3)
    problem = Problem.of(tokens, Selection.best(tokens, v))
    best = solve(problem, norm).require()
    value = oracle_value(problem, norm)
    assert best.lower * (1 - ORACLE) <= value <= best.upper * (1 + ORACLE)


def labelled(seed, *, flip=0):
    """Points of a half-space (n, d) and their sides; `flip` of them on the wrong side."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((25, 3)), rng.standard_normal(3)
    x += 0.5 * np.sign(x @ w)[:, None] * w / np.linalg.norm(w)
    y = np.sign(x @ w)
    y[:flip] *= -1
    tokens = Tokens(np.stack([x, 0 * x], axis=1), labels=y)
    return x, y, tokens, Selection.of(tokens, np.zeros(25, int))


def linear_svc(x, y, *, C):
    """The weights of scikit-learn's linear classifier."""
    options = {"fit_intercept": False, "dual": True, "tol": 1e-10, "max_iter": 10**6}
    return LinearSVC(loss="hinge", C=C, **options).fit(x, y).coef_.ravel()


@pytest.mark.parametrize("seed", range(3))
def test_labels_problem_equals_linear_svc(seed):
    x, y, tokens, keep = labelled(seed)
    best = solve(Problem.of_labels(tokens, keep)).require()
    w = linear_svc(x, y, C=1e6)
    assert_allclose(best.W.ravel(), w, rtol=0, atol=DIRECTION * np.linalg.norm(w))
    assert best.lower <= np.linalg.norm(w) / (y * (x @ w)).min() * (1 + EXACTLY)


@pytest.mark.parametrize("seed", range(2))
def test_labels_problem_equals_svc_on_doubled_points(seed):
    # (x, y) and (−x, −y) together leave SVC's intercept at zero
    x, y, tokens, keep = labelled(seed)
    best = solve(Problem.of_labels(tokens, keep)).require()
    other = SVC(kernel="linear", C=1e9, tol=1e-10).fit(np.r_[x, -x], np.r_[y, -y])
    assert abs(other.intercept_[0]) <= ORACLE
    w = other.coef_.ravel()
    assert_allclose(best.W.ravel(), w, rtol=0, atol=DIRECTION * np.linalg.norm(w))
    # SVC's support vectors are our tight rows
    tight = best.tight
    assert not tight.undecided.any()
    support = np.unique(other.support_ % 25)
    assert set(support) <= set(tight.rows)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("flip", [0, 6])
def test_soft_margin_equals_scikit_learn_and_cvxpy(C, flip):
    x, y, tokens, keep = labelled(4, flip=flip)
    best = solve(Problem.of_labels(tokens, keep), C=C).require()
    w = linear_svc(x, y, C=C)
    value = w @ w / 2 + C * np.maximum(1 - y * (x @ w), 0).sum()
    assert best.lower <= value * (1 + EXACTLY) and best.gap <= GAP
    assert_allclose(best.upper, value, rtol=ORACLE)
    W = cp.Variable(3)
    goal = cp.sum_squares(W) / 2 + C * cp.sum(cp.pos(1 - cp.multiply(y, x @ W)))
    oracle = cp.Problem(cp.Minimize(goal)).solve(solver=cp.CLARABEL)
    assert best.lower * (1 - ORACLE) <= oracle <= best.upper * (1 + ORACLE)


def test_soft_margin_of_infeasible_tokens():
    tokens, _ = sphere_tokens(6, 5, 2, seed=1)
    problem = chosen(tokens, [0] * 6)
    assert solve(problem).status == "infeasible"
    for C in (0.1, 10.0):
        best = solve(problem, C=C).require()
        D, z = problem.differences(), problem.queries[problem.query]
        W = cp.Variable((2, 2))
        short = cp.pos(1 - cp.sum(cp.multiply(D @ W, z), axis=1))
        oracle = cp.Problem(cp.Minimize(cp.sum_squares(W) / 2 + C * cp.sum(short)))
        value = oracle.solve(solver=cp.CLARABEL)
        assert best.lower * (1 - ORACLE) <= value <= best.upper * (1 + ORACLE)
        assert (best.multipliers <= C * (1 + EXACTLY)).all()
