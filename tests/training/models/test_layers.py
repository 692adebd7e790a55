"""Several heads, and normalized queries and keys: what they keep of one head, and their ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attsvm import Path, Tokens, outcome, predict, regpath, train
from attsvm.datasets.instances import sphere_arrays
from attsvm.errors import AttsvmError, Unsupported
from attsvm.theory.comparison import compare
from attsvm.training.models import MODELS, Layer, Model, check_model, with_heads

HEADS = np.random.default_rng(5).standard_normal((3, 8))


def instance(seed=1, size=(4, 5, 8)):
    a = sphere_arrays(*size, seed=seed)
    return Tokens(a["X"], queries=a["z"], labels=a["y"]), a["v"]


@pytest.mark.parametrize("model", ["multi-head", "split-heads"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_one_head_is_the_weight(model, loss):
    tokens, v = instance()
    how = {"head": v, "loss": loss, "steps": 300}
    W = np.random.default_rng(0).standard_normal((8, 8))
    one = train(tokens, model="weight", init={"W": W}, **how)
    block = "W" if model == "multi-head" else "W1"
    other = train(tokens, model=model, heads=1, init={block: W}, **how)
    assert_allclose(other.matrices(), one.matrices(), rtol=0, atol=1e-9)
    assert_allclose(other.log_gradient, one.log_gradient, rtol=0, atol=1e-9)


def test_plain_descent_does_not_see_blocks():
    """gd takes the same steps together or head by head, and one v is a row for each head."""
    tokens, v = instance()
    W = np.random.default_rng(0).standard_normal((16, 8))
    how = {"optimizer": "gd", "lr": 1.0, "steps": 100, "heads": 2}
    split = {"W1": W[:8], "W2": W[8:]}
    one = train(tokens, model="multi-head", head=v, init={"W": W}, **how)
    two = train(tokens, model="split-heads", head=np.stack([v, v]), init=split, **how)
    assert_allclose(two.matrices(), one.matrices(), rtol=0, atol=1e-12)


def test_steps_are_normalized_together_or_apart():
    tokens, _ = instance()
    together, apart = (
        train(tokens, model=model, heads=3, head=HEADS, steps=1).weights
        for model in ("multi-head", "split-heads")
    )
    assert np.linalg.norm(np.diff(together["W"][:, 0], axis=0)) == pytest.approx(0.1)
    for block in apart.values():
        assert np.linalg.norm(np.diff(block[:, 0], axis=0)) == pytest.approx(0.1)


def test_heads_of_instances_are_their_own(tmp_path):
    """A stack is its instances, also resumed; v (B, H, d) has heads for each."""
    made = [instance(seed)[0] for seed in (1, 2)]
    v = np.stack([HEADS, -HEADS])
    how = {"model": "multi-head", "heads": 3, "steps": 40}
    both = train(made, head=v, **how)
    for b, tokens in enumerate(made):
        start = {"W": both.at(0)["W"][b]}
        alone = train(tokens, head=v[b], init=start, **how)
        assert_allclose(alone.weights["W"][:, 0], both.weights["W"][:, b], rtol=0, atol=1e-12)
    train(made, head=v, **how | {"steps": 17}).save(tmp_path / "part.npz")
    start = Path.load(tmp_path / "part.npz")
    rest = train(made, head=v, start=start, steps=23)
    assert_array_equal(rest.weights["W"], both.weights["W"])
    assert rest.config["heads"] == 3 and rest.selection.shape == (2, 12)


def test_an_outcome_has_a_part_for_each_head():
    tokens, _ = instance()
    path = train(tokens, model="multi-head", heads=3, head=HEADS, lr=1.0, steps=2000)
    found = outcome(path, tokens, HEADS)
    assert found.limit.status == "measured" and found.kind == "head" and found.proof is None
    assert_allclose(found.norm_ratios, 1.0, atol=0.02)
    for part, W, v in zip(found.parts, np.split(path.matrices()[-1, 0], 3), HEADS, strict=True):
        alone = outcome(W, tokens, v)
        assert_array_equal(part.selection, alone.selection)
        assert part.correlation == alone.correlation > 0.999
        assert (part.state, part.margin_share) == (alone.state, alone.margin_share)
    assert found.certificate.status == "optimal"
    assert found.correlation == min(part.correlation for part in found.parts)
    assert len(found.to_frame()) == 3 and len(found.to_dict()["parts"]) == 3


def test_an_outcome_has_a_part_for_each_input():
    """The least margin is that of the hardest input alone; keys of any length are unit keys."""
    tokens, v = instance(seed=3, size=(3, 4, 6))
    far = Tokens(tokens.X, keys=5 * tokens.X, queries=tokens.queries, labels=tokens.labels)
    path = train(far, model="qk-norm", head=v, loss="linear", steps=4000)
    found = outcome(path, far, v)
    assert found.kind == "input" and found.limit.norm is None and found.state == "unknown"
    assert 0.97 < found.worst_share <= 1 and found.margin_share < 0.97
    assert found.norms[0] == pytest.approx(path.weights["tau"][-1, 0, 0])
    assert found.norms[0] > 300
    same = train(tokens, model="qk-norm", head=v, loss="linear", steps=50)
    assert_allclose(same.weights["W"][:40], path.weights["W"][:40], rtol=0, atol=1e-9)


ZERO = Tokens([[[1.0, 0.0], [0.0, 1.0]]] * 2, queries=[[1.0], [0.0]], labels=[1, 1])
FLAT = Tokens([[[1.0, 0.0], [0.0, 0.0]]], labels=[1])
REFUSED = {
    "no heads": ({"model": "multi-head", "heads": 0}, "heads is 0: it must be a whole number"),
    "heads of one": ({"model": "weight", "heads": 2}, "model 'weight' has one attention head"),
    "heads of qk-norm": ({"model": "qk-norm", "heads": 2}, "has one attention head"),
    "widths": ({"model": "multi-head", "head": [[1.0, 2.0], [1.0]]}, r"rows of widths \[2, 1\]"),
    "rows": ({"model": "multi-head", "heads": 3, "head": np.ones((2, 2))}, r"shape \(2, 2\); it"),
    "blocks": ({"model": "split-heads", "init": {"W1": np.ones((2, 1)), "W2": np.ones((3, 1))}},
               r"start W2 has shape \(3, 1\); it must be \(2, 1\)"),
    "zero query": ({"model": "qk-norm", "tokens": ZERO}, "query 1 has norm 0"),
    "zero key": ({"model": "qk-norm", "tokens": FLAT}, "token 1 of input 0 has a key of norm 0"),
    "zero start": ({"model": "qk-norm", "init": "zero"}, "the start must not be zero"),
    "threads": ({"threads": 0}, "threads is 0: it must be a whole number, at least 1"),
    "no threads": ({"threads": -2}, "threads is -2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_gets_one_sentence(name):
    given, sentence = REFUSED[name]
    given = {"tokens": Tokens([[[1.0, 0.0], [0.0, 1.0]]], labels=[1]), "head": [1.0, 0.5]} | given
    with pytest.raises(AttsvmError, match=sentence):
        train(given.pop("tokens"), steps=3, **given)


def test_what_needs_one_matrix_is_refused():
    tokens, v = instance()
    with pytest.raises(Unsupported, match="multi-head has no one matrix W"):
        compare(tokens, models=["weight", "multi-head"], head=v)
    with pytest.raises(Unsupported, match="no regularization path of model 'qk-norm'"):
        regpath(tokens, model="qk-norm", head=v)


@pytest.mark.parametrize("optimizer", ["ngd", "adam", "spectral"])
@pytest.mark.parametrize("model", ["weight", "factored", "multi-head"])
def test_threads_change_no_bit(model, optimizer):
    made = [instance(seed)[0] for seed in range(40)]
    v = HEADS[:2] if model == "multi-head" else HEADS[0]
    how = {"model": model, "optimizer": optimizer, "head": v, "steps": 30, "init": "normal:1"}
    one, *others = (train(made, threads=count, **how) for count in (1, 2, 3))
    for other in others:
        for name, block in one.weights.items():
            assert_array_equal(other.weights[name], block)
        assert_array_equal(other.log_gradient, one.log_gradient)


def test_a_layer_of_a_users_own():
    """Two heads that share one W: their gradients add up. A wrong chain is found."""
    listed = with_heads(MODELS["multi-head"], 2).layer
    assert listed is not None

    def twice(params):
        return {"W": np.concatenate([params["W"]] * 2, axis=1)}

    def chain(params, z, g, log):
        G, scale = listed.chain(twice(params), z, g, log)
        return {"W": sum(np.split(G["W"], 2, axis=1))}, scale

    layer = Layer(
        lambda params, z: listed.vectors(twice(params), z),
        chain,
        lambda params, tokens: listed.parts(twice(params), tokens),
        heads=2,
    )
    model = Model("shared", lambda d, dq, m, e: {"W": (d, dq)}, lambda p: p["W"], layer=layer)
    tokens, v = instance()
    W = np.random.default_rng(0).standard_normal((8, 8))
    how = {"init": {"W": W}, "optimizer": "gd", "steps": 50}
    mine = train(tokens, model=model, head=np.stack([v, v]), lr=0.1, **how)
    # f is 2 v·o: the prediction head 2 v on one head.
    one = train(tokens, model="weight", head=2 * v, lr=0.1, **how)
    assert_allclose(mine.weights["W"], one.weights["W"], rtol=0, atol=1e-12)
    found = outcome(mine, tokens, np.stack([v, v]))
    assert found.limit.status == "unknown" and len(found.parts) == 2
    broken = replace(model, layer=replace(layer, chain=lambda p, z, g, log: (
        {"W": g[:, 0].swapaxes(1, 2) @ z}, {"W": 0 * log[:, 0, 0]})))  # fmt: skip
    with pytest.raises(Unsupported, match="chain is the derivative"):
        check_model(broken)


def test_limits_of_layers_are_measured():
    assert predict("multi-head", "ngd").word == "measured"
    assert not predict("qk-norm", "ngd").established
