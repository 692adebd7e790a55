"""Every norm keeps its contract: duality, constants, rational bounds, stacks.

The registry is read, so a new norm is covered without an entry here. Norms of which a reference in
many digits is known are compared with it as well.
"""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import Unsupported
from attsvm.norms import NORMS as REGISTRY
from attsvm.norms import norm_of
from attsvm.norms.norm import Norm
from attsvm.norms.rational import Exact
from tests.contracts.test_outside_norms import OUTSIDE
from tests.plain_fractions import REFERENCE, has_reference, reference
from tests.tolerances import ROUNDING
from tests.zoo import NORMS, orthonormal

SHAPES = ((1, 1), (3, 1), (1, 4), (4, 3), (5, 5), (8, 2))
CUSTOM = {norm.name: norm for norm in OUTSIDE}
EVERY = {name: CUSTOM.get(name) or norm_of(name) for name in (*NORMS, *CUSTOM)}
every = pytest.mark.parametrize("name", EVERY)
shaped = pytest.mark.parametrize("shape", SHAPES, ids=str)


def draws(shape, *, seed=0, count=20):
    """Matrices of many kinds: dense, sparse, rank one, of wide range, zero."""
    rng = np.random.default_rng([seed, *shape])
    out = [np.zeros(shape)]
    for k in range(count):
        W = rng.standard_normal(shape)
        if k % 4 == 1:
            W[1:] = np.where(rng.random(shape) < 0.5, W, 0.0)[1:]
        if k % 4 == 2:
            W = np.outer(rng.standard_normal(shape[0]), rng.standard_normal(shape[1]))
        if k % 4 == 3:
            W = W * 10.0 ** rng.integers(-6, 6, shape)
        out.append(W)
    return np.stack(out)


def test_every_listed_norm_is_covered():
    covered = {type(norm_of(name)) for name in NORMS}
    assert covered == set(REGISTRY.values())


@every
@shaped
def test_value_and_dual_are_norms(name, shape):
    norm, W = EVERY[name], draws(shape)
    V = draws(shape, seed=1)
    for size in (norm.value, norm.dual):
        assert (size(W) > 0).tolist() == W.any(axis=(1, 2)).tolist()
        assert_allclose(size(-3.5 * W), 3.5 * size(W), rtol=ROUNDING)
        assert (size(W + V) <= (size(W) + size(V)) * (1 + ROUNDING)).all()
        # not every norm would do: a positive multiple of one entry grows with it
        assert size(W[1] * 2.0) > size(W[1])


@every
@shaped
def test_dual_bounds_the_product_and_is_attained(name, shape):
    norm, W, G = EVERY[name], draws(shape), draws(shape, seed=1)
    product = np.einsum("bij,bij->b", W, G)
    assert (np.abs(product) <= norm.value(W) * norm.dual(G) * (1 + ROUNDING)).all()
    S = norm.dual_maximizer(G)
    assert S.shape == G.shape and not S[0].any()
    assert_allclose(norm.value(S[1:]), 1.0, rtol=ROUNDING)
    assert_allclose(np.einsum("bij,bij->b", S, G), norm.dual(G), rtol=ROUNDING)


@every
@shaped
def test_a_stack_is_its_matrices(name, shape):
    norm, W = EVERY[name], draws(shape)
    stacked = W.reshape(3, 7, *shape)
    assert_allclose(norm.value(stacked).ravel(), [norm.value(w) for w in W], rtol=ROUNDING)
    assert_allclose(norm.dual(stacked).ravel(), [norm.dual(w) for w in W], rtol=ROUNDING)
    alone = np.stack([norm.dual_maximizer(w) for w in W])
    assert_allclose(norm.dual_maximizer(stacked).reshape(W.shape), alone, rtol=0, atol=ROUNDING)


@every
@shaped
def test_spread_bounds_the_frobenius_ball(name, shape):
    norm = EVERY[name]
    E = draws(shape)[1:]
    E = E / np.linalg.norm(E, axis=(1, 2), keepdims=True)
    d, dq = shape
    # where the largest is met: one entry, all entries alike, orthonormal columns
    Q = orthonormal(np.random.default_rng(0), max(shape), min(shape))
    Q = (Q if d >= dq else Q.T) / np.sqrt(min(shape))
    one = np.zeros(shape)
    one[0, 0] = 1.0
    E = np.concatenate([E, [one, np.full(shape, 1 / np.sqrt(d * dq)), Q]])
    for size, bound in zip((norm.value, norm.dual), norm.spread(shape), strict=True):
        assert (size(E) <= bound * (1 + ROUNDING)).all()
        if has_reference(name):
            assert size(E).max() >= bound * (1 - ROUNDING)


@pytest.mark.parametrize("name", [name for name in EVERY if has_reference(name)])
@shaped
def test_rounding_and_rational_bounds_hold_in_many_digits(name, shape):
    norm = EVERY[name]
    for W in draws(shape, count=8)[1:]:
        true = reference(name, Exact.of(W))
        assert abs(Fraction(float(norm.value(W))) - true) <= Fraction(norm.rounding(shape)) * true
        above = norm.value_above(Exact.of(W))
        assert true * (1 - REFERENCE) <= above <= true * (1 + Fraction(ROUNDING))


@every
def test_balls_confine_nearly_optimal_points(name):
    norm, rng = EVERY[name], np.random.default_rng(3)
    if not norm.unique:
        assert norm.ball(1.0, 1.0 - ROUNDING) == norm.dual_ball(1.0 - ROUNDING) == np.inf
        return
    for _ in range(50):
        G = rng.standard_normal((3, 4))
        best = norm.dual_maximizer(G)  # the least norm on ⟨G, W⟩ ≥ dual(G) is 1, at `best`
        step = rng.standard_normal((3, 4)) * 10.0 ** -rng.integers(1, 5)
        W = best + step - (G * step).sum() / norm.dual(G) * best
        W = W * norm.dual(G) / (G * W).sum()
        upper = float(norm.value(W))
        assert norm.value(W - best) <= norm.ball(upper, 1.0) * (1 + ROUNDING) + ROUNDING
        # and the same for the dual: unit G' with ⟨G', W⟩ ≥ ratio ‖W‖
        other = G + norm.dual(G) * step
        other = other / norm.dual(other)
        ratio = min(float((other * best).sum()), 1.0)
        reach = norm.dual(other - G / norm.dual(G))
        assert reach <= norm.dual_ball(ratio) * (1 + ROUNDING) + ROUNDING


def test_names_are_found_and_unknown_ones_refused():
    assert isinstance(norm_of("nuclear"), Norm)
    norm = norm_of("l1.75")
    assert norm_of(norm) is norm and norm.value([[2.0]]) == 2.0
    for bad in ("l0.5", "lp", "frob", "lP", "l", "", "l-2", "linf"):
        with pytest.raises(Unsupported, match=r"norm"):
            norm_of(bad)
