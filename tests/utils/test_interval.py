"""Intervals hold the true value of every formula, however it is rounded."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from attsvm._utils.interval import Interval, differences

WIDE = np.random.default_rng(0)


def samples(count=400):
    """Floats of many sizes and signs, with exact zeros and neighbours among them."""
    x = WIDE.standard_normal(count) * 10.0 ** WIDE.integers(-12, 12, count)
    x[::17] = 0.0
    x[1::23] = np.nextafter(1.0, 2.0)
    return x


def holds(interval, exact):
    lo, hi = np.broadcast_arrays(interval.lo, interval.hi)
    for low, high, value in zip(lo.ravel(), hi.ravel(), exact, strict=True):
        assert Fraction(float(low)) <= value <= Fraction(float(high))


@pytest.mark.parametrize("sign", ["+", "-", "*", "/"])
def test_the_four_operations_hold_the_exact_result(sign):
    a, b = samples(), samples()
    if sign == "/":
        b = np.where(b == 0, 3.0, b)
    act = {
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
        "/": lambda x, y: x / y,
    }[sign]
    exact = [act(Fraction(float(x)), Fraction(float(y))) for x, y in zip(a, b, strict=True)]
    holds(act(Interval(a), Interval(b)), exact)
    wide = Interval.near(a, np.abs(a) * 1e-3), Interval.near(b, np.abs(b) * 1e-3)
    holds(act(*wide), exact)
    ends = [
        act(Fraction(float(x)), Fraction(float(y)))
        for x, y in zip(wide[0].lo, wide[1].hi, strict=True)
    ]
    holds(act(*wide), ends)


def test_sums_squares_and_products_of_matrices_hold_the_exact_result():
    a = samples(60).reshape(6, 10)
    b = samples(50).reshape(10, 5)
    whole = [[Fraction(float(x)) for x in row] for row in a]
    other = [[Fraction(float(x)) for x in row] for row in b]
    holds(Interval(a).sum(axis=1), [sum(row) for row in whole])
    holds(Interval(a).sum(), [sum(sum(row) for row in whole)])
    holds(Interval(a).squared(), [x * x for row in whole for x in row])
    product = [sum(row[k] * other[k][j] for k in range(10)) for row in whole for j in range(5)]
    holds(Interval(a) @ b, product)
    holds(Interval.near(a, np.abs(a) * 1e-6) @ Interval.near(b, np.abs(b) * 1e-6), product)


def test_exp_log_and_root_hold_the_exact_result():
    x = np.concatenate([WIDE.uniform(-700, 700, 300), WIDE.uniform(-1, 1, 100), [-800.0, -745.2]])
    y = np.abs(samples()) + 1e-300
    with mpmath.workdps(60):
        for value, found in ((x, Interval(x).exp()),):
            for t, low, high in zip(value, found.lo, found.hi, strict=True):
                assert mpmath.mpf(float(low)) <= mpmath.exp(mpmath.mpf(float(t)))
                assert mpmath.exp(mpmath.mpf(float(t))) <= mpmath.mpf(float(high))
        for act, found in ((mpmath.log, Interval(y).log()), (mpmath.sqrt, Interval(y).sqrt())):
            for t, low, high in zip(y, found.lo, found.hi, strict=True):
                exact = act(mpmath.mpf(float(t)))
                assert mpmath.mpf(float(low)) <= exact <= mpmath.mpf(float(high))


def test_what_is_not_a_number_passes_no_comparison():
    split = Interval(np.array([1.0])) / Interval(np.array([-1.0]), np.array([1.0]))
    assert split.lo[0] == -np.inf and split.hi[0] == np.inf
    with np.errstate(all="ignore"):
        lost = Interval(np.array([np.inf])) - Interval(np.array([np.inf]))
        assert not (lost.hi <= 1e300).any() and not (lost.lo >= -1e300).any()
        assert not (Interval(np.array([1e200])).squared().hi < np.inf).any()


def test_differences_of_equal_floats_are_exactly_zero():
    a = samples()
    same = differences(a, a)
    assert not same.lo.any() and not same.hi.any()
    near = differences(np.nextafter(a, np.inf), a)
    assert (near.hi > 0).all() and (near.lo >= 0).all()
