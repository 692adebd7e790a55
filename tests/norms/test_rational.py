"""Exact arrays and the rational upper bounds of norms."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from attsvm.errors import BadTokens, Unsupported
from attsvm.norms import norm_of
from attsvm.norms.entrywise import _power, power_above
from attsvm.norms.rational import (
    Exact,
    float_above,
    float_below,
    sqrt_above,
)
from tests.plain_fractions import (
    NORMS,
    REFERENCE,
    TIGHTNESS,
    reference,
)


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
    for W in (full, flat, full * 2.0**-300, np.round(full * 4) / 4):
        exact = Exact.of(W)
        above, true = norm_of(name).value_above(exact), reference(name, exact)
        assert above >= true * (1 - REFERENCE)
        assert above <= true * (1 + TIGHTNESS)
    assert norm_of(name).value_above(Exact.of(np.zeros(shape))) == 0


def test_bounds_hold_for_rationals_of_many_digits() -> None:
    rng = np.random.default_rng(4)
    W = Exact.of(rng.standard_normal((4, 4))).times(Fraction(7, 3**300))
    for name in NORMS:
        above, true = norm_of(name).value_above(W), reference(name, W)
        assert true * (1 - REFERENCE) <= above <= true * (1 + TIGHTNESS)


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
    for name in ("l0.5", "euclid", "l", "lx", "linf"):
        with pytest.raises(Unsupported, match="norm"):
            norm_of(name)
