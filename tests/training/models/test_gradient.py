"""The gradient against central differences, and what must not change it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm.training.heads import Linear
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import evaluate, log_norm
from tests.tolerances import FINITE_DIFFERENCE, ROUNDING
from tests.training.models.errors import PAIRS, central_errors, plain, unsaturated_case
from tests.training.models.instances import for_model, head_named, random_batch, random_params


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("name", "head"), PAIRS)
def test_central_differences(name, head, loss):
    case = unsaturated_case(name, head)
    errors = central_errors(case, LOSSES[loss])
    assert set(errors) == set(case[1])
    assert all(error <= FINITE_DIFFERENCE for error in errors.values()), errors


def same(first, second):
    """Whether two gradients have equal direction and size."""
    assert_allclose(log_norm(first), log_norm(second), rtol=0, atol=ROUNDING)
    for name, G in first.direction.items():
        H = second.direction[name]
        factor = np.exp(second.log_scale[name] - first.log_scale[name])
        H = H * factor.reshape(-1, *[1] * (H.ndim - 1))
        assert_allclose(G, H, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("scale", [1.0, 50.0])
@pytest.mark.parametrize("name", MODELS)
def test_order_of_tokens_and_inputs_and_instances(name, scale):
    model = MODELS[name]
    batch = for_model(model, random_batch(22, mask=True))
    params = random_params(model, batch, 22, scale)
    head = None if model.trains_head else head_named("linear", batch, 22, model)
    first = evaluate(model, params, batch, head, LOSSES["logistic"]).gradient
    rng = np.random.default_rng(22)
    inputs, tokens = rng.permutation(batch.keys.shape[1]), rng.permutation(batch.keys.shape[2])
    keys, values, present = (
        np.ascontiguousarray(array[:, inputs][:, :, tokens])
        for array in (batch.keys, batch.values, batch.present)
    )
    queries = np.ascontiguousarray(batch.queries[:, inputs])
    mixed = Batch(keys, values, queries, batch.labels[:, inputs], present)
    same(first, evaluate(model, params, mixed, head, LOSSES["logistic"]).gradient)
    for b in range(batch.size):
        alone = Batch(*(getattr(batch, field)[b : b + 1] for field in Batch.__annotations__))
        part = {block: value[b : b + 1] for block, value in params.items()}
        one = None if head is None else Linear(head.v[b : b + 1])
        lone = evaluate(model, part, alone, one, LOSSES["logistic"]).gradient
        assert_allclose(log_norm(lone), log_norm(first)[b : b + 1], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("scale", [1.0, 50.0, 1000.0])
def test_a_constant_added_to_all_keys(scale):
    """Keys on a grid, so that the sum is exact; the constant is large against them."""
    model = MODELS["weight"]
    batch = random_batch(23)
    batch.keys[:] = np.round(batch.keys * 256) / 256
    params = random_params(model, batch, 23, scale)
    head = head_named("quadratic", batch, 23)
    first = evaluate(model, params, batch, head, LOSSES["logistic"]).gradient
    rng = np.random.default_rng(23)
    batch.keys[:] += rng.integers(-1000, 1000, (*batch.keys.shape[:2], 1, batch.keys.shape[3]))
    same(first, evaluate(model, params, batch, head, LOSSES["logistic"]).gradient)


@pytest.mark.parametrize(("loss", "lr"), [("logistic", 0.5), ("squared", 0.1)])
def test_prompt_and_weight_train_alike(loss, lr):
    """With one query z for all inputs, W(t) = W(0) + (q(t) − q(0)) zᵀ/‖z‖², q the prompt trained
    with step η‖z‖².

    The steps are ones at which descent is stable: with 0.5 the squared loss oscillates, and a last
    digit of W(0) decides where it goes.

    Theory: the equivalence of tuning W and tuning the prompt [tarzanagh2023maxmargin].
    """
    batch = random_batch(24)
    z = np.random.default_rng(24).standard_normal((batch.size, 1, batch.shape[1]))
    batch = Batch(batch.keys, batch.values, np.repeat(z, 4, axis=1), batch.labels, batch.present)
    prompt = for_model(MODELS["prompt"], batch)
    head = head_named("linear", batch, 24)
    W = random_params(MODELS["weight"], batch, 24)["W"]
    start, square = W, np.square(z[:, 0]).sum(axis=1)
    q = first = np.einsum("bdq,bq->bd", W, z[:, 0])
    for _ in range(300):
        step = plain(evaluate(MODELS["weight"], {"W": W}, batch, head, LOSSES[loss]).gradient)
        W = W - lr * step["W"]
        step = plain(evaluate(MODELS["prompt"], {"p": q}, prompt, head, LOSSES[loss]).gradient)
        q = q - lr * square[:, None] * step["p"]
    assert np.abs(q - first).max() > 0.5
    expected = start + np.einsum("bd,bq->bdq", (q - first) / square[:, None], z[:, 0])
    assert_allclose(W, expected, rtol=0, atol=ROUNDING * np.abs(W).max())
