"""The kernels that walk u, g and w once, against their NumPy twin and against exact powers."""

from fractions import Fraction

import numpy as np
import pytest

from attsvm.torch import one_pass
from attsvm.torch.threads import in_parts

EXPONENTS = (1.015625, 1.02, 1.1, 1.2, 1.25, 1.3, 1.5, 1.75, 2.5, 3.0, 4.0, 11.0)


def drawn(size, seed=0, spread=4.0):
    rng = np.random.default_rng(seed)
    u = rng.standard_normal(size) * np.exp(rng.uniform(-spread, 1, size))
    g = rng.standard_normal(size)
    u[::17], g[::34] = 0.0, 0.0
    return u.astype(np.float32), g.astype(np.float32), np.zeros(size, np.float32)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 1001])
def test_step_is_its_twin(p, size):
    u, g, w = drawn(size)
    mine, twin = (u.copy(), g, w.copy()), (u.copy(), g, w.copy())
    one_pass.step(*mine, lr=0.01, shrink=0.999, p=p)
    one_pass.twin(*twin, lr=0.01, shrink=0.999, p=p)
    assert np.array_equal(mine[0], twin[0]), "u is the same in every digit"
    # Powers by at most 11 multiplications, or by polynomials; below 1e-37 floats lose digits.
    with np.errstate(under="ignore"):
        assert np.allclose(mine[2], twin[2], rtol=4e-6 if p < 1.05 else 6e-7, atol=1e-37)
    assert np.array_equal(np.signbit(mine[2][mine[2] != 0]), mine[0][mine[2] != 0] < 0)


def test_whole_powers_against_fractions():
    u, g, w = drawn(60, spread=1.0)
    one_pass.step(u, g, w, lr=0.125, shrink=1.0, p=1.1)
    for a, b in zip(u.tolist(), w.tolist(), strict=True):
        exact = Fraction(a) * abs(Fraction(a)) ** 9
        assert abs(Fraction(b) - exact) <= Fraction(1, 2**20) * abs(exact) + Fraction(1, 10**37)


@pytest.mark.parametrize("p", [1.3, 1.7, 2.5, 6.0])
def test_powers_over_the_range_of_floats(p):
    a = np.exp2(np.linspace(-125.5, 126.5, 20011)).astype(np.float32)
    w, zero = np.zeros_like(a), np.zeros_like(a)
    exact = a.astype(np.float64) ** (1 / (p - 1))
    one_pass.step(a.copy(), zero, w, lr=0.0, shrink=1.0, p=p)
    inside = (exact > 1.2e-38) & (exact < 3.3e38)
    assert np.abs(w[inside] / exact[inside] - 1).max() < 6e-7
    assert (w[exact > 3.5e38] == np.inf).all() and (w[exact < 6e-46] == 0).all()


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 4096, 10_007])
def test_every_place_is_looked_at(size):
    g = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    assert one_pass.all_finite(g.view(np.int32))
    for place in {0, 1, 2, 3, size // 4, size // 2, 3 * size // 4, size - 2, size - 1}:
        for bad in (np.nan, np.inf, -np.inf):
            if 0 <= place < size:
                spoilt = g.copy()
                spoilt[place] = bad
                assert not one_pass.all_finite(spoilt.view(np.int32)), (place, bad)
    edge = np.array([3.4028235e38, -3.4028235e38, 1e-45, 0.0], np.float32)
    assert one_pass.all_finite(edge.view(np.int32))


def test_threads_give_the_same_step():
    import torch

    u, g, w = drawn(3 * 2**18 + 5)
    alone, parts = (u.copy(), g, w.copy()), (u.copy(), g, w.copy())
    in_parts(one_pass.step, alone, lr=0.01, shrink=0.9, p=1.1)
    torch.set_num_threads(3)
    in_parts(one_pass.step, parts, lr=0.01, shrink=0.9, p=1.1)
    assert np.array_equal(alone[0], parts[0]) and np.array_equal(alone[2], parts[2])
