"""What train() refuses, each with one sentence and a typed error."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import Tokens, train
from attsvm._utils import memory
from attsvm.datasets import EXAMPLES
from attsvm.datasets.instances import sphere_arrays
from attsvm.errors import AttsvmError, ConvergenceWarning, TooLarge, Unsupported
from attsvm.theory.outcome import outcome


def instance(seed=0):
    """One random instance and its head."""
    a = sphere_arrays(4, 5, 6, seed=seed)
    return Tokens(a["X"], queries=a["z"], labels=a["y"]), a["v"]


REFUSED = {
    "steps a fraction": ({"steps": 1.5}, "steps is 1.5"),
    "steps negative": ({"steps": -1}, "steps is -1"),
    "steps text": ({"steps": "x"}, "steps is 'x'"),
    "lr negative": ({"lr": -1.0}, "lr is -1.0"),
    "lr nan": ({"lr": float("nan")}, "lr is nan"),
    "lr infinite": ({"lr": np.inf}, "finite and positive"),
    "seed negative": ({"seed": -1}, "seed is -1"),
    "seed none": ({"seed": None}, "seed is None"),
    "width zero": ({"model": "factored", "width": 0}, "width is 0"),
    "width text": ({"model": "factored", "width": "x"}, "width is 'x'"),
    "options a list": ({"options": [1]}, "options is a dict"),
    "init none": ({"init": None}, "init is None"),
    "init text array": ({"init": {"W": "x"}}, "not an array of numbers"),
    "init infinite": ({"init": {"W": np.full((6, 6), np.inf)}}, "not finite"),
    "schedule a number": ({"schedule": 3}, "schedule is 3"),
    "schedule text": ({"schedule": lambda t: "x"}, "gives no number at step 0"),
    "schedule without argument": ({"schedule": lambda: 1.0}, "gives no number at step 0"),
    "head two for one": ({"head": np.ones((2, 6))}, r"1 instances need \(1, 6\)"),
    "head text": ({"head": "x"}, "must be a vector"),
    "head nan": ({"head": np.full(6, np.nan)}, "not finite"),
    "head trained by none": ({"model": "joint-weight", "head": "cubic"}, "cannot be trained"),
    "decay negative": ({"decay": -0.1}, "weight decay is -0.1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_argument_gets_one_sentence(name):
    tokens, v = instance()
    given, sentence = REFUSED[name]
    with pytest.raises(AttsvmError, match=sentence):
        train(tokens, **{"head": v, "steps": 3, **given})


@pytest.mark.parametrize("tokens", [None, np.zeros((2, 3, 4)), "tokens", [1, 2]])
def test_tokens_of_another_kind_are_refused(tokens):
    with pytest.raises(AttsvmError, match="train needs Tokens"):
        train(tokens, head=[1.0])


def test_numpy_numbers_are_kept_as_plain_ones(tmp_path):
    tokens, v = instance()
    path = train(tokens, model="factored", head=v, width=np.int64(2), steps=np.int64(3),
                 lr=np.float32(0.5), optimizer="muon",
                 options={"momentum": np.float32(0.5)})  # fmt: skip
    path.save(tmp_path / "run.npz")
    assert type(path.config["width"]) is int
    assert path.config["options"] == {"momentum": 0.5}


def test_a_diverged_path_is_not_continued():
    tokens, v = instance()
    with pytest.warns(ConvergenceWarning):
        path = train(tokens, optimizer="adam", head=v, lr=1e308, steps=10, init="normal:1")
    assert path.diverged >= 0
    with pytest.raises(AttsvmError, match="diverged at step"):
        train(tokens, head=v, steps=5, start=path)


def test_polyak_knows_the_floor_of_the_squared_loss():
    tokens, v = instance()
    path = train(tokens, optimizer="polyak", head=v, loss="squared", lr=0.1, steps=500)
    assert path.diverged < 0
    assert (np.diff(path.loss[:, 0]) <= 1e-12).all()


def test_an_outcome_takes_a_stack_of_heads():
    tokens, v = instance()
    path = train(tokens, head=v, lr=1.0, steps=3000)
    one, stacked = outcome(path, tokens, v), outcome(path, tokens, v[None])
    assert one.state == stacked.state != "unknown"


@pytest.mark.parametrize("model", ["joint-prompt", "joint-weight"])
def test_a_relu_head_is_trained(model):
    a = sphere_arrays(4, 5, 6, seed=3)
    queries = a["z"] if model == "joint-weight" else None
    tokens = Tokens(a["X"], queries=queries, labels=a["y"])
    path = train(tokens, model=model, head="relu", width=8, optimizer="gd", lr=0.5, steps=2000)
    assert path.weights["V"].shape[1:] == (1, 6, 8)
    assert path.loss[-1, 0] < 0.7 * path.loss[0, 0]
    half = train(tokens, model=model, head="relu", width=8, optimizer="gd", lr=0.5, steps=700)
    whole = train(tokens, start=half, steps=1300)
    assert np.array_equal(whole.weights["V"][-1], path.weights["V"][-1])
    assert outcome(path, tokens).optimality is None


def test_a_huge_trained_decoder_is_judged_all_the_same():
    arrays = EXAMPLES["joint-tight"]()
    tokens = Tokens(arrays["X"], labels=arrays["y"])
    path = train(tokens, model="joint-prompt", lr=0.1, steps=500)
    path.weights["v"][-1] *= 1e200
    assert outcome(path, tokens).optimality is not None


def test_models_of_sentences_refuse_tokens():
    tokens = Tokens(np.eye(3)[None], labels=[1])
    for model in ("next-token", "decoder", "joint-next-token"):
        with pytest.raises(Unsupported, match="trains on Sentences"):
            train(tokens, model=model, head=[1.0, 0.0, 0.0], steps=1)


def test_records_beyond_memory_are_refused_before_the_first_step(monkeypatch):
    """The records of thirty matrices, as many as one of them leaves."""
    X = np.random.default_rng(0).standard_normal((30, 2, 3, 64))
    stack = [Tokens(x, queries=x[:, 0], labels=np.ones(2)) for x in X]
    heads, steps = np.ones((30, 64)), 10_001
    count = len(train(stack[0], head=heads[0], steps=steps).steps)
    size = count * 30 * (64 * 64 + 2 * 2 + 3) * 8 / 1e9
    monkeypatch.setattr(memory, "_of_the_machine", lambda: 1e8)
    said = f"{count} records of 30 instances of 4096 parameters would need about {size:.3g} GB"
    with pytest.raises(TooLarge, match=said) as e:
        train(stack, head=heads, steps=steps)
    assert "use fewer instances or steps" in str(e.value)
    path = train(stack, head=heads, steps=steps, stop=lambda step, params, found: step == 3)
    assert path.steps[-1] == 3, "how far a run with an optimizer to stop goes is not known before"


def test_processes_at_once_have_the_memory_in_common(monkeypatch):
    monkeypatch.setattr(memory, "_of_the_machine", lambda: 1e9)
    monkeypatch.setattr(memory, "_sharers", 1)
    memory.require(5e8, "a thing")
    memory.share_with(2)
    with pytest.raises(TooLarge, match=r"a thing would need about 0\.5 GB of memory and 0\.5 GB"):
        memory.require(5e8, "a thing")
