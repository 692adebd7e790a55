"""Gradients below 1e-200 against arithmetic with hundreds of digits, exact ties included."""

import numpy as np
import pytest

from attsvm.training.heads import Linear, Quadratic
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS
from attsvm.training.models.model import evaluate, log_norm
from tests.tolerances import LOG_DOMAIN
from tests.training.models.errors import (
    PAIRS,
    precise_error,
    saturated_case,
    tied_case,
    underflowing_case,
)
from tests.training.models.instances import (
    GRID_HEAD,
    TIES,
    head_named,
    random_batch,
    random_params,
    tied_batch,
)

TINY = -200 * np.log(10.0)


@pytest.mark.parametrize("kind", TIES)
@pytest.mark.parametrize("depth", [20.0, 500.0, 1500.0])
def test_exact_ties(kind, depth, record_property):
    errors = []
    for seed, loss in enumerate(LOSSES.values()):
        error, least = precise_error(tied_case(kind, seed, depth), loss)
        if depth > 20.0:
            assert least < TINY
        assert error <= LOG_DOMAIN, loss.name
        errors.append(error)
    record_property("largest error", float(max(errors)))


@pytest.mark.parametrize("kind", ["tied at top", "all tied at top", "duplicates", "same key"])
@pytest.mark.parametrize("depth", [5.0, 20.0, 500.0])
def test_ties_of_a_bent_head(kind, depth):
    """The tie at the top token ends off it by as much as the others weigh."""
    model, params, batch, _ = tied_case(kind, 3, depth)
    case = model, params, batch, Quadratic(GRID_HEAD[None], 0.5)
    error, least = precise_error(case, LOSSES["logistic"])
    assert error <= LOG_DOMAIN
    assert np.isfinite(least)
    if kind.startswith("all"):
        assert least < -2 * depth + 20


@pytest.mark.parametrize(("name", "head"), PAIRS)
def test_models(name, head):
    """Every model at a gradient of the attention below 1e-200."""
    case = saturated_case(name, head)
    for loss in LOSSES.values():
        error, least = precise_error(case, loss)
        assert error <= LOG_DOMAIN, loss.name
        assert least < TINY


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.trains_head])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_a_trained_head_where_slopes_underflow(name, loss):
    case = underflowing_case(name)
    found = evaluate(*case, LOSSES[loss])
    assert ((found.margins > 999) & (found.margins < 1004)).all()
    assert found.gradient.log_scale["v"].max() < 2 * TINY
    assert precise_error(case, LOSSES[loss])[0] <= LOG_DOMAIN


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
