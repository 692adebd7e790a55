"""The forward pass by torch against the one by NumPy; run by `make test-extras`."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attsvm.inspection import by_torch, capture_layers, untrained_model  # noqa: E402
from attsvm.inspection.by_torch import TorchForward, forward_of  # noqa: E402
from tests.inspection.test_families import body_of  # noqa: E402
from tests.inspection.tiny import CONFIGS  # noqa: E402


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_family_goes_through_torch_alike(kind):
    body, _ = body_of(kind)
    rng = np.random.default_rng(0)
    T = min(9, body.longest)
    ids = rng.integers(3, 20, (4, T))
    valid = np.arange(T) < np.array([T, 1, 4, T - 1])[:, None]
    x = y = body.embedding(ids)
    forward = TorchForward(body)
    for layer in range(len(body.layers)):
        x, y = body.step(layer, x, valid), forward.step(layer, y, valid)
        assert y.dtype == np.float32 and y.shape == x.shape
        assert np.abs(x - y)[valid].max() < 1e-5 * max(1, np.abs(x).max())


def test_the_chosen_pass_leaves_its_arguments_alone():
    body, _ = body_of("llama")
    x = body.embedding(np.array([[3, 4, 5]]))
    valid = np.ones((1, 3), dtype=bool)
    kept, weight = x.copy(), body.layers[0].out.weight.copy()
    x.setflags(write=False)
    TorchForward(body).step(0, x, valid)
    assert np.array_equal(x, kept) and valid.all()
    assert np.array_equal(weight, body.layers[0].out.weight)


def test_torch_is_taken_where_it_pays(monkeypatch):
    body = untrained_model().transformer
    assert forward_of(body, 100) == body.step
    monkeypatch.setattr(by_torch, "MANY", 1.0)
    assert forward_of(body, 100) != body.step
    mlp = dataclasses.replace(body.layers[0].mlp, act=np.tanh)  # of a family of one's own
    odd = dataclasses.replace(body, layers=(dataclasses.replace(body.layers[0], mlp=mlp),))
    assert forward_of(odd, 100) == odd.step
    monkeypatch.setattr(by_torch, "find_spec", lambda name: None)
    assert forward_of(body, 100) == body.step


def test_captured_heads_attend_alike(monkeypatch):
    texts = ["a b c d", "e f", "g h a b c", "d"]
    plain = [view.attention() for view in capture_layers(untrained_model(), texts)]
    monkeypatch.setattr(by_torch, "MANY", 1.0)
    asked = []
    step = TorchForward.step
    monkeypatch.setattr(TorchForward, "step", lambda *a: asked.append(a[1]) or step(*a))
    torched = [view.attention() for view in capture_layers(untrained_model(), texts)]
    assert set(asked) == {0}
    assert max(np.abs(a - b).max() for a, b in zip(plain, torched, strict=True)) < 1e-5
