"""Monitor: a training that is not changed by it, and what it reads, against plain formulas."""

import copy
import gc
import io
import math
import pickle
import weakref
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attsvm.errors import Unsupported
from attsvm.torch import Attention, Monitor, MonitorRow, Saturation
from tests.torch.attending import (
    ALL,
    ByHand,
    Functional,
    check,
    functional_logits,
    logits_of,
    recorded,
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
    monitor = Monitor(model, queries=7) if monitored else None
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
    with Monitor(model) as monitor:
        x = torch.randn(2, 3, 12)
        kept = weakref.ref(x)
        out = model(x)
        model.seen = {}
        assert all(not t.requires_grad for t in monitor._found["Functional"][0])
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


def test_attention_that_cannot_be_hooked_says_what_to_call():
    model = ByHand()
    monitor = Monitor(model)
    model(torch.randn(2, 3, 6))
    with pytest.raises(Unsupported, match=r"scaled_dot_product_attention by that name"):
        monitor.step()
    assert F.scaled_dot_product_attention is ORIGINAL


@pytest.mark.parametrize("options", [{"queries": 0}, {"every": 0}, {"level": 1.0}])
def test_bad_options_are_refused(options):
    with pytest.raises(Unsupported):
        Monitor(Functional(), **options)
    with pytest.raises(Unsupported, match="takes an"):
        Monitor(torch.zeros(1))


def test_rows_as_a_table_and_as_a_picture():
    model = encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    with Monitor(model) as monitor:
        with pytest.raises(Unsupported, match="nothing to plot"):
            monitor.figure()
        for _ in range(3):
            (model(torch.randn(2, 4, 12)) ** 2).mean().backward()
            optimizer.step()
            monitor.step()
    frame = monitor.to_frame()
    assert list(frame.columns) == list(MonitorRow._fields) and len(frame) == len(monitor.rows)
    panels = monitor.figure().axes
    names = list(dict.fromkeys(row.name for row in monitor.rows))
    assert names == [f"L{k}H{h}" for k, count in enumerate((3, 3, 4)) for h in range(count)]
    for panel in panels:  # each head has a line of its own
        own = panel.lines[: len(names)]
        looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in own}
        assert len(looks) == len(names)
    (legend,) = monitor.figure().legends
    assert [text.get_text().split()[0] for text in legend.texts] == names
    monitor.warnings.append(Saturation(1, monitor.rows[0].layer, 1, 2, 2, 2, "L0H1"))
    warned = monitor.figure()
    assert warned.get_suptitle() == "Saturated: none; warned of: L0H1"
    wide = [line.get_linewidth() for line in warned.axes[0].lines[: len(names)]]
    assert wide.index(max(wide)) == 1
    many = [row._replace(name=f"L{k}H{row.head}") for k in range(5) for row in monitor.rows]
    monitor.rows[:] = many
    assert "Layers by colour" in monitor.figure().legends[0].get_title().get_text()
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


FLAGS = [
    {},
    {"bias": False},
    {"kdim": 5, "vdim": 7},
]
MASKS = ["none", "causal", "padding", "both", "float", "by head", "causal hint"]


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead(flags, batch_first):
    B, L, S, E, H = 3, 4, 5, 8, 2
    torch.manual_seed(1)
    layer = nn.MultiheadAttention(E, H, batch_first=batch_first, **flags)
    for x in layer.parameters():
        nn.init.normal_(x)
    x = torch.randn(B, L, E, generator=seeded())
    y = torch.randn(B, S, flags.get("kdim", E), generator=seeded(1))
    z = torch.randn(B, S, flags.get("vdim", E), generator=seeded(2))
    W_q, W_k = (
        (layer.q_proj_weight, layer.k_proj_weight)
        if "kdim" in flags
        else layer.in_proj_weight.chunk(3)[:2]
    )
    b_q, b_k = (None, None) if layer.in_proj_bias is None else layer.in_proj_bias.chunk(3)[:2]
    raw = logits_of(x, y, W_q, W_k, b_q, b_k, H)
    for kind, weights in product(MASKS, (True, False)):
        # Causal masks leave the first query one key: such queries are not counted.
        attn, pad, hint = None, None, kind == "causal hint"
        shut = np.zeros((B, H, L, S))
        if kind in ("causal", "both", "causal hint"):
            attn = torch.ones(L, S, dtype=torch.bool).triu(1)
            shut += np.where(attn, -np.inf, 0)
        if kind in ("padding", "both"):
            pad = torch.zeros(B, S, dtype=torch.bool)
            pad[1, 3:] = pad[2, 2:] = True
            shut += np.where(pad, -np.inf, 0)[:, None, None]
        if kind == "float":
            attn = torch.randn(L, S, generator=seeded(3))
            shut += attn.numpy()
        if kind == "by head":
            attn = torch.rand(B * H, L, S, generator=seeded(4)) < 0.3
            attn[..., :2] = False
            shut += np.where(attn.view(B, H, L, S), -np.inf, 0)
        if hint and weights:
            continue
        given = (x, y, z) if batch_first else [t.transpose(0, 1) for t in (x, y, z)]
        rows = recorded(
            layer,
            *given,
            attn_mask=attn,
            key_padding_mask=pad,
            need_weights=weights,
            is_causal=hint,
        )
        check(rows, raw, shut)
    assert rows[0].layer == "MultiheadAttention"


