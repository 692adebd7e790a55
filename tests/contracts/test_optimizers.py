"""Every optimizer keeps its contract: step norm, fixed points, scale, range, stacks, purity."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm.norms import norm_of
from attsvm.training.optimizers import OPTIMIZERS, Gradient, optimizer_of
from attsvm.training.optimizers.optimizer import check_optimizer
from tests.tolerances import ROUNDING

# Every listed optimizer; those with an exponent with one below and one above 2.
NAMES = tuple(
    name
    for key in OPTIMIZERS
    for name in ([key.replace(":P", f":{p}") for p in (1.5, 3)] if key.endswith(":P") else [key])
)
PROMISING = tuple(name for name in NAMES if optimizer_of(name).norm)
# Steps of these do not depend on the scale of the gradient: those of declared norm, and more.
SCALE_FREE = (*PROMISING, "nmirror:1.5", "nmirror:3", "signum", "muon", "adam")
# Steps of these depend on earlier gradients; those of an optimizer without a state do not.
REMEMBERING = ("signum", "muon", "adam")
FORGETTING = tuple(
    name
    for name in NAMES
    if "mirror" in name or not optimizer_of(name).init({"W": np.zeros((1, 2, 2))})
)
B = 3
SHAPES = {"W": (4, 3), "v": (5,)}
every = pytest.mark.parametrize("name", NAMES)


def point(seed, *, size=1.0):
    rng = np.random.default_rng([1, seed])
    return {x: size * rng.standard_normal((B, *shape)) for x, shape in SHAPES.items()}


def slope(seed, *, log_scale=0.0):
    """A random gradient; the scales of instances and blocks differ by up to e^±2."""
    rng = np.random.default_rng([2, seed])
    direction = {x: rng.standard_normal((B, *shape)) for x, shape in SHAPES.items()}
    return Gradient(direction, {x: log_scale + rng.uniform(-2, 2, B) for x in SHAPES})


def run(optimizer, params, gradients, *, lr=0.1, loss=0.5):
    """All params along the gradients given, first to last."""
    state, path = optimizer.init(params), [params]
    for t, gradient in enumerate(gradients):
        params, state = optimizer.update(
            params, gradient, state, np.full(B, lr), np.full(B, loss), t
        )
        path.append(params)
    return path


def close(one, other, *, rtol=ROUNDING):
    assert one.keys() == other.keys()
    for x in one:
        assert_allclose(one[x], other[x], rtol=rtol, atol=rtol * np.abs(other[x]).max())


def as_matrix(x):
    return x if x.ndim == 3 else x[:, :, None]


@pytest.mark.parametrize("name", PROMISING)
@pytest.mark.parametrize("log_scale", [-900.0, 0.0, 50.0])
def test_a_promised_step_norm_is_met(name, log_scale):
    optimizer = optimizer_of(name)
    start = {x: np.zeros((B, *shape)) for x, shape in SHAPES.items()}
    lr = np.array([0.1, 2.0, 1e-3])
    for seed in range(20):
        new, _ = optimizer.update(
            start, slope(seed, log_scale=log_scale), optimizer.init(start), lr, np.ones(B), 0
        )
        for x in SHAPES:
            assert_allclose(norm_of(optimizer.norm).value(as_matrix(new[x])), lr, rtol=ROUNDING)


@every
def test_the_contract_of_custom_optimizers_is_kept(name):
    """States, arguments, shapes, zero gradients and stacks, by the check that users' ones meet."""
    check_optimizer(optimizer_of(name))


@every
def test_the_first_step_goes_down(name):
    for seed in range(5):
        start, gradient = point(seed), slope(seed)
        end = run(optimizer_of(name), start, [gradient], lr=1e-3)[-1]
        for x in SHAPES:
            fall = (gradient.direction[x] * (end[x] - start[x])).reshape(B, -1).sum(axis=1)
            assert (fall < 0).all()


@pytest.mark.parametrize("name", SCALE_FREE)
@pytest.mark.parametrize(("shift", "size"), [(-800.0, 1.0), (800.0, 1e-200), (0.0, 1e200)])
def test_normalized_steps_do_not_depend_on_the_scale(name, shift, size):
    plain = [slope(seed) for seed in range(10)]
    scaled = [slope(seed, log_scale=shift) for seed in range(10)]
    scaled = [Gradient({x: size * G for x, G in g.direction.items()}, g.log_scale) for g in scaled]
    one, other = (run(optimizer_of(name), point(0), g)[-1] for g in (plain, scaled))
    close(other, one, rtol=10 * ROUNDING)  # logarithms near 800 carry 800 units of rounding


@every
@pytest.mark.parametrize("log_scale", [-900.0, 0.0, 50.0])
def test_no_step_leaves_the_range_of_floats(name, log_scale):
    gradients = [slope(seed, log_scale=log_scale) for seed in range(20)]
    # a loss near its infimum is about the square of its gradient, so far as floats go
    loss = np.exp(max(2 * log_scale, -700.0))
    for start in (point(0), point(0, size=0.0), point(0, size=1e-200)):
        for params in run(optimizer_of(name), start, gradients, loss=loss):
            assert all(np.isfinite(x).all() for x in params.values())


@every
def test_a_stack_is_its_instances(name):
    optimizer, gradients = optimizer_of(name), [slope(seed) for seed in range(10)]
    lr, loss = np.array([0.1, 0.02, 0.5]), np.array([0.3, 0.0, 2.0])
    params, state = point(0), optimizer.init(point(0))
    alone = [{x: p[b : b + 1] for x, p in params.items()} for b in range(B)]
    states = [optimizer.init(params) for params in alone]
    for t, g in enumerate(gradients):
        params, state = optimizer.update(params, g, state, lr, loss, t)
        for b in range(B):
            one = slice(b, b + 1)
            part = Gradient(
                {x: G[one] for x, G in g.direction.items()},
                {x: s[one] for x, s in g.log_scale.items()},
            )
            alone[b], states[b] = optimizer.update(alone[b], part, states[b], lr[one], loss[one], t)
    close({x: np.concatenate([p[x] for p in alone]) for x in SHAPES}, params)


@every
def test_an_update_is_a_function_of_its_arguments(name):
    optimizer, start, gradients = optimizer_of(name), point(0), [slope(seed) for seed in range(5)]
    close(run(optimizer, start, gradients)[-1], run(optimizer, start, gradients)[-1], rtol=0)
    # what an optimizer remembers is in its state: from a fresh one the second step is a first step
    again = run(optimizer, run(optimizer, start, gradients[:1])[-1], gradients[1:2])[-1]
    once = run(optimizer, start, gradients[:2])[-1]
    gap = max(np.abs(again[x] - once[x]).max() for x in SHAPES)
    assert gap > ROUNDING or name not in REMEMBERING
    assert gap <= ROUNDING or name not in FORGETTING
