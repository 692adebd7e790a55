"""The fused kernel against the plain loop: the same run to rounding, the same bits when cut."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attsvm import BadTokens, ConvergenceWarning, Tokens
from attsvm.api import train
from attsvm.datasets.instances import sphere_arrays
from attsvm.training import task as token_task
from attsvm.training.loop import COLUMNS, grid
from attsvm.training.losses import LOSSES
from attsvm.training.models.gradient import fused
from attsvm.training.path import recorded
from tests.tolerances import ROUNDING

# Of a run of some hundred steps, each of which rounds.
NEAR = 1e-12


def stack(count, *, kind="plain", n=4, T=5, d=6):
    """Instances of one kind and their heads."""
    tokens, heads = [], []
    for seed in range(count):
        made = sphere_arrays(n, T, d, seed=seed)
        X, z, v = made["X"], made["z"], made["v"]
        more = {}
        if kind == "masked":
            more["mask"] = np.arange(T) < np.arange(n)[:, None] % 3 + T - 2
        if kind == "tied":  # tokens 1 and 2 have the same score, to the last bit
            v = np.eye(d)[0]
            X[:, 2, 0] = X[:, 1, 0]
        if kind == "same key":
            more["keys"] = X.copy()
            more["keys"][:, 3] = more["keys"][:, 1]
        if kind == "no query":
            z[1] = 0.0
        if kind == "far":
            X = X + 1e6
        tokens.append(Tokens(X, queries=z, labels=made["y"], **more))
        heads.append(v)
    return tokens, np.array(heads)


def prompts(count):
    made = [sphere_arrays(4, 5, 6, seed=s) for s in range(count)]
    return [Tokens(a["X"], labels=a["y"]) for a in made], np.array([a["v"] for a in made])


def plainly(tokens, **options):
    """The run of the plain loop, which takes over when there is a function that may end it."""
    return train(tokens, stop=lambda step, params, found: False, **options)


def same(one, two, near=NEAR):
    """Both paths are one run, up to rounding."""
    assert one.config == two.config and one.diverged == two.diverged
    for name in ("steps", "top", "changed"):
        assert_array_equal(getattr(one, name), getattr(two, name))
    for name, block in two.weights.items():
        inner = tuple(range(2, block.ndim))
        off = np.abs(one.weights[name] - block).max(axis=inner)
        assert (off <= near * np.abs(block).max(axis=inner)).all()
    assert_allclose(one.loss, two.loss, rtol=near)
    assert_allclose(one.top_attention, two.top_attention, rtol=near)
    for name in ("log_gradient", "clock"):
        assert_allclose(getattr(one, name), getattr(two, name), rtol=near, atol=near)


def equal(one, two):
    """Both paths are the same bits."""
    for name in (*COLUMNS, "changed"):
        assert_array_equal(getattr(one, name), getattr(two, name))
    for name, block in two.weights.items():
        assert_array_equal(one.weights[name], block)


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
    how = {"head": heads, "optimizer": optimizer, "loss": loss, "steps": 300, "init": "normal:1"}
    same(train(tokens, **how), plainly(tokens, **how))


@pytest.mark.parametrize("kind", ["masked", "tied", "same key", "no query", "far"])
@pytest.mark.parametrize("lr", [0.1, 3.0])
def test_kinds_of_tokens(kind, lr):
    tokens, heads = stack(3, kind=kind)
    how = {"head": heads, "steps": 300, "lr": lr}
    same(train(tokens, **how), plainly(tokens, **how))


@pytest.mark.parametrize(
    "how",
    [
        {"schedule": "sqrt"},
        {"schedule": lambda step: 1.0 if step % 3 else 0.0},
        {"decay": 0.05},
        {"optimizer": "gd", "decay": 0.05, "lr": 1.0},
        {"init": "uniform", "lr": 2.0},
        {"steps": 0},
        {"steps": 1},
    ],
    ids=lambda how: ", ".join(
        f"{k} function" if callable(a) else f"{k} {a}" for k, a in how.items()
    ),
)
def test_schedules_decay_and_lengths(how):
    tokens, heads = stack(2)
    how = {"steps": 300, "head": heads} | how
    same(train(tokens, **how), plainly(tokens, **how))


def test_prompts_and_sizes(only_fused, monkeypatch):
    runs = []
    for tokens, heads in (prompts(3), stack(1, n=1, T=2, d=1), stack(2, n=5, T=11, d=9)):
        model = "prompt" if tokens[0].queries.shape[1] == 1 and len(tokens) == 3 else "weight"
        how = {"model": model, "head": heads, "steps": 200}
        runs.append((tokens, how, train(tokens, **how)))
    monkeypatch.undo()
    for tokens, how, path in runs:
        same(path, plainly(tokens, **how))


@pytest.mark.parametrize("optimizer", ["gd", "ngd"])
@pytest.mark.parametrize("cut", [0, 1, 10, 61, 136, 137])
def test_a_cut_run_is_the_whole_one_bit_for_bit(only_fused, monkeypatch, tmp_path, optimizer, cut):
    tokens, heads = stack(2, kind="tied")
    how = {"optimizer": optimizer, "head": heads, "init": "normal:0.5", "schedule": "sqrt"}
    whole = train(tokens, steps=137, **how)
    monkeypatch.setattr(token_task, "_CALL", 3e4)  # a few steps a call
    equal(train(tokens, steps=137, **how), whole)
    first = train(tokens, steps=cut, **how)
    rest = train(tokens, head=heads, steps=137 - cut, start=first)
    equal(rest, whole)


def test_a_path_goes_on_with_its_own_tokens_only():
    tokens, heads = stack(2)
    path = train(tokens, head=heads, steps=5)
    for other in (tokens[:1], stack(2, n=3)[0], stack(2, d=7)[0]):
        with pytest.raises(BadTokens, match="of another size"):
            train(other, head=np.ones(other[0].d), steps=5, start=path)


@pytest.mark.parametrize(
    ("how", "scale"),
    [({"lr": 1e308}, 1.0), ({"optimizer": "gd", "loss": "exponential", "lr": 1e308}, 1e3)],
)
def test_the_end_of_the_floats_is_found_at_its_step(how, scale):
    tokens, heads = stack(2)
    how = {"head": scale * heads, "steps": 40, "init": "normal:1"} | how
    found = []
    for run in (train, plainly):
        with pytest.warns(ConvergenceWarning, match="left the range of floats"):
            found.append(run(tokens, **how))
    assert found[0].diverged >= 0
    assert np.isfinite(found[0].weights["W"]).all()
    same(*found)


def test_a_loss_beyond_the_floats_has_no_path():
    tokens, heads = stack(1)
    with (
        pytest.warns(ConvergenceWarning),
        pytest.raises(BadTokens, match="not finite at the start"),
    ):
        train(tokens, head=1e6 * heads, loss="exponential", steps=3)


def test_a_stationary_start_is_refused(only_fused):
    tokens, heads = stack(2, T=1)
    with pytest.raises(BadTokens, match="instance 0 is exactly zero at the start"):
        train(tokens, head=heads, steps=10)


def test_progress_goes_up_to_one(only_fused, monkeypatch):
    monkeypatch.setattr(token_task, "_CALL", 3e4)
    tokens, heads = stack(2)
    seen = []
    train(tokens, head=heads, steps=100, progress=seen.append)
    assert len(seen) > 3 and sorted(seen) == seen and seen[-1] == 1.0


@pytest.mark.parametrize("loss", fused.CODES)
def test_compiled_losses_are_the_losses(loss):
    code = fused.CODES.index(loss)
    x = np.concatenate([np.linspace(-30, 30, 61), [-600.0, 600.0, 1.0 + 1e-9]])
    if code != fused.SQUARED:  # its slope is the residual
        sign, log = LOSSES[loss].slope(x)
        factor, power = np.array([fused.slope_of(code, float(u)) for u in x]).T
        assert_array_equal(np.sign(factor), sign)
        assert_allclose(np.log(np.abs(factor)) + power, log, rtol=0, atol=1e-12)
    told = 1.0 - x if code == fused.SQUARED else x
    value = [fused.value_of(code, float(u)) for u in told]
    assert_allclose(value, LOSSES[loss].value(x), rtol=ROUNDING)


def test_the_grid_is_that_of_the_path():
    assert grid(0, 20_000).tolist() == [s for s in range(20_001) if recorded(s)]
    assert grid(17, 16).tolist() == []
    assert grid(100, 103).tolist() == [s for s in range(100, 104) if recorded(s)]
