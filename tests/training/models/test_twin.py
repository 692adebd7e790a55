"""The compiled kernels against their NumPy twin."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attsvm.training.heads import Linear, Quadratic
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS
from attsvm.training.models.gradient import attention
from attsvm.training.optimizers.graded.wide import logs_of
from tests.tolerances import ROUNDING
from tests.training.models.instances import (
    GRID_HEAD,
    TIES,
    head_named,
    random_batch,
    random_params,
    saturated,
    tied_batch,
    vectors,
)
from tests.twins import attention as twin

# Logits reach 1e5, and log s carries their rounding: |logit| units in the last place.
SIZES = ({}, {"B": 1}, {"B": 1, "n": 1}, {"T": 1}, {"T": 2, "d": 1, "dq": 1}, {"mask": True})
BENT = (*TIES, "tied at top", "all tied at top")


def compare(batch, W, head, loss):
    """Both routes on one batch: attend, then pull from the same log attention."""
    arrays = (batch.keys, batch.values, batch.queries, batch.present)
    logs, top, pooled = attention.attend(*arrays, W)
    other, same_top, same_pooled = twin.attend(*arrays, W)
    assert_array_equal(top, same_top)
    size = np.abs(np.where(batch.present, logs, 0.0)).max() + 1.0
    assert_allclose(logs, other, rtol=0, atol=ROUNDING * size)
    assert_allclose(pooled, same_pooled, rtol=0, atol=ROUNDING * size)
    assert (np.exp(logs).sum(axis=2) <= 1 + ROUNDING).all()
    sign, log_slope = loss.slope(batch.labels * head.value(pooled))
    slopes = np.ascontiguousarray(batch.labels[:, :, None] * head.gradient(pooled))
    curve = -2 * head.penalty if isinstance(head, Quadratic) else 0.0
    at = attention.Slopes(logs, top, slopes, sign, log_slope, curve * batch.labels)
    _compare_terms(arrays, at)
    G, M = attention.pull(*arrays, at)
    H, N = twin.pull(*arrays, at)
    assert_allclose(M, N, rtol=ROUNDING)
    assert_allclose(G, H, rtol=0, atol=ROUNDING)
    return G, M


def _compare_terms(arrays, at):
    """The gradient token by token, by both routes."""
    D, share, power = attention.terms(*arrays, at)
    E, other, height = twin.terms(*arrays, at)
    assert_array_equal(D, E)
    logs = logs_of(other, height)
    assert_array_equal(np.sign(share), np.sign(other))
    assert_allclose(logs_of(share, power), logs, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("head", ["linear", "relu", "quadratic"])
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0, 1e3, 1e4])
def test_random_stacks(size, head, scale):
    batch = random_batch(5, **size)
    W = random_params(MODELS["weight"], batch, 5, scale)["W"]
    for loss in LOSSES.values():
        with np.errstate(under="ignore"):
            G, M = compare(batch, W, head_named(head, batch, 5), loss)
        if batch.keys.shape[2] == 1:
            assert not G.any()
            assert np.isneginf(M).all()
        else:
            most = np.abs(G).max(axis=(1, 2))
            assert ((most >= 0.5) & (most < 1)).all()


@pytest.mark.parametrize("kind", TIES)
@pytest.mark.parametrize("depth", [1.0, 30.0, 800.0])
def test_ties(kind, depth):
    W = random_params(MODELS["weight"], random_batch(6), 6)["W"]
    batch = tied_batch(kind, 6, W, depth)
    for loss in LOSSES.values():
        _, M = compare(batch, W, Linear(GRID_HEAD[None]), loss)
        # From the rounded margin, as here, the slope of the squared loss is 0 at its minimum.
        assert np.isfinite(M).all() or (kind, loss.name) == ("at minimum", "squared")


@pytest.mark.parametrize("kind", BENT)
@pytest.mark.parametrize("depth", [1.0, 30.0, 800.0])
def test_ties_of_a_bent_head(kind, depth):
    W = random_params(MODELS["weight"], random_batch(6), 6)["W"]
    batch = tied_batch(kind, 6, W, depth)
    _, M = compare(batch, W, Quadratic(GRID_HEAD[None], 0.5), LOSSES["logistic"])
    assert np.isfinite(M).all()


def test_top_token_is_found_where_scores_round():
    """Keys far from the origin: scores round by more than their differences."""
    batch = random_batch(8, d=4)
    W = random_params(MODELS["weight"], batch, 8)["W"]
    batch, top = saturated(batch, vectors(MODELS["weight"], {"W": W}, batch.queries), 50.0, 8)
    batch.keys[:] = np.round(batch.keys * 64) / 64 + 2.0**46
    for route in (attention, twin):
        logs, found, _ = route.attend(batch.keys, batch.values, batch.queries, batch.present, W)
        assert_array_equal(found, top[:, 0])
        assert (logs <= 0).all()
