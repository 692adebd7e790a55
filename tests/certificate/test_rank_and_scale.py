"""The proved singular value, and exact scaling at the ends of the float range."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from attsvm.certificate.bounds import ceiling, independence, length, value_above
from attsvm.norms import norm_of


def least_singular(A, Z) -> float:
    """σ_min of the rows A_k z_kᵀ to 40 digits."""
    with mpmath.workdps(40):
        rows = mpmath.matrix([[mpmath.mpf(a) * mpmath.mpf(z) for a in x for z in y]
                              for x, y in zip(A, Z, strict=True)])  # fmt: skip
        return float(min(mpmath.svd_r(rows, compute_uv=False)))


@pytest.mark.parametrize("apart", [0.0, 2.0**-55, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_below_the_singular_value(apart, seed):
    draw = np.random.default_rng(seed)
    D, Z = draw.standard_normal((4, 5)), draw.standard_normal((4, 3))
    D[3], Z[3] = D[0] + apart * draw.standard_normal(5), Z[0]
    A = D / (np.linalg.norm(D, axis=1) * np.linalg.norm(Z, axis=1))[:, None]
    found, true = independence(A, Z).sigma, least_singular(A, Z)
    assert found <= true
    # And it proves something where floats can: down to a few thousand roundings.
    assert found >= 0.5 * true if true > 1e-11 else found <= true


@pytest.mark.parametrize("x", [0.0, 1.0, 1 / 3, 1.5, 2.0**-1074])
@pytest.mark.parametrize("e", [-2000, -1074, -1060, -30, 0, 30, 1000, 1024, 3000])
def test_scaling_is_directed(x, e):
    exact = Fraction(x) * (Fraction(2) ** e if e >= 0 else 1 / Fraction(2) ** -e)
    high = ceiling(x, e)
    assert high == math.inf or Fraction(high) >= exact
    if 1e-300 < exact < 1e300:
        assert Fraction(high) == exact


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e-100, 1.0, 1e100, 1e200, 1e300])
@pytest.mark.parametrize("name", ["frobenius", "nuclear", "spectral", "max", "l1", "l3"])
def test_sizes_at_any_scale(scale, name):
    W = np.array([[3.0, 0.0], [0.0, 4.0]])
    unit = {"frobenius": 5, "nuclear": 7, "spectral": 4, "max": 4, "l1": 7, "l3": 91 ** (1 / 3)}
    found = value_above(norm_of(name), W * scale)
    assert found == pytest.approx(unit[name] * scale, rel=1e-9)
    if name == "frobenius":
        assert length(W * scale) == pytest.approx(5 * scale, rel=1e-9)
        assert Fraction(found) ** 2 >= sum(Fraction(float(w)) ** 2 for w in (W * scale).flat)
