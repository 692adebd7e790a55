"""Fits: determined by their plan, exact after a break, honest about collapse."""

import json
import math
from dataclasses import replace

import pytest
import torch

from attsvm._utils.files import parse_toml
from attsvm.datasets import LABELLED
from attsvm.errors import AttsvmError
from attsvm.torch import TrainConfig, config_of, fit, load_data
from attsvm.torch.config import optimizers_of
from attsvm.torch.fitting import _Training, order
from attsvm.torch.networks import TextClassifier
from tests.torch.small import equal, small_config, texts

EVERY = ("adam", "adamw", "mirror", "muon", "ngd", "nmirror", "sgd", "steepest:max", "steepest:l3")


def test_a_fit_learns_what_can_be_learned():
    found = fit(small_config(epochs=12, lr=0.01), texts())
    assert found.last.test_accuracy > 0.9 and not found.collapsed and found.stopped == "epochs"
    assert found.to_frame().step.tolist() == [6 * k for k in range(13)]
    assert found.last.loss < found.records[0].loss
    norms = [w.detach().norm() for w in found.network.projections["K"]]
    assert found.last.norm_K == pytest.approx(float(norms[0]))
    json.dumps(found.to_dict())


@pytest.mark.parametrize("optimizer", EVERY)
def test_one_plan_makes_one_network_and_a_break_changes_nothing(optimizer, tmp_path):
    takes = optimizer not in ("adam", "adamw")
    plan = small_config(optimizer=optimizer, records=2, dropout=0.1, momentum=0.9 if takes else 0.0)
    data = texts()
    whole = fit(plan, data)
    before = torch.get_rng_state()
    fit(replace(plan, epochs=2), data, folder=tmp_path)
    resumed = fit(plan, data, folder=tmp_path, resume=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert equal(whole, resumed) and len(whole.records) == 9
    assert equal(resumed, fit(plan, data, folder=tmp_path, resume=True))
    other = fit(replace(plan, seed=1), data)
    assert whole.records[0] != other.records[0]  # another initial network


def test_seeds_draw_other_orders_and_every_input_comes_once():
    plan = small_config()
    given = _Training(plan, texts(97)).train
    first, second = (torch.cat(order(given, plan, epoch)) for epoch in (0, 1))
    assert sorted(first.tolist()) == list(range(97)) and not torch.equal(first, second)
    assert not torch.equal(first, torch.cat(order(given, replace(plan, seed=1), 0)))
    assert {len(batch) for batch in order(given, plan, 0)} == {16, 1}


def test_embeddings_have_a_rate_of_their_own():
    net = TextClassifier(small_config(), 2, 20)
    for name in EVERY:
        made = optimizers_of(small_config(optimizer=name, embedding_lr=10.0, lr=0.01), net)
        rates = {id(x): g["lr"] for one in made for g in one.param_groups for x in g["params"]}
        assert len(rates) == len(list(net.parameters()))
        inner = 0.001 if name == "muon" else 0.01  # muon leaves the head to AdamW
        assert rates[id(net.words.weight)] == pytest.approx(10 * rates[id(net.head.weight)])
        assert rates[id(net.head.weight)] == pytest.approx(inner)
    (made,) = optimizers_of(small_config(optimizer="mirror", p=1.5), net)
    exponents = {id(x): g["p"] for g in made.param_groups for x in g["params"]}
    assert exponents[id(net.words.weight)] == 1.5 == exponents[id(net.blocks[0].attend.key.weight)]
    assert exponents[id(net.norm.weight)] == 2 == exponents[id(net.head.bias)]


def test_early_stops():
    data = texts()
    level = fit(small_config(epochs=30, lr=0.01, stop_accuracy=0.9), data)
    assert level.stopped == "stop_accuracy" and level.last.train_accuracy >= 0.9
    assert all(record.train_accuracy < 0.9 for record in level.records[:-1])


@pytest.mark.parametrize("optimizer", ["sgd", "mirror", "adamw"])
def test_a_collapse_is_told(optimizer, tmp_path):
    plan = small_config(optimizer=optimizer, lr=1e30)
    found = fit(plan, texts(), folder=tmp_path)
    assert found.collapsed and found.stopped in ("collapse", "epochs")
    again = fit(plan, texts(), folder=tmp_path, resume=True)
    assert again.collapsed and again.last.step == found.last.step


def test_chance_is_a_collapse():
    found = fit(small_config(optimizer="sgd", lr=1e-12, epochs=1), texts())
    assert math.isfinite(found.last.loss) and found.stopped == "epochs" and found.collapsed


def test_images():
    plan = config_of(
        "images", {"data": "digits", "patch": 4, "train_count": 300, "epochs": 2, "width": 16}
    )
    found = fit(plan, load_data(plan))
    assert found.last.loss < found.records[0].loss
    with pytest.raises(AttsvmError, match="must divide images"):
        fit(replace(plan, patch=3), load_data(plan))


def test_the_watcher_sees_every_step():
    seen = []
    found = fit(small_config(epochs=2), texts(), watch=lambda m: seen.append((m.step, m.record)))
    assert [step for step, record in seen if record is None] == list(range(13))
    assert [record for _, record in seen if record] == list(found.records[1:])
    assert {m for m, _ in seen} == set(range(13))


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    plan, data = small_config(), texts()
    fit(plan, data, folder=tmp_path)
    with pytest.raises(AttsvmError, match="go on with it"):
        fit(plan, data, folder=tmp_path)
    with pytest.raises(AttsvmError, match="batch is 8, was 16; seed is 3, was 0"):
        fit(replace(plan, seed=3, batch=8), data, folder=tmp_path, resume=True)
    with pytest.raises(AttsvmError, match="other data"):
        fit(plan, texts(seed=1), folder=tmp_path, resume=True)
    with pytest.raises(AttsvmError, match="past 2 epochs"):
        fit(replace(plan, epochs=2), data, folder=tmp_path, resume=True)
    whole = (tmp_path / "checkpoint.pt").read_bytes()
    for broken in (b"", b"text", whole[: len(whole) // 2]):
        (tmp_path / "checkpoint.pt").write_bytes(broken)
        with pytest.raises(AttsvmError, match="no checkpoint of a fit"):
            fit(plan, data, folder=tmp_path, resume=True)
    torch.save({"said": "{}"}, tmp_path / "checkpoint.pt")
    with pytest.raises(AttsvmError, match="another version"):
        fit(plan, data, folder=tmp_path, resume=True)
    with pytest.raises(AttsvmError, match="from a folder"):
        fit(plan, data, resume=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"optimizer": "adagrad"}, "known are adam, adamw"),
        ({"optimizer": "steepest:l0.5"}, "norm is 'l0.5'"),
        ({"optimizer": "sgd", "p": 1.5}, "p is for mirror"),
        ({"optimizer": "mirror", "p": 1.0}, "p is 1"),
        ({"momentum": 0.9}, "takes no momentum"),
        ({"lr": 0.0}, "lr is 0"),
        ({"lr": math.nan}, "finite and positive"),
        ({"lr": True}, "must be a number"),
        ({"batch": 0}, "batch is 0"),
        ({"epochs": 1.5}, "whole number"),
        ({"seed": -1}, "seed"),
        ({"device": "cuda"}, "device is 'cuda': this torch cannot use it"),
        ({"device": "meta"}, "device is 'meta'"),
        ({"device": "gpu"}, "device is 'gpu'"),
        ({"task": "sound"}, "is for 'sound'"),
        ({"width": None}, "width is None: it must be a whole number"),
        ({"stop_accuracy": 2.0}, "stop_accuracy"),
        ({"records": 1000}, "an epoch has 6 steps"),
        ({"vocabulary": 2}, "above 3"),
        ({"heads": 3}, "multiple of 3 attention heads"),
        ({"lr": "x"}, "must be a number"),
        ({"ephocs": 3}, "did you mean 'epochs'"),
    ],
)
def test_plans_that_cannot_be(changes, said):
    with pytest.raises(AttsvmError, match=said):
        fit(small_config(**changes), texts())


def test_a_plan_in_toml(tmp_path):
    plan = TrainConfig(optimizer="mirror", p=1.5, lr=1, epochs=2)
    assert config_of("text", parse_toml(plan.to_toml())) == plan


def test_the_data_of_a_plan(tmp_path):
    with pytest.raises(AttsvmError, match="known are reviews"):
        load_data(small_config(data="tweets"))
    with pytest.raises(AttsvmError, match="needs a file"):
        load_data(small_config(data="own-text"))
    with pytest.raises(AttsvmError, match="own-text reads it"):
        load_data(small_config(), file="x.csv")
    with pytest.raises(AttsvmError, match="holds images"):
        fit(small_config(), LABELLED["digits"]())
