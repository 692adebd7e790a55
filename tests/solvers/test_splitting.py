"""Splitting, judged by bounds that share no code with it: plain NumPy and cvxpy."""

import numpy as np
import pytest

from attsvm import Problem, Tokens, norm_of, solve
from attsvm.bench.instances import planted_20
from tests.tolerances import GAP_SPECTRUM, GAP_SPLIT, ROUNDING

SMOOTH = ("nuclear", "spectral", "l1.1", "l1.75", "l3")
EVERY = (*SMOOTH, "l1", "max")


def planted(size, seed=0, dtype=np.float64):
    """A planted problem, with its arrays X, z, alpha."""
    a = planted_20(seed, size, stack=1)
    X, z, alpha = a["X"][0].astype(dtype), a["z"][0], a["alpha"][0]
    return Problem.of(Tokens(X, queries=z), alpha.tolist()), X.astype(float), z, alpha


def sizes(norm, W):
    """(‖W‖, dual norm of W) in plain NumPy, for the norm of this name."""
    s, a = np.linalg.svd(W, compute_uv=False), np.abs(W)
    plain = {
        "nuclear": (s.sum(), s[0]),
        "spectral": (s[0], s.sum()),
        "l1": (a.sum(), a.max()),
        "max": (a.max(), a.sum()),
    }
    if norm in plain:
        return plain[norm]
    p = float(norm[1:])
    q = p / (p - 1)
    return np.sum(a**p) ** (1 / p), np.sum(a**q) ** (1 / q)


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


@pytest.mark.parametrize("norm", EVERY)
@pytest.mark.parametrize("size", [(40, 20, 24), (12, 40, 20)])
def test_both_bounds_hold_in_plain_numpy(norm, size):
    problem, X, z, alpha = planted(size)
    best = solve(problem, norm, solver="splitting", tol=GAP_SPLIT)
    assert best.status == "optimal"
    lower, upper = plain_bounds(norm, X, z, alpha, best)
    assert lower <= upper * (1 + ROUNDING)
    assert upper / lower - 1 <= GAP_SPLIT
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
    value = cp.Problem(cp.Minimize(norm_of(norm).cvxpy(cp, W)), rows).solve()
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


def test_a_wider_tolerance_takes_fewer_steps(monkeypatch):
    from attsvm.solvers.splitting_parts import iteration

    problem, *_ = planted((60, 20, 20))
    counts = {}
    for tol in (1e-2, 1e-6):
        calls = []
        real = iteration.descend

        def counted(*args, real=real, calls=calls, **options):
            calls.append(1)
            return real(*args, **options)

        monkeypatch.setattr(iteration, "descend", counted)
        assert solve(problem, "nuclear", tol=tol).gap <= tol
        monkeypatch.setattr(iteration, "descend", real)
        counts[tol] = len(calls)
    assert 2 * counts[1e-2] <= counts[1e-6]
