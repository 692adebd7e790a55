"""Vectors of eight floats against NumPy and many digits."""

import math

import mpmath
import numba
import numpy as np
import pytest

from attsvm._utils import simd
from attsvm._utils.simd import LANES

ADD, FMA, EXP = simd.add, simd.fma, simd.exp
LOAD, STORE, SPLAT = simd.load, simd.store, simd.splat
SUM, LARGEST, BELOW = simd.sum_of, simd.largest_of, simd.below


@numba.njit
def exponentials(x, out):
    for k in range(0, x.size, LANES):
        STORE(out, k, EXP(LOAD(x, k)))


@numba.njit
def numbers(x, y):
    a, b = LOAD(x, 0), LOAD(y, 0)
    return SUM(a), LARGEST(a), BELOW(a, b), SUM(FMA(a, b, SPLAT(1.0)))


def test_exponentials_are_right_to_one_unit():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-708, 700, 4000), rng.uniform(-1, 1, 4000)])
    out = np.empty_like(x)
    exponentials(x, out)
    for a, found in zip(x.tolist(), out.tolist(), strict=True):
        exact = mpmath.exp(mpmath.mpf(a))
        assert abs(found - exact) <= math.ulp(float(exact))


@pytest.mark.parametrize("at", [-np.inf, -1e308, -709.0])
def test_exponentials_end_at_zero(at):
    x, out = np.full(LANES, at), np.ones(LANES)
    exponentials(x, out)
    assert (out == 0.0).all()


def test_exponentials_at_the_edges():
    x, out = np.zeros(LANES), np.empty(LANES)
    x[1:3] = -708 + 2e-13, 2.0**-60
    exponentials(x, out)
    assert out[0] == out[2] == 1.0 and out[1] == pytest.approx(math.exp(x[1]), rel=1e-15)


def test_lanes_are_combined():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, LANES))
    total, largest, bits, products = numbers(x, y)
    assert total == pytest.approx(x.sum(), rel=1e-14)
    assert largest == x.max()
    assert [bits >> k & 1 for k in range(LANES)] == (x < y).astype(int).tolist()
    assert products == pytest.approx((x * y + 1).sum(), rel=1e-14)
