"""The squared loss where outputs meet its target 1, or nearly: exact on every way of training."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attsvm import Tokens, train
from attsvm.training import task as token_task
from attsvm.training.heads import Linear
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS
from attsvm.training.models.gradient.batch import Batch, shortfalls
from tests.tolerances import LOG_DOMAIN, ROUNDING
from tests.training.models.errors import precise_error, saturated_case
from tests.training.models.instances import GRID_HEAD, vectors
from tests.training.squared_evidence import KINDS, arrays, cosines, gradient_error, trained
from tests.training.test_fused import plainly, same

SQUARED = LOSSES["squared"]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_at_the_end_of_a_run(kind):
    """Both by whole arrays and by the fused kernel; the norm goes on growing by the step."""
    (tokens,), path = trained(1, KINDS[kind])
    W = path.matrices()[:, 0]
    error, _ = gradient_error(tokens, W[-1], np.eye(tokens.d)[0])
    assert error <= LOG_DOMAIN
    assert np.linalg.norm(W[-1]) > 0.95 * 0.1 * path.steps[-1]


def test_mixed_runs_end_at_half_margins():
    tokens, path = trained(6, KINDS["mixed"])
    ends = enumerate(path.matrices()[-1])
    half, plain = np.array([cosines(tokens[b], W, path.selection[b]) for b, W in ends]).T
    assert half.min() > 0.999 and np.median(plain) < 0.98


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("depth", [20.0, 500.0])
def test_every_model_at_the_target(name, depth):
    model, params, batch, _ = saturated_case(name, "linear", depth=depth)
    grid = np.random.default_rng(1).integers(-8, 9, batch.values.shape) / 4.0
    w = vectors(model, params, batch.queries)
    logits = np.einsum("bntd,bhnd->hbnt", batch.keys, w)
    H = len(logits)  # attention heads, of which each has its share of the target
    for top in np.where(batch.present, logits, -np.inf).argmax(axis=3)[..., None, None]:
        at = np.take_along_axis(grid, top, axis=2)
        at[..., 0] += batch.labels[:, :, None] / H - at @ GRID_HEAD  # its entry of the head is 1
        np.put_along_axis(grid, top, at, axis=2)
    batch.values[:] = grid
    if model.trains_head:
        params["v"][:] = GRID_HEAD
    head = None if model.trains_head else Linear(np.tile(GRID_HEAD, H)[None])
    error, least = precise_error((model, params, batch, head), SQUARED)
    assert error <= LOG_DOMAIN and least < -1.5 * depth


@pytest.mark.parametrize("model", ["weight", "prompt", "factored"])
def test_the_kernels_are_the_plain_loop(model, monkeypatch):
    X, z, y, v = arrays(0, KINDS["met"], 2, 4, 5)
    tokens = Tokens(X, labels=y) if model == "prompt" else Tokens(X, queries=z, labels=y)
    how = {"model": model, "head": v, "loss": "squared", "lr": 0.1, "steps": 1000}
    if model == "factored":  # long runs of factors swing: a short one from far out
        W = train(tokens, **how | {"model": "weight"}).matrices()[-1, 0]
        U, size, V = np.linalg.svd(W)
        how |= {"init": {"K": U * np.sqrt(size), "Q": V.T * np.sqrt(size)}, "lr": 0.03, "steps": 30}
    plain = plainly(tokens, **how)
    assert plain.loss[-1] < 1e-30
    monkeypatch.setattr(token_task, "evaluate", None)  # what is trained is trained by the kernel
    same(train(tokens, **how), plain, near=LOG_DOMAIN)


@pytest.mark.parametrize("optimizer", ["ngd", "sign", "polyak"])
def test_recorded_losses_are_small_numbers_not_zero(optimizer):
    """One input, two tokens: 1 − f = (1 − γ)/(1 + e^m), m the difference of the logits."""
    tokens = Tokens([[[1.0, 0.0], [0.25, 1.0]]], labels=[1])
    path = train(
        tokens,
        model="prompt",
        optimizer=optimizer,
        head=[1.0, 0.0],
        loss="squared",
        lr=0.5,
        steps=300,
    )
    m = path.weights["p"][:, 0] @ [0.75, -1.0]
    r = 0.75 / (1.0 + np.exp(m))
    assert_allclose(path.loss[:, 0], 0.5 * r**2, rtol=LOG_DOMAIN)
    assert path.loss[-1, 0] < 1e-40


def test_shortfalls_are_exact_sums():
    """1 − y v·x, rounded once, at values that nearly are 1; 0 where they are."""
    rng = np.random.default_rng(0)
    v, y = rng.standard_normal(7), rng.choice([-1.0, 1.0], 40)
    X = rng.standard_normal((40, 3, 7))
    v[2], y[0] = 0.25, 1.0
    for t in range(2):  # nearly 1, up to some roundings
        X[:, t] += (y - X[:, t] @ v)[:, None] / 7 / v
    X[0, 0] = 0.0
    X[0, 0, 2] = 4.0
    short = shortfalls(Batch.of(Tokens(X, labels=y)), v[None], 1.0)[0]
    for (i, t), found in np.ndenumerate(short):
        terms = (Fraction(a) * Fraction(b) for a, b in zip(X[i, t], v, strict=True))
        exact = float(1 - int(y[i]) * sum(terms))
        assert found == exact if t < 2 else abs(found - exact) <= ROUNDING * abs(exact)
    assert short[0, 0] == 0.0 and 0 < np.abs(short[1:, :2]).max() < 1e-13


def test_masked_tokens_and_huge_values_have_shortfalls():
    batch = Batch.of(Tokens(np.full((1, 2, 2), 1e-10), labels=[1], mask=[[True, False]]))
    assert_array_equal(shortfalls(batch, np.array([[1e302, -1e302]]), 1.0), [[[1.0, 0.0]]])


def test_a_loss_of_ones_own_meets_its_target_exactly():
    """ℓ = ½(½ − x)² with `from_best`, by whole arrays; without it the gradient ends at zero."""
    own = replace(
        SQUARED, name="half", code=None, best=0.5, value=lambda x: 0.5 * (0.5 - x) ** 2,
        slope=lambda x: (np.sign(x - 0.5), np.log(np.maximum(np.abs(x - 0.5), 1e-300))),
        from_best=lambda sign, log: (0.5 * np.exp(2.0 * log), -sign, log),
    )  # fmt: skip
    X, z, y, v = arrays(0, KINDS["met"], 2, 3, 4)
    how = {"head": v, "lr": 1.0, "steps": 300}
    path = train(Tokens(0.5 * X, queries=z, labels=y), loss=own, **how)
    twice = train(Tokens(X, keys=0.5 * X, queries=z, labels=y), loss="squared", **how)
    assert_allclose(path.weights["W"], twice.weights["W"], rtol=LOG_DOMAIN, atol=LOG_DOMAIN)
