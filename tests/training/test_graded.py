"""Sums of graded terms: the kernels against their twin and many digits, and exact zeros."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.polar import resolve
from attsvm.training.optimizers.graded.wide import Sum, entries, logs_of, of_logs
from tests.tolerances import GRADED, ROUNDING
from tests.training.digits import exact, floats, polar
from tests.twins import graded as twin

# (d, c, right vectors, terms of each, spread of the logarithms).
SIZES = (
    (3, 3, 3, 3, 0.0),
    (3, 3, 3, 3, 900.0),
    (4, 3, 5, 2, 300.0),
    (3, 4, 2, 3, 900.0),
    (6, 6, 3, 2, 2000.0),
    (5, 2, 7, 3, 50.0),
    (4, 1, 1, 3, 900.0),
)


def graded(d, c, n, T, depth, *, B=1, seed=0):
    """Random terms whose sizes are spread over e^−depth."""
    rng = np.random.default_rng([seed, d, c, n, T])
    logs = -depth * rng.random((B, n * T))
    x = of_logs(rng.choice([-1.0, 1.0], logs.shape) * rng.uniform(0.5, 1, logs.shape), logs)
    number = np.arange(n * T), np.repeat(np.arange(n), T)
    return Graded(rng.standard_normal((B, n * T, d)), rng.standard_normal((B, n, c)), *number, *x)


def parts(g):
    return Sum(g.left, g.right, g.at, g.into, g.share, g.power)


def dense(g, b=0):
    """The sum in many digits, all of it."""
    left, right = exact(g.left[b]), exact(g.right[b])
    G = 0 * np.outer(left[0], right[0])
    for k in range(len(g.at)):
        x = mp.mpf(float(g.share[b, k])) * mp.mpf(2) ** int(g.power[b, k])
        G = G + x * np.outer(left[g.at[k]], right[g.into[k]])
    return G


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_kernels_are_their_twin(size):
    for seed in range(3):
        g = graded(*size, B=2, seed=seed)
        one, other = resolve(parts(g)), twin.resolve(parts(g))
        assert_allclose(one[0], other[0], rtol=0, atol=GRADED)
        for a, b in zip(one[1:3], other[1:3], strict=True):
            assert_array_equal(a, b)
        assert_allclose(logs_of(*one[3:]), logs_of(*other[3:]), rtol=GRADED, atol=GRADED)
        for route in (entries, twin.entries):
            share, power = route(parts(g))
            assert ((np.abs(share) >= 0.5) & (np.abs(share) < 1)).all()
            assert_allclose(share * 2.0**50, entries(parts(g))[0] * 2.0**50, rtol=GRADED)
            assert_array_equal(power, entries(parts(g))[1])


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_singular_direction_against_many_digits(size):
    for seed in range(2):
        g = graded(*size, seed=seed)
        with mp.workdps(60 + int(0.9 * size[4])):
            assert_allclose(g.resolved()[0][0], floats(polar(dense(g))), rtol=0, atol=GRADED)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_entry_against_many_digits(size):
    g = graded(*size)
    with mp.workdps(60 + int(0.9 * size[4])):
        G = dense(g)
        logs = np.vectorize(lambda x: float(mp.log(abs(x))), otypes=[float])(G)
        signs = np.vectorize(lambda x: float(mp.sign(x)), otypes=[float])(G)
    share, power = g.entries()
    assert_array_equal(np.sign(share[0]), signs)
    assert_allclose(logs_of(share, power)[0], logs, rtol=ROUNDING, atol=ROUNDING)


def shared(coefficients, *, d=4, c=4, seed=0):
    """Σ_ij s_ij e^l_ij a_i b_jᵀ for (signs, logs) (p, q): vectors that several terms share."""
    rng = np.random.default_rng(seed)
    signs, logs = (np.array(x, float) for x in coefficients)
    p, q = signs.shape
    number = np.repeat(np.arange(p), q), np.tile(np.arange(q), p)
    x = of_logs(signs.reshape(1, -1), logs.reshape(1, -1))
    return Graded(rng.standard_normal((1, p, d)), rng.standard_normal((1, q, c)), *number, *x)


@pytest.mark.parametrize(
    "logs",
    [
        [[0, 0], [-30, -40]],
        [[0, -300], [-50, -100]],
        [[0, -1000], [-30, -900]],
        [[0, -5, -900], [-800, -700, -2], [-1, -1, -1]],
        [[0, -40, -80], [-41, -82, -123], [-80, -120, -161]],
    ],
)
def test_vectors_that_terms_share(logs):
    """Two inputs with the same tokens differ only in how much each token counts."""
    g = shared((np.where(np.eye(len(logs), len(logs[0])), -1, 1), logs))
    with mp.workdps(1500):
        assert_allclose(g.resolved()[0][0], floats(polar(dense(g))), rtol=0, atol=GRADED)


@pytest.mark.parametrize("depth", [0.0, 40.0, 900.0])
@pytest.mark.parametrize("how", ["few", "parallel", "proportional", "differences"])
def test_directions_that_are_not_there_do_not_move(how, depth):
    """Rank deficient by construction: the step has exactly the rank of the terms, no noise."""
    rng = np.random.default_rng(3)
    left, right = rng.standard_normal((1, 6, 5)), rng.standard_normal((1, 6, 5))
    logs = -depth * rng.random((1, 6))
    rank = {"few": 3, "parallel": 4, "proportional": 5, "differences": 4}[how]
    if how == "few":
        left, right, logs = left[:, :3], right[:, :3], logs[:, :3]
    elif how == "parallel":  # right vectors of three terms on one line, not as floats
        right[:, 1], right[:, 2] = right[:, 0] / 3, right[:, 0] * 0.7
        left, right, logs = left[:, :5], right[:, :5], logs[:, :5]
        rank = 3
    elif how == "proportional":  # terms that make one: (a + a') bᵀ
        left[:, 1] = left[:, 0] * 1.7
        right[:, 1] = right[:, 0]
    else:  # differences of five points span four dimensions
        left = rng.standard_normal((1, 1, 5)) + np.concatenate(
            [left[:, :4], left[:, :1] - left[:, 1:2], left[:, 2:3] - left[:, :1] / 3], axis=1
        )
        left = left - left[:, [1, 2, 3, 0, 5, 4]]
        rank = np.linalg.matrix_rank(left[0], tol=1e-10)
    number = np.arange(left.shape[1])
    g = Graded(left, right, number, number, *of_logs(np.ones_like(logs), logs))
    D = g.resolved()[0][0]
    singular = np.linalg.svd(D, compute_uv=False)
    assert_allclose(singular, (np.arange(5) < rank).astype(float), atol=GRADED)


def test_a_sum_that_cancels_is_zero():
    g = shared(([[1, 1], [1, 1]], [[0, -10], [-300, -310]]))  # one term (a + a'/e³⁰⁰)(b + b'/e¹⁰)ᵀ
    assert_allclose(np.linalg.svd(g.resolved()[0][0], compute_uv=False), [1, 0, 0, 0], atol=GRADED)
    nothing = shared(([[0, 0], [0, 0]], [[0, -10], [-300, -310]]))
    assert not nothing.resolved()[0].any() and not nothing.entries()[0].any()


def test_vectors_of_any_length():
    g = graded(4, 3, 3, 2, 100.0)
    left = g.left * np.array([1e-200, 1e200, 1.0, 1e-300, 1e150, 1.0])[None, :, None]
    big = Graded(left, g.right * 1e100, g.at, g.into, g.share, g.power)
    with mp.workdps(800):
        assert_allclose(
            big.resolved()[0][0],
            floats(polar(dense(Graded(left, g.right, g.at, g.into, g.share, g.power)))),
            atol=GRADED,
        )
