"""Gradients below 1e-200 against arithmetic with hundreds of digits, exact ties included."""

import numpy as np
import pytest

from attsvm.heads.linear import Linear
from attsvm.heads.quadratic import Quadratic
from attsvm.losses import LOSSES
from attsvm.models import MODELS
from attsvm.models.model import evaluate, log_norm
from tests.models.instances import (
    GRID_HEAD,
    TIES,
    for_model,
    head_named,
    random_batch,
    random_params,
    saturated,
    tied_batch,
)
from tests.models.precise import gradient

# Logits of size L round by L units in the last place, and so does the gradient, relatively. The
# largest error seen is 7e-13, in a logarithm of size 1500.
PRECISE = 2e-12
# Near its minimum the squared loss has slope 2⁻²⁰ from margins 1 + 2⁻²⁰ that round.
NEAR_MINIMUM = 2e-9
TINY = -200 * np.log(10.0)


def worst(model, params, batch, head, loss):
    """The largest error of a direction or of a log norm over blocks and instances, and the least
    log norm."""
    found = evaluate(model, params, batch, head, loss).gradient
    error, least = 0.0, np.inf
    for b, blocks in enumerate(gradient(model, params, batch, head, loss)):
        for name, (unit, log_size) in blocks.items():
            G = found.direction[name][b]
            size = np.linalg.norm(G)
            if log_size == -np.inf:
                assert size == 0
                continue
            assert size > 0, f"block {name} of instance {b} is lost, its log norm is {log_size}"
            mine = np.log(size) + found.log_scale[name][b]
            error = max(error, np.abs(G / size - unit).max(), abs(mine - log_size))
            least = min(least, log_size)
    return error, least


@pytest.mark.parametrize("kind", TIES)
@pytest.mark.parametrize("depth", [20.0, 500.0, 1500.0])
def test_exact_ties(kind, depth, record_property):
    model = MODELS["weight"]
    errors = []
    for seed, loss in enumerate(LOSSES.values()):
        params = random_params(model, random_batch(seed, B=2), seed)
        batch = tied_batch(kind, seed, params["W"], depth)
        error, least = worst(model, params, batch, Linear(GRID_HEAD[None]), loss)
        if depth > 20.0:
            assert least < TINY
        loose = kind == "near minimum" and loss.name == "squared"
        assert error <= (NEAR_MINIMUM if loose else PRECISE), loss.name
        errors.append(error)
    record_property("largest error", float(max(errors)))


@pytest.mark.parametrize("kind", ["tied at top", "all tied at top", "duplicates", "same key"])
@pytest.mark.parametrize("depth", [5.0, 20.0, 500.0])
def test_ties_of_a_bent_head(kind, depth):
    """The tie at the top token ends off it by as much as the others weigh."""
    model = MODELS["weight"]
    params = random_params(model, random_batch(3, B=2), 3)
    batch = tied_batch(kind, 3, params["W"], depth)
    head = Quadratic(GRID_HEAD[None], 0.5)
    error, least = worst(model, params, batch, head, LOSSES["logistic"])
    assert error <= PRECISE
    assert np.isfinite(least)
    if kind.startswith("all"):
        assert least < -2 * depth + 20


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("head", ["linear", "relu", "quadratic"])
def test_models(name, head):
    """Every model at a gradient of the attention below 1e-200, and of v where ℓ' underflows."""
    model = MODELS[name]
    if model.trains_head and head != "linear":
        pytest.skip("a trained head is linear")
    plain = for_model(model, random_batch(11, B=2, mask=True))
    params = random_params(model, plain, 11)
    batch, top = saturated(plain, model.matrix(params), 600.0, 11)
    np.put_along_axis(batch.present, top[:, :, None], True, axis=2)
    reader = None if model.trains_head else head_named(head, batch, 11)
    for loss in LOSSES.values():
        error, least = worst(model, params, batch, reader, loss)
        assert error <= PRECISE, loss.name
        assert least < TINY
    if model.trains_head:
        # Values moved along v until every margin is between 1000 and 1003: the slopes are below
        # 1e-400 and alike, so that every input counts in the direction of v.
        v = params["v"]
        margins = 1000 + 3 * np.random.default_rng(11).random(batch.values.shape[:3])
        short = batch.labels[:, :, None] * margins - np.einsum("bnte,be->bnt", batch.values, v)
        square = np.square(v).sum(axis=1)[:, None, None]
        batch.values[:] += (short / square)[..., None] * v[:, None, None, :]
        for loss in (LOSSES["logistic"], LOSSES["exponential"]):
            found = evaluate(model, params, batch, None, loss)
            assert ((found.margins > 999) & (found.margins < 1004)).all()
            assert found.gradient.log_scale["v"].max() < 2 * TINY
            error, _ = worst(model, params, batch, None, loss)
            assert error <= PRECISE, loss.name


def test_all_tied_is_exactly_zero():
    model = MODELS["weight"]
    for depth in (0.0, 10.0, 900.0):
        params = random_params(model, random_batch(2), 2)
        batch = tied_batch("all tied, all inputs", 2, params["W"], depth)
        for loss in LOSSES.values():
            found = evaluate(model, params, batch, Linear(GRID_HEAD[None]), loss).gradient
            assert not found.direction["W"].any()
            assert np.isneginf(found.log_scale["W"]).all()
            assert np.isneginf(log_norm(found)).all()


def test_terms_that_cancel_leave_exactly_zero():
    """Two equal inputs with opposite labels under the linear loss."""
    batch = random_batch(4, n=2)
    for array in (batch.keys, batch.values, batch.queries):
        array[:, 1] = array[:, 0]
    batch.labels[:] = [1.0, -1.0]
    params = random_params(MODELS["weight"], batch, 4)
    head = head_named("linear", batch, 4)
    found = evaluate(MODELS["weight"], params, batch, head, LOSSES["linear"]).gradient
    assert np.isneginf(found.log_scale["W"]).all()
    assert np.isneginf(log_norm(found)).all()
