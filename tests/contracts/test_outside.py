"""Objects of one's own go wherever names go: train, outcome, save, load, go on, predict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attsvm import Path, Sentences, Tokens, outcome, predict, train, two_stages
from attsvm.datasets.instances import sphere_arrays
from attsvm.errors import Unsupported
from attsvm.theory.regularization_path.paths import regpath
from attsvm.training.losses import LOSSES as HOUSE
from attsvm.training.optimizers import optimizer_of
from tests.contracts import outside
from tests.contracts.outside import HEAD, LOSS, MODEL, OPTIMIZER

LINES = [[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]]
a = sphere_arrays(3, 4, 4, seed=1)
TOKENS, V = Tokens(a["X"], queries=a["z"], labels=a["y"]), a["v"]
PARTS = {
    "optimizer": {"optimizer": OPTIMIZER, "head": V},
    "optimizer maker": {"optimizer": outside.slow, "options": {"friction": 0.25}, "head": V},
    "model": {"model": MODEL, "head": V},
    "loss": {"loss": LOSS, "head": V},
    "head": {"head": HEAD},
    "all": {"optimizer": OPTIMIZER, "model": MODEL, "loss": LOSS, "head": HEAD},
}
OBJECTS = ("optimizer", "model", "loss")


def equal(one, other):
    np.testing.assert_array_equal(one.steps, other.steps)
    np.testing.assert_array_equal(one.loss, other.loss)
    assert one.config == other.config and one.weights.keys() == other.weights.keys()
    for name, block in one.weights.items():
        np.testing.assert_array_equal(block, other.weights[name])


@pytest.mark.parametrize("part", PARTS)
def test_a_run_is_saved_and_goes_on_bit_for_bit(part, tmp_path):
    given = PARTS[part]
    whole = train(TOKENS, steps=40, lr=0.2, **given)
    half = train(TOKENS, steps=15, lr=0.2, **given)
    equal(train(TOKENS, steps=25, start=half, head=given["head"]), whole)
    half.save(tmp_path / "half.npz")
    loaded = Path.load(tmp_path / "half.npz")
    again = {name: given[name] for name in (*OBJECTS, "head") if name in given}
    equal(train(TOKENS, steps=25, start=loaded, **again), whole)


@pytest.mark.parametrize("part", ["optimizer", "model", "loss"])
def test_what_is_not_at_hand_is_asked_for(part, tmp_path):
    train(TOKENS, steps=5, **PARTS[part]).save(tmp_path / "run.npz")
    loaded = Path.load(tmp_path / "run.npz")
    name = PARTS[part][part].name
    with pytest.raises(
        Unsupported,
        match=f"{part} '{name}' is a custom object, which is not saved: give {part}=",
    ):
        train(TOKENS, steps=5, start=loaded, head=V)
    other = replace(PARTS[part][part], name="other")
    with pytest.raises(Unsupported, match=f"this run's {part} is '{name}', not 'other'"):
        train(TOKENS, steps=5, start=loaded, head=V, **{part: other})


def test_a_listed_rule_may_be_given_as_an_object(tmp_path):
    named, given = (
        train(TOKENS, head=V, steps=30, optimizer=r) for r in ("ngd", optimizer_of("ngd"))
    )
    np.testing.assert_array_equal(named.weights["W"], given.weights["W"])
    assert outcome(given, TOKENS, V).limit.status == "proved"


@pytest.mark.parametrize("part", PARTS)
def test_an_outcome_needs_no_names(part, tmp_path):
    given = PARTS[part]
    path = train(TOKENS, steps=400, lr=0.5, **given)
    path.save(tmp_path / "run.npz")
    loaded = Path.load(tmp_path / "run.npz")
    model = given.get("model")
    for one in (path, loaded):
        found = outcome(one, TOKENS, given["head"], model=model)
        own = {"optimizer", "model"} & set(given)
        assert found.limit.status == ("unknown" if own else "proved")
        judged = outcome(one, TOKENS, given["head"], norm="frobenius", model=model)
        assert judged.certificate.status == "optimal" and judged.margin_share > 0
    if model is not None:
        with pytest.raises(Unsupported, match="this run's model 'twofold' is a custom object"):
            loaded.matrices()
        np.testing.assert_array_equal(loaded.matrices(MODEL), path.matrices())


def test_predict_says_what_is_not_known():
    for limit in (
        predict("weight", OPTIMIZER),
        predict(MODEL, "ngd"),
        predict(MODEL, OPTIMIZER, TOKENS),
    ):
        assert limit.status == "unknown" and limit.norm is None
        assert "not in the table of limits" in limit.statement
    like = replace(OPTIMIZER, limit="ngd")
    limit = predict("weight", like)
    assert (limit.norm, limit.status) == ("frobenius", "conjectured")
    assert "Optimizer slow declares the geometry of ngd" in limit.statement


def test_a_path_of_least_losses_takes_a_loss_and_a_head():
    for given in ({"loss": LOSS, "head": V}, {"head": HEAD}):
        path = regpath(TOKENS, radii=[1.0, 4.0], starts=1, scouts=2, **given)
        assert np.isfinite(path.loss).all()
    with pytest.raises(Unsupported, match="no regularization path of model 'twofold'"):
        regpath(TOKENS, model=MODEL, head=V, radii=[1.0])


def test_sentences_take_a_rule(tmp_path):
    data = Sentences.of(LINES)
    both = two_stages(data, optimizer=OPTIMIZER, steps=(40, 60))
    found = outcome(both, data)
    assert found.limit.status == "unknown" and set(found.certificates) == {"W_kq", "W_ov"}
    half = train(data, model="next-token", readout="mass", optimizer=OPTIMIZER, steps=10)
    half.save(tmp_path / "run.npz")
    loaded = Path.load(tmp_path / "run.npz")
    with pytest.raises(Unsupported, match="is a custom object"):
        train(data, start=loaded, steps=5)
    whole = train(data, model="next-token", readout="mass", optimizer=OPTIMIZER, steps=15)
    equal(train(data, start=loaded, optimizer=OPTIMIZER, steps=5), whole)


# What breaks a law, with the words that name the law.


def changed(how):
    """OPTIMIZER with each block x of its steps replaced by how(x before, x after)."""

    def move(step):
        new, state = OPTIMIZER.move(step)
        return {x: how(step.params[x], block) for x, block in new.items()}, state

    return replace(OPTIMIZER, name="broken", move=move)


def spoil(before, after):
    before += 1.0
    return after


def grow(step):
    new, state = OPTIMIZER.move(step)
    return new, {**state, "more": 1.0}


OPTIMIZERS = {
    "leaves its arguments alone": changed(spoil),
    "every block in its own shape": changed(lambda before, after: after[0]),
    "names and shapes of the state": replace(OPTIMIZER, name="broken", move=grow),
    "no step is NaN": changed(lambda before, after: after * np.nan),
    "a step is finite": changed(lambda before, after: after + np.inf),
    "a zero gradient moves nothing": changed(lambda before, after: 0.9 * after),
    "instances of a stack do not mix": changed(
        lambda before, after: before + (after - before).sum(axis=0)
    ),
    "a flat dict of arrays": replace(
        OPTIMIZER, name="broken", init=lambda params: {"deep": {"a": 1}}
    ),
    r"fails in move \(ZeroDivisionError": changed(lambda before, after: 1 / 0),
}
MODELS = {
    "matrix gives a finite W": replace(MODEL, name="broken", matrix=lambda p: p["a"][0]),
    "every block of attention": replace(MODEL, name="broken", chain=lambda p, G: {"a": G}),
    "chain is the derivative": replace(MODEL, name="broken", chain=lambda p, G: {"a": G, "b": G}),
    r"fails .*\(KeyError": replace(MODEL, name="broken", matrix=lambda p: p["W"]),
}
LOSSES = {
    "derivative of value": replace(
        LOSS, name="broken", slope=lambda x: (LOSS.slope(x)[0], LOSS.slope(x)[1] + 0.1)
    ),
    "below the infimum": replace(LOSS, name="broken", infimum=1.0),
    "falls up to the margin": replace(LOSS, name="broken", best=0.0),
    "shape of the margins": replace(LOSS, name="broken", value=lambda x: 1.0),
    "from_best gives": replace(
        HOUSE["squared"], name="broken", from_best=lambda sign, log: (0.5 * sign, -sign, log)
    ),
}  # fmt: skip
HEADS = {
    "gradient is the derivative": {"gradient": lambda self, o: 2 * self.v / np.cosh(o) ** 2},
    "is `curvature` times": {"curvature": 0.0},
    "has its v in `vector`": {"linear": True},
}
BROKEN = [
    *(("optimizer", "broken", law + ".* two instances", part) for law, part in OPTIMIZERS.items()),
    *(("model", "broken", law, part) for law, part in MODELS.items()),
    *(("loss", "broken", law, part) for law, part in LOSSES.items()),
    *(("head", "curved", law, type("Broken", (outside.Curved,), wrong)(HEAD.v))
      for law, wrong in HEADS.items()),
]  # fmt: skip


@pytest.mark.parametrize(("part", "name", "law", "broken"), BROKEN)
def test_a_part_that_breaks_a_law_is_refused(part, name, law, broken):
    with pytest.raises(Unsupported, match=f"{part} '{name}' .*{law}"):
        train(TOKENS, steps=1, **{"head": V, part: broken})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"optimizer": 3}, "an optimizer is given by name"),
        ({"optimizer": lambda: 3}, "it must be an Optimizer"),
        ({"optimizer": outside.slow, "options": {"speed": 1.0}}, "does not take this"),
        ({"optimizer": OPTIMIZER, "options": {"friction": 1.0}}, "slow is made already"),
        ({"model": 3}, "a model is given by name"),
        ({"loss": 3}, "a loss is given by name"),
    ],
)
def test_what_is_no_part_is_refused(given, said):
    with pytest.raises(Unsupported, match=said):
        train(TOKENS, steps=1, **{"head": V, **given})
