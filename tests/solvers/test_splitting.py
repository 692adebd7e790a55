"""Splitting, and the interior point of l1 and max that ends it, judged by bounds that share no code
with them: plain NumPy and cvxpy."""

import numpy as np
import pytest

from attsvm import ConvergenceWarning, Problem, Selection, Tokens, TooLarge, solve
from attsvm.solvers import auto, cone
from attsvm.solvers import lp_interior_point as path
from benchmarks.instances import planted_20
from tests.tolerances import GAP, GAP_SPECTRUM, GAP_SPLIT, ROUNDING
from tests.zoo import size_in_cvxpy, sizes

SMOOTH = ("nuclear", "spectral", "l1.1", "l1.75", "l3")
LINEAR = ("l1", "max")
EVERY = (*SMOOTH, *LINEAR)


def planted(size, seed=0, dtype=np.float64):
    """A planted problem, with its arrays X, z, alpha."""
    a = planted_20(seed, size, stack=1)
    X, z, alpha = a["X"][0].astype(dtype), a["z"][0], a["alpha"][0]
    return Problem.of(Tokens(X, queries=z), alpha.tolist()), X.astype(float), z, alpha


def plain_bounds(norm, X, z, alpha, best):
    """Both bounds from the arrays alone."""
    n, T, d = X.shape
    lower, G, least, k = 0.0, np.zeros((d, z.shape[1])), np.inf, 0
    for i in range(n):
        for t in range(T):
            if t == alpha[i]:
                continue
            delta = X[i, alpha[i]] - X[i, t]
            least = min(least, delta @ best.W @ z[i])
            lower += best.multipliers[k]
            G += best.multipliers[k] * np.outer(delta, z[i])
            k += 1
    assert k == len(best.multipliers) and best.multipliers.min() >= 0
    return lower / sizes(norm, G)[1], sizes(norm, best.W)[0] / least


@pytest.mark.parametrize(
    ("norm", "tol"), [*((norm, GAP_SPLIT) for norm in EVERY), *((norm, GAP) for norm in LINEAR)]
)
@pytest.mark.parametrize("size", [(40, 20, 24), (12, 40, 20), (60, 20, 8)])
def test_both_bounds_hold_in_plain_numpy(norm, tol, size):
    problem, X, z, alpha = planted(size)
    best = solve(problem, norm, solver="splitting", tol=tol)
    assert best.status == "optimal"
    lower, upper = plain_bounds(norm, X, z, alpha, best)
    assert lower <= upper * (1 + ROUNDING)
    assert upper / lower - 1 <= tol
    assert best.lower <= lower * (1 + ROUNDING) and upper <= best.upper * (1 + ROUNDING)


@pytest.mark.parametrize("norm", EVERY)
def test_the_value_is_that_of_cvxpy(norm):
    cp = pytest.importorskip("cvxpy")
    problem, X, z, alpha = planted((8, 6, 5), seed=1)
    W = cp.Variable(problem.shape)
    rows = [
        (X[i, alpha[i]] - X[i, t]) @ W @ z[i] >= 1
        for i in range(len(X))
        for t in range(X.shape[1])
        if t != alpha[i]
    ]
    value = cp.Problem(cp.Minimize(size_in_cvxpy(norm, W)), rows).solve()
    best = solve(problem, norm, solver="splitting", tol=GAP_SPLIT)
    assert best.lower * (1 - GAP_SPLIT) <= value <= best.upper * (1 + GAP_SPLIT)
    assert best.upper / best.lower - 1 <= GAP_SPLIT


@pytest.mark.parametrize("norm", SMOOTH)
def test_many_rows_go_by_splitting_to_a_small_gap(norm):
    problem, *_ = planted((60, 20, 20))
    assert problem.m > 600
    best = solve(problem, norm, tol=GAP_SPECTRUM)
    assert best.status == "optimal" and best.gap <= GAP_SPECTRUM
    own = solve(problem, norm, tol=GAP_SPECTRUM, solver="interior")
    assert max(best.lower, own.lower) <= min(best.upper, own.upper)


