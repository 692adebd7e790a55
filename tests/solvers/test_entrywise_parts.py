"""The parts of the entrywise interior points: normal equations, duality map, starting point."""

import numpy as np
import pytest

from attsvm.solvers.power import duality, normal_matrix, steps
from tests.tolerances import ROUNDING


@pytest.mark.parametrize("k,N", [(5, 9), (30, 6), (40, 21)])
def test_normal_matrix(k, N):
    rng = np.random.default_rng(k)
    A, D = rng.standard_normal((k, N)), rng.random(N)
    sigma = 10.0 ** rng.uniform(-8, 4, k)
    sigma[:2] = 0.0  # ties
    H = A @ np.diag(D) @ A.T + np.diag(sigma)
    x = rng.standard_normal(k)
    for build in (normal_matrix._wide, normal_matrix._tall):
        r = H @ x
        assert np.abs(H @ build(A, D, sigma)(r) - r).max() <= 1e-7 * np.abs(r).max()
    r = H @ x
    assert (
        np.abs(H @ normal_matrix.factor(A, D, sigma=sigma)(r) - r).max() <= 1e-11 * np.abs(r).max()
    )


def test_duplicate_ties_are_solved():
    """Equal rows with σ = 0 make the matrix singular; a consistent right-hand side is still met."""
    rng = np.random.default_rng(1)
    A = np.repeat(rng.standard_normal((3, 8)), 2, axis=0)
    r = A @ rng.standard_normal(8)
    x = normal_matrix.factor(A, np.ones(8), sigma=np.zeros(6))(r)
    assert np.abs(A @ (A.T @ x) - r).max() <= 1e-11


def test_length_and_map():
    rng = np.random.default_rng(2)
    v = rng.standard_normal(20)
    for p in (1.01, 1.5, 2.0, 3.0, 100.0):
        q = duality.conjugate(p)
        w = duality.duality_map(v, p)
        assert duality.length(w, q) == pytest.approx(duality.length(v, p), rel=ROUNDING)
        assert w @ v == pytest.approx(duality.length(v, p) ** 2, rel=ROUNDING)
    # powers of these over- or underflow; their length does not
    assert duality.length(np.full(4, 1e200), 2.0) == pytest.approx(2e200, rel=ROUNDING)
    assert duality.length(np.full(4, 1e-200), 2.0) == pytest.approx(2e-200, rel=ROUNDING)
    assert duality.length(np.zeros(3), 3.0) == 0.0


def test_start_is_centred():
    slack, lam = np.array([0.0, 0.4, 0.0, 0.0]), np.array([0.7, 0.0, 0.0, -2.0])
    margin = np.array([True, True, True, False])
    x, s = steps.centred(slack, lam, margin, share=1e-3)
    assert x[margin] * s[margin] == pytest.approx(np.full(3, 1e-3), rel=ROUNDING)
    assert x[3] == -2.0 and x[0] > 0.6 and s[1] > 0.3
    assert steps.longest(x, -2 * x, margin) == pytest.approx(0.5)
