"""Runs of optimizers that weigh small and large alike, beside runs in many digits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from attsvm import BadTokens, Path, Tokens, train
from attsvm.datasets.instances import sphere_arrays
from attsvm.training.heads import Linear
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import evaluate
from attsvm.training.optimizers import OPTIMIZERS, Optimizer, optimizer_of
from tests.tolerances import GRADED
from tests.training.beside import OPTIMIZERS as WEIGHING
from tests.training.beside import compared, library_run
from tests.training.graded_evidence import FORMS, PARTS, setting, without

MANY = pytest.mark.parametrize("optimizer", WEIGHING)


def test_rules_say_that_they_need_the_graded_form():
    made = {key: optimizer_of(key.replace(":P", ":1.5")).graded for key in OPTIMIZERS}
    assert {key for key, graded in made.items() if graded} >= set(WEIGHING)
    for name in ("spectral", "muon"):
        assert not optimizer_of(name, newton_schulz=True).graded


@MANY
@pytest.mark.parametrize("start", ["normal", "far"])
def test_weights_follow_the_run_of_many_digits(optimizer, start):
    assert compared(setting((3, 4, 3), optimizer, start, steps=40))[0] <= GRADED


@MANY
@pytest.mark.parametrize(("model", "relu"), [form for form in FORMS if form[0] != "weight"])
def test_every_model_follows_the_run_of_many_digits(model, relu, optimizer):
    assert (
        compared(setting((3, 4, 3), optimizer, "far", model=model, relu=relu, steps=6))[0] <= GRADED
    )


@MANY
def test_what_is_below_the_range_of_floats_moves_as_well(optimizer):
    """Input 0 alone moves the first column, with a gradient of e^−1000 and less."""
    s = setting((3, 4, 3), optimizer, "far:2000", steps=4, units=True)
    assert compared(s)[0] <= GRADED
    path = library_run(s)
    assert (np.abs(path.weights["W"][-1, 0] - s.start["W"])[:, 0] > 0.5).all() or optimizer in (
        "spectral",
        "muon",
    )
    if optimizer in ("spectral", "sign"):  # and would not by direction and scale alone
        assert without(s) > 1e-4


@pytest.mark.parametrize("optimizer", ["spectral", "muon"])
@pytest.mark.parametrize("kind", ["few inputs", "same tokens", "same query", "doubled query"])
def test_steps_have_the_rank_of_the_gradient(optimizer, kind):
    """Directions that no input has stay where they are, also after a top token has changed."""
    size = (2, 3, 6) if kind == "few inputs" else (4, 3, 4)
    s = setting(size, optimizer, "normal", steps=25, seed=2)
    X, z = s.X.copy(), s.z.copy()
    rank = 2
    if kind == "same tokens":
        X[:], rank = X[0], 2  # three tokens have two differences
    elif kind == "same query":
        z[:], rank = z[0], 1
    elif kind == "doubled query":
        z[1], z[2], rank = 2 * z[0], z[0] / 4, 2
    s = replace(s, X=X, z=z)
    assert compared(s)[0] <= GRADED
    path = library_run(s)
    steps = np.diff(path.weights["W"][path.steps <= 10, 0], axis=0)
    values = np.linalg.svd(steps, compute_uv=False)
    np.testing.assert_allclose(values, np.tile(np.arange(size[2]) < rank, (10, 1)), atol=1e-10)


def test_queries_that_are_parallel_up_to_rounding_count_as_parallel():
    """z/3 is not parallel to z in floats; the direction between them is rounding, and stays."""
    s = setting((2, 3, 4), "spectral", "normal", steps=5)
    z = s.z.copy()
    z[1] = z[0] / 3
    path = library_run(replace(s, z=z))
    values = np.linalg.svd(np.diff(path.weights["W"][:, 0], axis=0), compute_uv=False)
    np.testing.assert_allclose(values, np.tile([1.0, 0, 0, 0], (5, 1)), atol=GRADED)


def case():
    made = sphere_arrays(3, 4, 3, seed=0)
    return Tokens(made["X"], queries=made["z"], labels=made["y"]), made["v"]


@MANY
def test_a_model_without_graded_form_is_taken_by_direction_and_scale(optimizer):
    tokens, v = case()
    batch, head = Batch.of(tokens), Linear(v[None])
    bare = replace(MODELS["weight"], factors=None)
    params = {"W": np.random.default_rng(0).standard_normal((1, 3, 3))}
    seen = [evaluate(m, params, batch, head, LOSSES["logistic"], graded=True) for m in
            (bare, MODELS["weight"])]  # fmt: skip
    assert not seen[0].gradient.graded and set(seen[1].gradient.graded) == {"W"}
    made = optimizer_of(optimizer)
    moved = [
        made.update(params, e.gradient, made.init(params), np.ones(1), e.loss, 0)[0]["W"]
        for e in seen
    ]
    np.testing.assert_allclose(moved[0], moved[1], atol=1e-10)


def test_other_rules_see_no_graded_form():
    tokens, v = case()
    seen = []

    def move(step):
        seen.append(step.gradient.graded)
        return {x: p - 0.1 * step.gradient.direction[x] for x, p in step.params.items()}, {}

    optimizer = Optimizer("own", lambda params: {}, move)
    batch = Batch.of(tokens)
    found = evaluate(MODELS["weight"], {"W": np.zeros((1, 3, 3))}, batch, Linear(v[None]),
                     LOSSES["logistic"])  # fmt: skip
    optimizer.update({"W": np.zeros((1, 3, 3))}, found.gradient, {}, np.ones(1), found.loss, 0)
    assert seen == [{}]


@pytest.mark.parametrize("optimizer", ["muon", "signum"])
def test_an_average_without_its_small_directions_is_not_gone_on_from(optimizer, tmp_path):
    tokens, v = case()
    path = train(tokens, head=v, optimizer=optimizer, steps=5, init="normal:1")
    old = replace(path, state={"W.mean": np.zeros((1, 3, 3)), "W.log": np.zeros(1)})
    old.save(tmp_path / "old.npz")
    with pytest.raises(BadTokens, match="another state than its optimizer"):
        train(tokens, head=v, steps=5, start=Path.load(tmp_path / "old.npz"))


@pytest.mark.parametrize("model", ["weight", "factored", "joint-weight"])
def test_a_stack_is_its_instances(model):
    made = [sphere_arrays(3, 4, 3, seed=seed) for seed in range(3)]
    tokens = [Tokens(a["X"], queries=a["z"], labels=a["y"]) for a in made]
    heads = None if model.startswith("joint") else np.array([a["v"] for a in made])
    for optimizer in ("muon", "adam"):
        given = {"model": model, "optimizer": optimizer, "steps": 20, "lr": 0.5}
        start = {
            name: np.random.default_rng(1).standard_normal((3, *block.shape[2:]))
            for name, block in train(tokens, head=heads, **given | {"steps": 0}).weights.items()
        }
        together = train(tokens, head=heads, init=start, **given)
        for b, t in enumerate(tokens):
            mine = {name: block[b] for name, block in start.items()}
            alone = train(t, head=None if heads is None else heads[b], init=mine, **given)
            for name, block in alone.weights.items():
                assert_array_equal(block[:, 0], together.weights[name][:, b])


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_the_whole_evidence(part):
    found = list(PARTS[part](False))
    assert found and not [str(row) for row in found if row.met is False]
