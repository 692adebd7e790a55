"""The fused kernels against the plain loop: the same run to rounding, the same bits when cut."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attsvm import BadTokens, ConvergenceWarning, Tokens, Unsupported, outcome
from attsvm.api import train
from attsvm.datasets.instances import sphere_arrays
from attsvm.theory.convergence.prover import covered_step
from attsvm.training import task as token_task
from attsvm.training.loop import COLUMNS, grid
from attsvm.training.losses import LOSSES
from attsvm.training.models.gradient import fused
from attsvm.training.models.gradient.attention import Slopes
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.path import recorded
from tests.tolerances import ROUNDING
from tests.twins import attention as twin

# Of a run of some hundred steps, each of which rounds.
NEAR = 1e-12
EPS = 2.0**-52
WEIGHT = {"steps": 300}
# With more inputs than (z_j·z_i) is worth a kernel takes eight of them at once.
MANY = {"steps": 200}
# With steps of 0.1 factors swing across the valley of the loss, and the swings grow what each step
# rounds: a start changed by 1e-15 ends 0.05 away after 200 of them. Shorter steps do not swing.
FACTORS = {"model": "factored", "lr": 0.03, "steps": 200}
# The optimizers of `lane_rules`, and options that change their steps.
RULES = (
    ("mirror:1.5", {}), ("nmirror:3", {}), ("sign", {}), ("signum", {"momentum": 0.5}),
    ("spectral", {}), ("muon", {}), ("adam", {"eps": 1e-3, "beta2": 0.9}), ("adam", {}),
)  # fmt: skip
EVERY = pytest.mark.parametrize(("rule", "options"), RULES, ids=str)
BOTH = pytest.mark.parametrize("base", [WEIGHT, FACTORS], ids=["weight", "factored"])


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
    # Where a run goes on, its end is evaluated once: that is no step.
    monkeypatch.setattr("attsvm.training.train._check_end", lambda *arguments: None)


@pytest.mark.parametrize("base", [WEIGHT, MANY, FACTORS], ids=["weight", "many", "factored"])
@pytest.mark.parametrize("optimizer", ["gd", "ngd"])
@pytest.mark.parametrize("loss", fused.CODES)
def test_losses_and_rules(base, optimizer, loss):
    tokens, heads = stack(3, n=19 if base is MANY else 4)
    how = base | {"head": heads, "optimizer": optimizer, "loss": loss, "init": "normal:1"}
    same(train(tokens, **how), plainly(tokens, **how))


@pytest.mark.parametrize("kind", ["masked", "tied", "same key", "no query", "far"])
@pytest.mark.parametrize("base", [WEIGHT, WEIGHT | {"lr": 3.0}, MANY, FACTORS], ids=str)
def test_kinds_of_tokens(kind, base):
    tokens, heads = stack(3, kind=kind, n=17 if base is MANY else 4)
    how = base | {"head": heads}
    same(train(tokens, **how), plainly(tokens, **how))


@pytest.mark.parametrize(
    "how",
    [
        *(
            base | more
            for base in (WEIGHT, FACTORS)
            for more in ({"schedule": "sqrt"}, {"decay": 0.05}, {"steps": 0}, {"steps": 1})
        ),
        WEIGHT | {"schedule": lambda step: 1.0 if step % 3 else 0.0},
        WEIGHT | {"optimizer": "gd", "decay": 0.05, "lr": 1.0},
        WEIGHT | {"init": "uniform", "lr": 2.0},
        FACTORS | {"width": 1},
        FACTORS | {"width": 9, "init": "uniform"},
        FACTORS | {"options": {"ridge": EPS}},
        FACTORS | {"options": {"ridge": 0.01}, "decay": 0.05},
    ],
    ids=lambda how: ", ".join(
        f"{k} function" if callable(a) else f"{k} {a}" for k, a in how.items()
    ),
)
def test_schedules_decay_width_ridge_and_lengths(how):
    tokens, heads = stack(2)
    how = how | {"head": heads}
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


@pytest.mark.parametrize(
    "how",
    [
        {"optimizer": "gd", "init": "normal:0.5"},
        {"optimizer": "ngd", "init": "normal:0.5"},
        {"model": "factored", "lr": 0.03, "options": {"ridge": 1e-9}},
    ],
    ids=str,
)
@pytest.mark.parametrize("cut", [0, 1, 10, 61, 136, 137])
def test_a_cut_run_is_the_whole_one_bit_for_bit(only_fused, monkeypatch, how, cut):
    tokens, heads = stack(2, kind="tied")
    how = how | {"head": heads, "schedule": "sqrt"}
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


@pytest.mark.parametrize(("places", "how"), [(1, WEIGHT), (5, FACTORS | {"init": "zero"})])
def test_a_stationary_start_is_refused(only_fused, places, how):
    tokens, heads = stack(2, T=places)
    with pytest.raises(BadTokens, match="instance 0 is exactly zero at the start"):
        train(tokens, head=heads, **how)


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
    how = FACTORS | {"head": heads, "init": start, "options": {"ridge": ridge}}
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


def rule_run(run, tokens, rule, options, **how):
    """A run of a rule, of 100 steps unless said otherwise."""
    return run(tokens, optimizer=rule, options=options, **({"steps": 100} | how))


@EVERY
@pytest.mark.parametrize("kind", ["plain", "masked", "tied", "same key", "no query", "far"])
def test_rules_are_the_plain_loop(rule, options, kind):
    """The path, and the state at its end: the plain loop goes on from it as from its own."""
    tokens, heads = stack(3, kind=kind)
    how = {"head": heads, "init": "normal:1"}
    paths = [rule_run(run, tokens, rule, options, **how) for run in (train, plainly)]
    same(*paths)
    assert {k: np.shape(a) for k, a in paths[0].state.items()} == {
        k: np.shape(a) for k, a in paths[1].state.items()
    }
    same(*(plainly(tokens, head=heads, steps=30, start=path) for path in paths))


@EVERY
@pytest.mark.parametrize("loss", ["logistic", "exponential", "linear"])
def test_rules_with_losses_schedules_and_decay(rule, options, loss, only_fused, monkeypatch):
    tokens, heads = stack(9)
    how = {"head": heads, "init": "normal:1", "schedule": "sqrt", "lr": 0.5, "loss": loss}
    how |= {} if "mirror" in rule else {"decay": 0.05}
    path = rule_run(train, tokens, rule, options, **how)
    monkeypatch.undo()
    same(path, rule_run(plainly, tokens, rule, options, **how))


@pytest.mark.parametrize("rule", ["polyak", "mirror:1.5", "sign", "signum", "spectral", "adam"])
def test_rules_of_prompts(rule, only_fused, monkeypatch):
    tokens, heads = prompts(3)
    how = {"head": heads, "init": "normal:1", "model": "prompt"}
    how |= {"steps": 5} if rule == "polyak" else {}
    path = rule_run(train, tokens, rule, {}, **how)
    monkeypatch.undo()
    same(path, rule_run(plainly, tokens, rule, {}, **how))


@pytest.mark.parametrize("longest", [None, 0.5])
def test_polyak_is_the_plain_loop(longest, only_fused, monkeypatch):
    """For a few steps: the loss above its infimum is soon the rounding of both."""
    tokens, heads = stack(3)
    how = {"head": heads, "optimizer": "polyak", "options": {"longest": longest}, "steps": 10}
    path = train(tokens, **how)
    monkeypatch.undo()
    same(path, plainly(tokens, **how))


def uneven(count):
    """Instances of which the second one needs more than floats all the time, the last from a step
    on, and their heads."""
    tokens, heads = stack(count)
    scaled = [1.0] * count
    scaled[1], scaled[-1] = 3e3, 40.0
    return [
        Tokens(t.X, keys=f * t.X, queries=t.queries, labels=t.labels)
        for t, f in zip(tokens, scaled, strict=True)
    ], heads


@EVERY
@pytest.mark.parametrize("cut", [0, 1, 10, 31, 59])
def test_a_cut_run_of_a_rule_is_the_whole_one_bit_for_bit(rule, options, cut, monkeypatch):
    tokens, heads = uneven(3)
    how = {"head": heads, "init": "normal:1"}
    whole = rule_run(train, tokens, rule, options, steps=60, **how)
    monkeypatch.setattr(token_task, "_CALL", 3e4)  # a few steps a call
    equal(rule_run(train, tokens, rule, options, steps=60, **how), whole)
    first = rule_run(train, tokens, rule, options, steps=cut, **how)
    rest = train(tokens, head=heads, steps=60 - cut, start=first)
    equal(rest, whole)
    for name, value in whole.state.items():
        assert_array_equal(rest.state[name], value)


@EVERY
def test_instances_in_lanes_do_not_mix(rule, options):
    """Alone or among ten others, some of whom need more than floats, to the last bit."""
    tokens, heads = uneven(11)
    start = np.random.default_rng(0).standard_normal((11, 6, 6))
    path = rule_run(train, tokens, rule, options, head=heads, init={"W": start})
    for b in range(11):
        alone = rule_run(
            train, tokens[b], rule, options, head=heads[b], init={"W": start[b : b + 1]}
        )
        assert_array_equal(alone.weights["W"][:, 0], path.weights["W"][:, b])


def test_steps_outside_the_lanes_are_those_that_floats_lose(monkeypatch):
    tokens, heads = uneven(3)
    seen = []
    outside = token_task._outside

    def counted(*given):
        seen.extend(given[5].tolist())
        return outside(*given)

    monkeypatch.setattr(token_task, "_outside", counted)
    how = {"head": heads, "init": "normal:1"}
    same(*(rule_run(run, tokens, "spectral", {}, **how) for run in (train, plainly)))
    assert seen.count(1) > 50 and seen.count(0) == 0
