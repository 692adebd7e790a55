"""Monitor: a training that does not know it is watched, and everything it hands out."""

import copy
import csv
import gc
import io
import math
import pickle
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attsvm.errors import Unsupported
from attsvm.torch import AttentionInputs, Monitor, MonitorRow, NormalizedGD, Saturation
from tests.torch.attending import (
    ALL,
    ByHand,
    Functional,
    check,
    functional_logits,
    logits_of,
    seeded,
)

pytestmark = pytest.mark.filterwarnings("ignore::attsvm.torch.SaturationWarning")
ORIGINAL = F.scaled_dot_product_attention


def encoder(dropout=0.1):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(12, 3, 16, dropout=dropout, batch_first=True)
    stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(stack, Functional(is_causal=True))


def trained(monitored):
    """Every gradient of ten steps with dropout, the weights and the state of random numbers."""
    model = encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor = Monitor(model, optimizer, queries=7) if monitored else None
    torch.manual_seed(5)
    seen = []
    for _ in range(10):
        optimizer.zero_grad()
        out = model(torch.randn(4, 6, 12))
        (out**2).mean().backward()
        seen += [out.detach()] + [x.grad.clone() for x in model.parameters()]
        optimizer.step()
        if monitor is not None:
            monitor.step()
    if monitor is not None:
        assert {row.layer for row in monitor.rows} == {
            "0.layers.0.self_attn",
            "0.layers.1.self_attn",
            "1",
        }
        monitor.close()
    return [*seen, *model.parameters(), torch.get_rng_state()]


def test_training_is_the_same_to_the_last_bit():
    assert all(map(torch.equal, trained(False), trained(True)))


def test_nothing_is_left_on_the_model_and_nothing_behind():
    model = encoder()
    bare = pickle.dumps(model)
    monitor, other = Monitor(model), Monitor(model)
    assert F.scaled_dot_product_attention is not ORIGINAL
    assert pickle.dumps(model) == bare
    twin = copy.deepcopy(model)
    monitor.close()
    twin(torch.randn(2, 3, 12))  # a copy is another model
    with pytest.raises(Unsupported, match="no forward of this model"):
        other.step()
    assert F.scaled_dot_product_attention is ORIGINAL
    assert not nn.modules.module._has_any_global_hook()
    assert pickle.dumps(model) == bare


def test_hooks_are_there_only_when_a_record_is_due():
    model = Functional()
    with Monitor(model) as monitor:
        steps = []
        for step in range(60):
            if nn.modules.module._has_any_global_hook():
                steps.append(step)
            model(torch.zeros(1, 2, 12))
            monitor.step()
    assert steps == sorted({row.step for row in monitor.rows})
    assert steps == [0, 1, 2, 4, 6, 9, 13, 19, 27, 38, 53]


def test_records_are_never_further_apart_than_asked():
    model = Functional()
    with Monitor(model, every=10) as monitor:
        for _ in range(200):
            model(torch.zeros(1, 2, 12))
            monitor.step()
    steps = np.unique([row.step for row in monitor.rows])
    assert np.diff(steps).max() == 10


def test_no_graph_and_no_activation_is_kept():
    model = Functional()
    with Monitor(model, torch.optim.AdamW(model.parameters())) as monitor:
        x = torch.randn(2, 3, 12)
        kept = weakref.ref(x)
        out = model(x)
        model.seen = {}
        assert all(not t.requires_grad for t in monitor._found["Functional"].parts)
        monitor.step()
        del x, out
        gc.collect()
        assert kept() is None


def test_validation_between_steps_is_passed_over_and_look_looks():
    model = encoder(dropout=0.0)
    x, other = torch.randn(2, 3, 12), torch.full((2, 3, 12), 9.0)
    with Monitor(model, queries=ALL) as monitor:
        model(x)
        model.eval()
        with torch.no_grad():
            model(other)
        model.train()
        monitor.step()
        alone = list(monitor.rows)
        looked = monitor.look(x)
        assert model.training
        for a, b in zip(looked, alone, strict=True):
            assert a.largest == pytest.approx(b.largest, rel=1e-5)
            assert a.entropy == pytest.approx(b.entropy, rel=1e-5)
        assert [row.step for row in looked] == [1] * len(alone)
    with Monitor(model, queries=ALL) as fresh:
        model.eval()
        evaluated = fresh.look(x)  # where torch would take its fast path
    assert [row.layer for row in evaluated] == [row.layer for row in alone]


def test_a_module_that_raises_leaves_the_watch_sound():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("on purpose")

    good = Functional()
    model = nn.ModuleList([good, nn.Sequential(Fails())])
    with Monitor(model) as monitor:
        with pytest.raises(ValueError, match="on purpose"):
            model[1](torch.zeros(1))
        good(torch.randn(1, 3, 12))
        monitor.step()
    assert {row.layer for row in monitor.rows} == {"0"}


