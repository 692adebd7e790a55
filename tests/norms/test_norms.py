"""Exact arrays, rational upper bounds of norms, and proximal maps."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm.errors import BadTokens
from attsvm.norms import norm_of
from attsvm.norms.entrywise import _power, clip_largest, power_above
from attsvm.norms.norm import check_inputs
from attsvm.norms.rational import Exact, float_above, float_below, sqrt_above
from tests.plain_fractions import NORMS, REFERENCE, TIGHTNESS, reference
from tests.tolerances import EXACTLY, ROUNDING


def test_floats_become_exact_and_come_back() -> None:
    values = np.array([[0.1, -3.0, 5e-324], [1.7e308, 0.0, -(2.0**-1060)]])
    exact = Exact.of(values)
    assert [Fraction(v) for v in values.ravel().tolist()] == exact.fractions().ravel().tolist()
    np.testing.assert_array_equal(exact.floats(), values)
    assert Exact.of(np.array([1.5, 4.0])).denominator == 2
    assert Exact.of([Fraction(1, 3), Fraction(1, 2)]).denominator == 6
    assert Exact.of(np.array([0.1], np.float32)).fractions()[0] == Fraction(float(np.float32(0.1)))
    with pytest.raises(BadTokens, match=r"entry \[1\] is nan"):
        Exact.of([0.0, math.nan])


def test_floats_are_rounded_outwards() -> None:
    third = Fraction(1, 3)
    assert Fraction(float_below(third)) < third < Fraction(float_above(third))
    assert math.nextafter(float_below(third), 1.0) == float_above(third)
    assert float_above(Fraction(1, 2)) == float_below(Fraction(1, 2)) == 0.5
    assert float_above(Fraction(10) ** 400) == math.inf
    assert float_below(Fraction(10) ** 400) == math.nextafter(math.inf, 0.0)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10) ** 90, Fraction(1, 10**90)])
def test_square_roots_are_rounded_up(scale: Fraction) -> None:
    for n in (2, 3, 10, 12345):
        value = n * scale
        above = sqrt_above(value)
        assert above**2 >= value
        assert (above * (1 - Fraction(1, 2**150))) ** 2 < value
    assert sqrt_above(Fraction(4) * scale**2) == 2 * scale
    assert sqrt_above(Fraction(0)) == 0


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape", [(1, 4), (5, 1), (4, 4), (7, 3)])
def test_bounds_lie_just_above_the_norm(name: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    full = rng.standard_normal(shape)
    flat = np.outer(full[:, 0], full[0])  # rank one
    floats = (full, flat, full * 2.0**-300, np.round(full * 4) / 4)
    many_digits = Exact.of(full).times(Fraction(7, 3**300))
    for exact in (*map(Exact.of, floats), many_digits):
        above, true = norm_of(name).value_above(exact), reference(name, exact)
        assert above >= true * (1 - REFERENCE)
        assert above <= true * (1 + TIGHTNESS)
    assert norm_of(name).value_above(Exact.of(np.zeros(shape))) == 0


def test_power_bound_at_known_values() -> None:
    # (1 + 1)^(1/p), and entries so small that their powers vanish
    assert power_above(Exact.of([[3.0, 0.0]]), Fraction(11, 10)) == 3
    twice = power_above(Exact.of([[1.0, -1.0]]), Fraction(4))
    assert twice**4 >= 2 > (twice * (1 - Fraction(1, 10**50))) ** 4
    lone = power_above(Exact.of([[1.0, 1e-300]]), Fraction(1001))
    assert 1 <= lone < 1 + Fraction(1, 10**50)


def test_decimal_powers_are_rounded_up() -> None:
    # far from 1 the logarithm has digits before the point, and its own rounding shows
    for k in range(2, 40):
        for p in (Fraction(11, 10), Fraction(7, 3), Fraction(11)):
            above = Fraction(_power(Decimal(k).scaleb(-40), p))
            with mpmath.workdps(120):
                true = (mpmath.mpf(k) / mpmath.mpf(10) ** 40) ** (
                    mpmath.mpf(p.numerator) / p.denominator
                )
                excess = mpmath.mpf(above.numerator) / above.denominator / true - 1
            assert 0 <= excess < 1e-55


def test_dual_exponents_are_rational() -> None:
    W = Exact.of(np.random.default_rng(5).standard_normal((3, 3)))
    assert norm_of("l1.1").dual_above(W) == power_above(W, Fraction(11))
    assert norm_of("l3").dual_above(W) == power_above(W, Fraction(3, 2))
    assert norm_of("max").dual_above(W) == norm_of("l1").value_above(W)
    assert norm_of("nuclear").dual_above(W) == norm_of("spectral").value_above(W)


PROXIMAL = ("nuclear", "spectral", "max", "l1", "l1.05", "l1.1", "l1.75", "l2", "l3", "l10")


def halved_power(V, t, p):
    """The map of Σ |V|^p/p by halving, in plain NumPy."""
    a = np.abs(V)
    low, high = np.zeros_like(a), a.copy()
    for _ in range(200):
        x = 0.5 * (low + high)
        over = x + t * x ** (p - 1.0) > a
        low, high = np.where(over, low, x), np.where(over, x, high)
    return np.asarray(np.sign(V) * 0.5 * (low + high))


@pytest.mark.parametrize("norm", PROXIMAL)
@pytest.mark.parametrize("t", [1e-6, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("shape", [(1, 1), (4, 1), (3, 5)])
def test_what_is_taken_away_is_aligned_with_what_is_left(norm, t, shape):
    geometry = norm_of(norm)
    for V in check_inputs(shape, 3):
        X = geometry.prox(V, t)
        G = (V - X) / t
        # G is a subgradient of a growing function of the norm at X.
        aligned = geometry.dual(G) * geometry.value(X)
        assert_allclose(np.vdot(G, X), aligned, rtol=EXACTLY, atol=EXACTLY * np.abs(V).max() / t)
        if norm in ("nuclear", "spectral", "max", "l1"):
            slack = EXACTLY + ROUNDING * np.abs(V).sum() / t
            assert geometry.dual(G) <= 1 + slack
            if X.any():
                assert geometry.dual(G) >= 1 - slack


@pytest.mark.parametrize("norm", PROXIMAL)
def test_no_other_matrix_is_better(norm):
    geometry, draw = norm_of(norm), np.random.default_rng(0)
    p = None if norm in ("nuclear", "spectral", "max", "l1") else geometry.p

    def cost(X, V, t):
        size = geometry.value(X)
        return t * (size if p is None else size**p / p) + 0.5 * np.sum((X - V) ** 2)

    for V in check_inputs((3, 4), 5):
        for t in (0.05, 1.0):
            X = geometry.prox(V, t)
            least = cost(X, V, t)
            for scale in (1e-3, 1e-1, 1.0):
                other = X + scale * draw.standard_normal(X.shape)
                assert cost(other, V, t) >= least * (1 - ROUNDING)


@pytest.mark.parametrize("p", [1.05, 1.1, 1.5, 1.75, 2.0, 3.0, 10.0])
def test_the_kernel_of_powers_equals_halving(p):
    draw = np.random.default_rng(1)
    V = draw.standard_normal((40, 30)) * 10.0 ** draw.integers(-8, 9, (40, 30))
    V[0] = 0.0
    for t in (0.0, 1e-8, 0.3, 1e6):
        fast, slow = norm_of(f"l{p}").prox(V, t), halved_power(V, t, p)
        assert_allclose(fast, slow, rtol=EXACTLY, atol=1e-30)


def test_nothing_is_left_when_all_of_it_is_taken():
    V = np.array([[0.5, -0.25], [0.25, 0.0]])
    assert not clip_largest(V, 1.0).any()
    assert not norm_of("nuclear").prox(V, 10.0).any()
    assert_allclose(clip_largest(V, 0.25), np.clip(V, -0.25, 0.25))
