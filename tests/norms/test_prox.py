"""The proximal maps: optimal by the norm's own duality, and equal to slower ways."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm.norms import norm_of
from attsvm.norms.entrywise import clip_largest
from attsvm.norms.norm import check_inputs
from tests.tolerances import EXACTLY, ROUNDING

NORMS = ("nuclear", "spectral", "max", "l1", "l1.05", "l1.1", "l1.75", "l2", "l3", "l10")


def halved_power(V, t, p):
    """The map of Σ |V|^p/p by halving, in plain NumPy."""
    a = np.abs(V)
    low, high = np.zeros_like(a), a.copy()
    for _ in range(200):
        x = 0.5 * (low + high)
        over = x + t * x ** (p - 1.0) > a
        low, high = np.where(over, low, x), np.where(over, x, high)
    return np.asarray(np.sign(V) * 0.5 * (low + high))


@pytest.mark.parametrize("norm", NORMS)
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


@pytest.mark.parametrize("norm", NORMS)
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
