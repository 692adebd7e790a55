"""The kernel that takes many steps on sentences gives what the plain loop gives."""

from dataclasses import replace

import numpy as np
import pytest

from attsvm import BadTokens, Sentences, train
from attsvm.datasets.sentences import cyclic, realizable
from attsvm.next_token.training import train as sentence_task

SETS = {
    "realizable": Sentences.of(realizable(8, (3, 5), 30, 1)),
    "cyclic": Sentences.of(cyclic(8, 3, 20, 1)),
}


def options(name, readout):
    data = SETS[name]
    head = None
    if readout == "softmax":
        head = train(data, model="decoder", steps=60, lr=0.3)
    return data, {"model": "next-token", "readout": readout, "head": head}


@pytest.fixture
def plainly(monkeypatch):
    """A function that trains by the loop alone."""

    def run(data, **how):
        with monkeypatch.context() as patch:
            patch.setattr(sentence_task, "_ahead", lambda *given: None)
            return train(data, **how)

    return run


def same(a, b, tol, *, ties=False):
    """Equal up to tol; with ties rounding may choose another top token of the same attention."""
    np.testing.assert_array_equal(a.steps, b.steps)
    if not ties:
        np.testing.assert_array_equal(a.top, b.top)
        np.testing.assert_array_equal(a.changed, b.changed)
    for name in ("loss", "log_gradient", "top_attention", "clock"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=tol, atol=tol)
    np.testing.assert_allclose(a.weights["W_kq"], b.weights["W_kq"], rtol=tol, atol=tol)


@pytest.mark.parametrize("optimizer", ["gd", "ngd"])
@pytest.mark.parametrize("readout", ["softmax", "mass"])
@pytest.mark.parametrize("name", SETS)
def test_same_as_the_loop(plainly, name, readout, optimizer):
    data, how = options(name, readout)
    # Inside tied sets normalized steps go to and fro and magnify rounding.
    steps = 25 if name == "cyclic" else 250
    for extra in (
        {"lr": 0.4, "init": "normal:0.5", "seed": 3},
        {"lr": 0.2, "schedule": "sqrt", "weights": "uniform"},
    ):
        same(train(data, optimizer=optimizer, steps=steps, **extra, **how),
             plainly(data, optimizer=optimizer, steps=steps, **extra, **how), 1e-10,
             ties=name == "cyclic")  # fmt: skip


def test_a_cut_run_is_the_whole_one_bit_for_bit(monkeypatch):
    data, how = options("realizable", "softmax")
    whole = train(data, steps=137, lr=0.3, **how)
    monkeypatch.setattr(sentence_task, "_CALL", 3e3)  # a few steps a call
    for cut in (0, 1, 10, 61, 136):
        first = train(data, steps=cut, lr=0.3, **how)
        rest = train(data, steps=137 - cut, start=first, head=how["head"])
        for name in ("steps", "loss", "log_gradient", "top", "top_attention", "clock", "changed"):
            np.testing.assert_array_equal(getattr(rest, name), getattr(whole, name))
        np.testing.assert_array_equal(rest.weights["W_kq"], whole.weights["W_kq"])


def test_entries_that_never_occur_stay_where_they_were():
    data = Sentences.of([[0, 1], [1, 0], [0, 1, 1]], vocabulary=3)
    start = np.random.default_rng(0).standard_normal((3, 3))
    path = train(data, model="next-token", readout="mass", steps=20, init={"W_kq": start})
    moved = path.weights["W_kq"][-1, 0] != start
    assert moved.tolist() == [[False, True, False], [False, True, False], [False] * 3]


def test_other_rules_and_decay_take_the_loop(plainly):
    data, how = options("realizable", "mass")
    for extra in (
        {"optimizer": "sign"},
        {"optimizer": "ngd", "decay": 0.01},
        {"optimizer": "polyak"},
    ):
        same(train(data, steps=30, **extra, **how), plainly(data, steps=30, **extra, **how), 0.0)


def test_progress_goes_up_to_one(monkeypatch):
    monkeypatch.setattr(sentence_task, "_CALL", 3e3)
    data, how = options("realizable", "mass")
    seen = []
    train(data, steps=200, progress=seen.append, **how)
    assert len(seen) > 3 and sorted(seen) == seen and seen[-1] == 1.0


def test_nothing_to_learn_is_refused():
    data = Sentences.of([[0, 0, 1]], vocabulary=2, collocations={0: 1})
    with pytest.raises(BadTokens, match="exactly zero at the start"):
        train(data, model="next-token", readout="mass", steps=5)


@pytest.mark.parametrize("stop", [None, lambda *_: False])
def test_a_run_does_not_go_on_with_another_number_of_sentences(stop):
    data = Sentences.of(realizable(6, 3, 20, 1))
    path = train(data, model="next-token", readout="mass", steps=5)
    # Without the trace of its data, which would be noticed first.
    path = replace(path, config={k: v for k, v in path.config.items() if k != "data"})
    for other in (data.part([0]), Sentences.of(realizable(6, 3, 90, 1))):
        assert other.size != data.size
        with pytest.raises(BadTokens, match="give it the data it came from"):
            train(other, start=path, steps=5, stop=stop)


def test_a_run_of_no_steps_goes_on():
    data = Sentences.of(realizable(6, 3, 20, 1))
    start = train(data, model="next-token", readout="mass", steps=0)
    assert train(data, start=start, steps=0).steps.tolist() == [0]
    whole = train(data, model="next-token", readout="mass", steps=4)
    np.testing.assert_array_equal(train(data, start=start, steps=4).loss, whole.loss)
