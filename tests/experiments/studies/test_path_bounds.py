"""The arithmetic of the studies of paths, against plain floats and longer numbers."""

import mpmath
import numpy as np
import pytest

from attsvm.experiments.families import drawn
from attsvm.experiments.studies.a import regularization_path as paths
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.solvers.solve import solve

SETS = {"n": 3, "T": 5, "d": 6, "e": 3, "units": 4, "kept": 2}


def dot(a, b):
    """a·b in longer numbers."""
    return mpmath.fsum(mpmath.mpf(x) * y for x, y in zip(a, b, strict=True))


def in_longer_numbers(instance, p):
    """log(L − floor) with 600 digits."""
    with mpmath.workdps(600):
        X, keys = np.asarray(instance.tokens.X), np.asarray(instance.tokens.keys)
        V = instance.head.V[0]

        def head(o):
            return mpmath.fsum(max(mpmath.mpf(0), dot(column, o)) for column in V.T)

        total = mpmath.mpf(0)
        for i in range(len(X)):
            s = [mpmath.exp(dot(key, p)) for key in keys[i]]
            o = [dot(column, s) / mpmath.fsum(s) for column in X[i].T]
            good = head([mpmath.mpf(x) for x in X[i, 0]])
            total += mpmath.log1p(mpmath.exp(-head(o))) - mpmath.log1p(mpmath.exp(-good))
        return float(mpmath.log(total / len(X)))


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 500.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_excess_of_sets_keeps_its_digits(seed, size):
    instance = paths.draw_sets(seed, **SETS)
    found = solve(paths.pieces(instance)[0])
    tilt = np.random.default_rng(seed).standard_normal((SETS["d"], 1))
    # The random part crosses kinks of the head, the other one saturates attention.
    x = tilt + size * np.asarray(found.require().W)
    seen = paths.set_task(instance).log_excess(x)
    assert seen == pytest.approx(in_longer_numbers(instance, x[:, 0]), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_set_values_are_shared_and_best(seed):
    instance = paths.draw_sets(seed, **SETS)
    X = np.asarray(instance.tokens.X)
    assert (X[:, 0] == X[:, 1]).all()
    h = instance.head.value(X[None].reshape(1, -1, SETS["e"])).reshape(X.shape[:2])
    assert (h[:, :1] > h[:, SETS["kept"] :]).all()


@pytest.mark.parametrize("loss", ["logistic", "exponential", "linear"])
def test_bounds_hold_at_every_prompt(loss):
    stream = np.random.default_rng(0)
    told = 0
    for seed in range(6):
        tokens, v = drawn((3, 4, 6), seed, queries="none")
        problem = Problem.of(tokens, Selection.best(tokens, v))
        best = solve(problem).require()
        W = np.asarray(best.W)[:, 0]
        p = stream.uniform(0, 60, (200, 1)) * (W + 0.2 * stream.standard_normal((200, len(W))))
        excess, logs = paths.above(tokens, v, loss, p)
        margins = np.array([problem.margins(x[:, None]).min() for x in p])
        delta = paths.sure_margins(excess, logs)
        assert (delta <= margins + 1e-9).all()
        sizes = np.linalg.norm(p, axis=1)
        cosines = p @ W / sizes / np.linalg.norm(W)
        assert (paths.least_cosine(delta, sizes, best.lower) <= cosines + 1e-9).all()
        told += int((delta > 0).sum())
    assert told > 100