def test_multihead_without_a_batch_axis():
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(6, 3), torch.randn(4, 6, generator=seeded())
    W_q, W_k, _ = layer.in_proj_weight.chunk(3)
    raw = logits_of(x[None], x[None], W_q, W_k, None, None, 3)
    check(recorded(layer, x, x, x), raw, np.zeros_like(raw))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("plain", {}),
        ("plain", {"is_causal": True, "scale": 0.3}),
        ("grouped", {"key_heads": 2}),
        ("repeated", {"key_heads": 2, "is_causal": True}),
        ("packed", {}),
    ],
)
def test_functional(kind, options):
    torch.manual_seed(2)
    model = nn.ModuleDict({"block": Functional(kind=kind, **options)})
    inner, x = model["block"], torch.randn(3, 5, 12, generator=seeded())
    nn.init.normal_(inner.out.weight)
    raw = functional_logits(inner, x)
    shut = np.zeros_like(raw)
    if options.get("is_causal"):
        shut += np.where(np.tri(5), 0, -np.inf)
    with Monitor(model, queries=ALL) as monitor:
        inner(x)
        monitor.step()
    check(monitor.rows, raw, shut)
    assert {row.layer for row in monitor.rows} == {"block"}
    if not options.get("is_causal"):
        keep = torch.rand(3, 1, 5, 5, generator=seeded(5)) < 0.7
        keep[..., :2] = True
        shut = np.broadcast_to(np.where(keep, 0, -np.inf), raw.shape)
        check(recorded(inner, x, mask=keep), raw, shut)
        least = torch.zeros(3, 1, 5, 5).masked_fill(~keep, torch.finfo(torch.float32).min)
        check(recorded(inner, x, mask=least), raw, shut)


@pytest.mark.parametrize("kind", ["plain", "grouped", "repeated", "packed", "rotated", "normed"])
def test_norms_are_those_of_the_whole_matrix(kind):
    torch.manual_seed(3)
    model = Functional(kind=kind, key_heads=2 if kind in ("grouped", "repeated") else None)
    rows = recorded(model, torch.randn(2, 4, 12, generator=seeded()))
    if kind == "normed":  # what was normed has no W_QK
        assert all(math.isnan(row.frobenius) and math.isnan(row.spectral) for row in rows)
        return
    if kind == "packed":
        W_q, W_k, _ = model.c_attn.weight.detach().double().numpy().reshape(3, 4, 3, 12)
        b_q = model.c_attn.bias.detach().double().numpy().reshape(3, 4, 3)[0]
    else:
        W_q, W_k = (
            m.weight.detach().double().numpy().reshape(-1, 3, 12)
            for m in (model.q_proj, model.k_proj)
        )
        b_q = model.q_proj.bias.detach().double().numpy().reshape(4, 3)
    for row in rows:
        A = np.hstack([W_q[row.head], b_q[row.head][:, None]])
        W = W_k[row.head * len(W_k) // 4].T @ A / np.sqrt(3)
        assert row.frobenius == pytest.approx(np.linalg.norm(W), rel=1e-9)
        assert row.spectral == pytest.approx(np.linalg.norm(W, 2), rel=1e-7)


def test_norms_where_heads_are_wider_than_the_model():
    torch.manual_seed(4)
    model = Attention([1.0, 0.0, 0.0], shape=(3, 2))
    nn.init.normal_(model.W)
    X, z = torch.randn(4, 5, 3).double(), torch.randn(4, 2).double()
    raw = np.einsum("ntd,de,ne->nt", X, model.W.detach(), z)[:, None, None]
    rows = recorded(model, X, z)
    check(rows, raw, np.zeros_like(raw))
    assert rows[0].frobenius == pytest.approx(np.linalg.norm(model.W.detach()))
    assert rows[0].spectral == pytest.approx(np.linalg.norm(model.W.detach(), 2))


@pytest.mark.parametrize("flags", [{"add_bias_kv": True}, {"add_zero_attn": True}])
def test_layers_that_add_keys_are_refused(flags):
    layer, x = nn.MultiheadAttention(6, 2, batch_first=True, **flags), torch.randn(1, 3, 6)
    with Monitor(layer), pytest.raises(Unsupported, match=r"adds keys \(add_bias_kv"):
        layer(x, x, x)


def test_lower_precision_is_read_in_float32():
    torch.manual_seed(0)
    model = Functional().to(torch.bfloat16)
    rows = recorded(model, torch.randn(2, 4, 12, generator=seeded()).to(torch.bfloat16))
    q, k = model.seen["q"].double().numpy(), model.seen["k"].double().numpy()
    raw = q @ k.swapaxes(2, 3) / np.sqrt(3)
    check(rows, raw, np.zeros_like(raw))
    assert all(math.isfinite(row.frobenius) for row in rows)
    with torch.autocast("cpu", torch.bfloat16):
        rows = recorded(Functional(), torch.randn(2, 4, 12))
    assert all(math.isfinite(row.frobenius) for row in rows)


def test_a_sample_is_of_the_size_asked_and_of_real_queries():
    torch.manual_seed(0)
    model = Functional()
    x = torch.randn(9, 50, 12, generator=seeded())
    whole = recorded(model, x)
    for queries in (1, 16, 40, 64):
        with Monitor(model, queries=queries) as monitor:
            for _ in range(4):  # another choice each time
                model(x)
                monitor.step()
        assert all(1 <= row.queries <= queries for row in monitor.rows)
        for row in monitor.rows:
            assert row.largest <= whole[row.head].largest * (1 + 1e-5)
        assert len({row.largest for row in monitor.rows if row.head == 0}) > 1
