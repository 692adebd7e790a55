"""The kernel of factors against the plain loop and whole arrays, with and without a ridge."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import BadTokens, Unsupported, outcome
from attsvm.api import train
from attsvm.theory.convergence.prover import covered_step
from attsvm.training import task as token_task
from attsvm.training.losses import LOSSES
from attsvm.training.models.gradient import fused
from attsvm.training.models.gradient.attention import Slopes
from attsvm.training.models.gradient.batch import Batch
from tests.training.test_fused import equal, plainly, same, stack
from tests.twins import attention as twin

EPS = 2.0**-52
# With steps of 0.1 factors swing across the valley of the loss, and the swings grow what each step
# rounds: a start changed by 1e-15 ends 0.05 away after 200 of them. Shorter steps do not swing.
FACTORS = {"model": "factored", "lr": 0.03}


@pytest.fixture
def only_fused(monkeypatch):
    """A loop that cannot evaluate: what is trained is trained by the kernel."""

    def refuse(*arguments):
        raise AssertionError("the plain loop was used")

    monkeypatch.setattr(token_task, "evaluate", refuse)


@pytest.mark.parametrize("optimizer", ["gd", "ngd"])
@pytest.mark.parametrize("loss", fused.CODES)
def test_losses_and_rules(optimizer, loss):
    tokens, heads = stack(3)
    how = FACTORS | {
        "head": heads,
        "optimizer": optimizer,
        "loss": loss,
        "steps": 200,
        "init": "normal:1",
    }
    same(train(tokens, **how), plainly(tokens, **how))


@pytest.mark.parametrize("kind", ["masked", "tied", "same key", "no query", "far"])
def test_kinds_of_tokens(kind):
    tokens, heads = stack(3, kind=kind)
    how = FACTORS | {"head": heads, "steps": 200}
    same(train(tokens, **how), plainly(tokens, **how))


@pytest.mark.parametrize(
    "how",
    [
        {"schedule": "sqrt"},
        {"decay": 0.05},
        {"width": 1},
        {"width": 9, "init": "uniform"},
        {"options": {"ridge": EPS}},
        {"options": {"ridge": 0.01}, "decay": 0.05},
        {"steps": 0},
        {"steps": 1},
    ],
    ids=str,
)
def test_schedules_decay_width_and_ridge(how):
    tokens, heads = stack(2)
    how = FACTORS | {"steps": 200, "head": heads} | how
    same(train(tokens, **how), plainly(tokens, **how))


@pytest.mark.parametrize("ridge", [0.0, EPS])
def test_single_steps_agree_to_rounding_wherever_a_run_is(ridge):
    tokens, heads = stack(2, n=5, T=5, d=6)
    how = {"model": "factored", "head": heads, "options": {"ridge": ridge}}
    path = train(tokens, steps=2000, **how)
    for k in range(0, len(path.steps), 10):
        start = {name: block[k] for name, block in path.weights.items()}
        same(*(run(tokens, steps=1, init=start, **how) for run in (train, plainly)), 1e-12)


def test_a_factor_that_starts_at_zero():
    tokens, heads = stack(1)
    start = {"K": np.random.default_rng(0).standard_normal((6, 6)), "Q": np.zeros((6, 6))}
    how = FACTORS | {"head": heads, "steps": 50, "init": start}
    same(train(tokens, **how), plainly(tokens, **how))


@pytest.mark.parametrize("ridge", [0.0, EPS])
def test_the_same_steps_from_whole_arrays(only_fused, ridge):
    tokens, heads = stack(3, n=5, T=5, d=4)
    rng = np.random.default_rng(1)
    K, Q = (rng.standard_normal((3, 4, 4)) for _ in range(2))
    start = {"K": K, "Q": Q}
    how = FACTORS | {"head": heads, "steps": 200, "init": start, "options": {"ridge": ridge}}
    path = train(tokens, **how)
    for _ in range(200):
        G, scale = _pulled(tokens, heads, K @ Q.transpose(0, 2, 1))
        # Sizes here stay above 1e-300, so that they may be taken as they are.
        G = np.exp(scale)[:, None, None] * G
        at_K, at_Q = G @ Q + 2 * ridge * K, G.transpose(0, 2, 1) @ K + 2 * ridge * Q
        K = K - 0.03 * at_K / np.linalg.norm(at_K, axis=(1, 2), keepdims=True)
        Q = Q - 0.03 * at_Q / np.linalg.norm(at_Q, axis=(1, 2), keepdims=True)
    assert_allclose(path.weights["K"][-1], K, rtol=1e-12, atol=1e-12)
    assert_allclose(path.weights["Q"][-1], Q, rtol=1e-12, atol=1e-12)


def _pulled(tokens, heads, W):
    """The gradient in W by the plain twin of the kernels."""
    b = Batch.of(tokens)
    arrays = b.keys, b.values, b.queries, b.present
    logs, top, pooled = twin.attend(*arrays, W)
    sign, log_slope = LOSSES["logistic"].slope(b.labels * np.einsum("bne,be->bn", pooled, heads))
    slopes = b.labels[:, :, None] * heads[:, None, :]
    return twin.pull(*arrays, Slopes(logs, top, slopes, sign, log_slope, np.zeros_like(sign)))


def test_gradients_far_below_the_smallest_float(only_fused):
    tokens, heads = stack(2)
    path = train(tokens, model="factored", head=heads, steps=3000)
    assert (path.log_gradient[-1] < -800).all()
    moved = path.weights["K"][-1] - path.weights["K"][0]
    assert np.isfinite(moved).all() and (np.linalg.norm(moved, axis=(1, 2)) > 1).all()


@pytest.mark.parametrize("cut", [0, 1, 61, 137])
def test_a_cut_run_is_the_whole_one_bit_for_bit(only_fused, monkeypatch, cut):
    tokens, heads = stack(2, kind="tied")
    how = FACTORS | {"head": heads, "schedule": "sqrt", "options": {"ridge": 1e-9}}
    whole = train(tokens, steps=137, **how)
    monkeypatch.setattr(token_task, "_CALL", 3e4)  # a few steps a call
    equal(train(tokens, steps=137, **how), whole)
    first = train(tokens, steps=cut, **how)
    equal(train(tokens, head=heads, steps=137 - cut, start=first), whole)


def test_a_ridge_of_a_weight_run_is_the_plain_loop():
    tokens, heads = stack(2)
    how = {"head": heads, "steps": 100, "options": {"ridge": 0.01}}
    path = train(tokens, **how)
    same(path, plainly(tokens, **how))
    assert np.isnan(path.clock[-1]).all()
    W = path.weights["W"][-1]
    # With a ridge the loss has a minimum, near which steps of constant length stay.
    assert (np.linalg.norm(W, axis=(1, 2)) < 10).all()


def test_no_theorem_covers_a_ridge():
    tokens, heads = stack(1)
    how = {"head": heads, "steps": 5}
    assert covered_step(train(tokens, **how).config, 0) == (0.1, True)
    ridged = train(tokens, options={"ridge": 1e-300}, **how)
    with pytest.raises(Unsupported, match="ridge"):
        covered_step(ridged.config, 0)
    said = outcome(ridged, tokens[0], heads[0]).limit.premises
    assert [p for p in said if "decay" in p.name and p.holds is False]


def test_a_bad_ridge_is_refused():
    tokens, heads = stack(1)
    for ridge in (-1.0, np.inf):
        with pytest.raises(Unsupported, match="ngd has the ridge"):
            train(tokens, head=heads, options={"ridge": ridge})


def test_a_stationary_start_is_refused(only_fused):
    tokens, heads = stack(2)
    with pytest.raises(BadTokens, match="instance 0 is exactly zero at the start"):
        train(tokens, **FACTORS, head=heads, steps=10, init="zero")