def test_attention_that_cannot_be_hooked_says_what_to_hand_over():
    model = ByHand()
    monitor = Monitor(model)
    model(torch.randn(2, 3, 6))
    with pytest.raises(Unsupported, match=r"reads=f.*\(layer, q, k\)"):
        monitor.step()
    assert F.scaled_dot_product_attention is ORIGINAL

    def reads(m):
        q, k, x = m.last
        yield AttentionInputs("mine", q, k, weights=(m.q.weight, m.k.weight), inputs=(x, x))

    x = torch.randn(2, 3, 6, generator=seeded())
    with Monitor(model, NormalizedGD(model.parameters()), reads=reads, queries=ALL) as monitor:
        model(x)
        monitor.step()
    raw = logits_of(x, x, model.q.weight, model.k.weight, None, None, 1)
    check(monitor.rows, raw, np.zeros_like(raw))
    assert np.abs(raw).max() <= monitor.rows[0].ceiling < math.inf


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "reads must yield tuples"),
        (("a", torch.zeros(2), torch.zeros(2)), "must be"),
        (
            ("a", torch.zeros(1, 3, 2, 2), torch.zeros(1, 2, 2, 2)),
            "3 attention heads and k has 2",
        ),
    ],
)
def test_bad_readings_are_refused(given, said):
    model = nn.Identity()
    with Monitor(model, reads=lambda m: [given]), pytest.raises(Unsupported, match=said):
        model(torch.zeros(1))


@pytest.mark.parametrize("options", [{"queries": 0}, {"every": 0}, {"level": 1.0}])
def test_bad_options_are_refused(options):
    with pytest.raises(Unsupported):
        Monitor(Functional(), **options)
    with pytest.raises(Unsupported, match="takes an"):
        Monitor(torch.zeros(1))


def test_rows_as_a_table_for_tensorboard_and_as_a_picture(tmp_path):
    class Writer:
        def __init__(self):
            self.said = []

        def add_scalar(self, name, value, step):
            self.said.append((name, value, step))

    model, writer = encoder(), Writer()
    optimizer = NormalizedGD(model.parameters(), lr=1e-2)
    with Monitor(model, optimizer, writer=writer) as monitor:
        with pytest.raises(Unsupported, match="nothing to plot"):
            monitor.figure()
        for _ in range(3):
            (model(torch.randn(2, 4, 12)) ** 2).mean().backward()
            optimizer.step()
            monitor.step()
    monitor.to_csv(tmp_path / "rows.csv")
    lines = list(csv.reader((tmp_path / "rows.csv").read_text().splitlines()))
    assert lines[0] == list(MonitorRow._fields) and len(lines) == 1 + len(monitor.rows)
    for line, row in zip(lines[1:], monitor.rows, strict=True):
        again = [kind(x) for kind, x in zip((int, str, int), line[:3], strict=True)]
        assert tuple(again) == row[:3]
        assert [float(x) for x in line[3:]] == pytest.approx(list(row[3:]), nan_ok=True, rel=0)
    assert ("1/head 0/entropy", monitor.rows[6].entropy, 0) in writer.said
    panels = monitor.figure().axes
    assert len(panels) == 4
    heads = {(row.layer, row.head) for row in monitor.rows}
    for panel in panels:  # each line has the number of its head, in the colour of its layer
        said = [(text.get_color(), text.get_text()) for text in panel.texts]
        assert len(set(said)) == len(said) == len(heads)
    monitor.warnings.append(Saturation(1, monitor.rows[0].layer, 1, 2, 2, 2))
    assert monitor.figure().axes[2].texts[-1].get_text() == "1"
    monitor.figure().savefig(io.BytesIO(), format="png")


@pytest.mark.parametrize("inside", [True, False])
def test_a_compiled_model_is_followed_by_look(inside):
    torch.manual_seed(0)
    model = Functional()
    if inside:
        model.compile(backend="eager")
    called = model if inside else torch.compile(model, backend="eager")
    x = torch.randn(1, 3, 12)
    with Monitor(called, queries=ALL) as monitor:
        for _ in range(12):
            called(x)
            if monitor.due:
                monitor.look(x)
            monitor.step()
    raw = functional_logits(model, x)
    check(monitor.rows[:4], raw, np.zeros_like(raw))
    assert sorted({row.step for row in monitor.rows}) == [0, 1, 2, 4, 6, 9]
    monitor = Monitor(called)
    called(x)
    with pytest.raises(Unsupported, match=r"monitor\.look\(batch\)"):
        monitor.step()