@pytest.mark.parametrize("norm", EVERY)
@pytest.mark.parametrize("C", [1e-3, 0.3])
def test_soft_margins_are_those_of_the_norms_own_method(norm, C):
    problem, *_ = planted((12, 8, 6), seed=2)
    C = C * float(solve(problem, norm, tol=GAP_SPLIT).upper) ** 2
    ours, own = (
        solve(problem, norm, C=C, solver=s, tol=GAP_SPLIT) for s in ("splitting", "interior")
    )
    assert ours.status == "optimal"
    assert max(ours.lower, own.lower) <= min(ours.upper, own.upper)


def awkward(kind, seed=0, steep=1.5):
    """A problem of more than 600 rows of a bad kind; steep: powers of ten between its features."""
    draw = np.random.default_rng(seed)
    a = planted_20(seed, (45, 16, 12), stack=1)
    X, z, alpha = a["X"][0], a["z"][0], a["alpha"][0]
    b = np.ones(X.shape[:2])
    if kind == "duplicate inputs":
        X[20:40], z[20:40], alpha[20:40] = X[:20], z[:20], alpha[:20]
    elif kind == "one rounding apart":
        X[20:40] = np.nextafter(X[:20], np.inf)
        z[20:40], alpha[20:40] = z[:20], alpha[:20]
    elif kind == "zero right-hand sides":
        b[::3] = 0.0
    elif kind == "one query":
        z[:] = z[0]
        alpha = (X @ draw.standard_normal(12)).argmax(axis=1)
    elif kind == "nearly dependent":
        X = X @ np.diag(10.0 ** -np.linspace(0, steep, 12))
    elif kind == "1e145":
        X, z = 1e73 * X, 1e72 * z
    elif kind == "1e-135":
        X, z = 1e-70 * X, 1e-65 * z
    elif kind == "single precision":
        X = X.astype(np.float32)
    tokens = Tokens(X, queries=z)
    if kind == "ties":
        kept = np.zeros(X.shape[:2], bool)
        kept[np.arange(45), alpha] = True
        kept[0, (alpha[0] + 1) % 16] = kept[1, (alpha[1] + 2) % 16] = True
        return Problem.of(tokens, Selection.of(tokens, kept))
    return Problem.of(tokens, alpha.tolist(), b=b)


AWKWARD = (
    "duplicate inputs", "one rounding apart", "zero right-hand sides", "one query",
    "nearly dependent", "1e145", "1e-135", "single precision", "ties",
)  # fmt: skip


@pytest.mark.parametrize(
    ("norm", "tol"),
    [("nuclear", GAP_SPLIT), ("l1.75", GAP_SPLIT), *((norm, GAP_SPECTRUM) for norm in LINEAR)],
)
@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_rows_are_solved_and_certified(norm, tol, kind):
    problem = awkward(kind)
    assert problem.m > 600
    best = solve(problem, norm, solver="splitting", tol=tol)
    assert best.status == "optimal" and best.gap <= tol
    assert best.verify().ok
    own = solve(problem, norm, solver="interior", tol=GAP_SPLIT)
    assert max(best.lower, own.lower) <= min(best.upper, own.upper)


def test_where_splitting_stalls_the_norms_own_method_goes_on():
    problem = awkward("nearly dependent", steep=4)
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        alone = solve(problem, "nuclear", solver="splitting")
    best = solve(problem, "nuclear")
    assert best.status == "optimal"
    assert alone.lower <= best.upper and best.lower <= alone.upper


@pytest.mark.parametrize("norm", ["nuclear", "l3", "l1"])
def test_many_rows_that_no_matrix_meets_are_proved_so(norm):
    draw = np.random.default_rng(0)
    X, z = draw.standard_normal((300, 4, 3)), draw.standard_normal((300, 3))
    tokens = Tokens(X, queries=z)
    end = solve(Problem.of(tokens, draw.integers(0, 4, 300).tolist()), norm)
    assert end.status == "infeasible" and end.W is None


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


@pytest.mark.parametrize("norm", LINEAR)
@pytest.mark.parametrize("lost", ["fits", "_factor"])
def test_where_the_interior_point_cannot_go_on_the_answer_is_certified(norm, lost, monkeypatch):
    problem, *_ = planted((60, 20, 8))
    monkeypatch.setattr(path, lost, lambda *_: None)
    assert solve(problem, norm, solver="splitting", tol=GAP_SPLIT).status == "optimal"
