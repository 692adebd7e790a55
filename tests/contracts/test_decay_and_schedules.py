"""Decoupled weight decay around every optimizer that has it, and the schedules of the step size."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm.errors import Unsupported
from attsvm.training.optimizers import OPTIMIZERS, Gradient, optimizer_of, schedule_of, with_decay
from tests.tolerances import ROUNDING

LR = np.array([0.1, 0.03])


def after(optimizer, W, G):
    """W after one step of an optimizer from a fresh state."""
    gradient = Gradient({"W": G}, {"W": np.zeros(2)})
    return optimizer.update({"W": W}, gradient, optimizer.init({"W": W}), LR, np.ones(2), 0)[0]["W"]


@pytest.mark.parametrize("name", [key for key in OPTIMIZERS if not key.endswith(":P")])
def test_decay_shrinks_beside_the_step(name):
    optimizer, (W0, G) = optimizer_of(name), np.random.default_rng(0).standard_normal((2, 2, 4, 3))
    decayed = with_decay(optimizer, 0.5)
    step = after(optimizer, W0, G) - W0
    W = after(decayed, W0, G)
    assert_allclose(W, (1 - LR[:, None, None] * 0.5) * W0 + step, rtol=ROUNDING, atol=ROUNDING)
    assert decayed.norm is None and decayed.name == f"{name}+decay:0.5"
    assert with_decay(optimizer, 0.0) is optimizer


def test_decay_bounds_the_weights():
    W = np.zeros((2, 4, 3))
    for _ in range(2000):
        W = after(with_decay(optimizer_of("sign"), 2.0), W, np.ones(W.shape))
    assert_allclose(W, -0.5, rtol=ROUNDING)


@pytest.mark.parametrize("name", ["mirror:3", "nmirror:2"])
def test_decay_is_not_defined_for_mirror_descent(name):
    with pytest.raises(Unsupported, match=name):
        with_decay(optimizer_of(name), 0.1)


@pytest.mark.parametrize("decay", [-0.1, np.inf, np.nan])
def test_a_bad_decay_is_refused(decay):
    with pytest.raises(Unsupported, match="weight decay"):
        with_decay(optimizer_of("gd"), decay)


def test_schedules():
    assert [schedule_of("constant")(t) for t in (0, 9)] == [1.0, 1.0]
    assert [schedule_of("sqrt")(t) for t in (0, 3, 99)] == [1.0, 0.5, 0.1]
    assert schedule_of(lambda t: 2 / (1 + t))(3) == 0.5
    with pytest.raises(Unsupported, match="known are constant, sqrt"):
        schedule_of("cosine")
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(Unsupported, match="at step 4"):
            schedule_of(lambda t, bad=bad: bad)(4)
