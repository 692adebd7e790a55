"""What the monitor reads of each kind of attention, against plain formulas from the weights."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from attsvm.torch import Attention, AttentionInputs, Monitor
from tests.torch.attending import (
    ALL,
    Functional,
    check,
    functional_logits,
    logits_of,
    recorded,
    seeded,
)

pytestmark = pytest.mark.filterwarnings("ignore::attsvm.torch.SaturationWarning")

FLAGS = [
    {},
    {"bias": False},
    {"kdim": 5, "vdim": 7},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "kdim": 5, "vdim": 7, "bias": False},
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
    content = logits_of(x, y, W_q, W_k, b_q, b_k, H)
    q = x.double() @ W_q.T.double() + (0 if b_q is None else b_q.double())
    more = []
    if layer.bias_k is not None:
        more.append((q * layer.bias_k.reshape(-1).double()).reshape(B, L, H, -1).sum(-1) / 2)
    if layer.add_zero_attn:
        more.append(torch.zeros(B, L, H, dtype=torch.float64))
    more = [t.transpose(1, 2).detach().numpy()[..., None] for t in more]
    raw = np.concatenate([content, *more], axis=-1)
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
        if hint and (weights or flags.get("add_bias_kv") or flags.get("add_zero_attn")):
            continue  # torch's own hint does not count the keys that the layer adds
        added = np.concatenate([shut] + [np.zeros((B, H, L, 1))] * len(more), axis=-1)
        given = (x, y, z) if batch_first else [t.transpose(0, 1) for t in (x, y, z)]
        rows = recorded(
            layer,
            *given,
            attn_mask=attn,
            key_padding_mask=pad,
            need_weights=weights,
            is_causal=hint,
        )
        check(rows, raw, added)
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
    q, k = torch.randn(2, 1, 4, 9, generator=seeded()), torch.randn(2, 1, 4, 9, generator=seeded(1))
    W_q, W_k = torch.randn(9, 2, generator=seeded(2)), torch.randn(9, 3, generator=seeded(3))
    model = nn.Identity()
    with Monitor(
        model, reads=lambda m: [AttentionInputs("own", q, k, weights=(W_q, W_k))]
    ) as monitor:
        model(torch.zeros(1))
        monitor.step()
    W = (W_k.double().T @ W_q.double()).numpy() / 3
    assert monitor.rows[0].frobenius == pytest.approx(np.linalg.norm(W), rel=1e-9)
    assert monitor.rows[0].spectral == pytest.approx(np.linalg.norm(W, 2), rel=1e-9)


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


def test_one_w():
    torch.manual_seed(0)
    model = Attention([1.0, 0.0, 0.0], shape=(3, 2))
    nn.init.normal_(model.W)
    X, z = torch.randn(4, 5, 3).double(), torch.randn(4, 2).double()
    raw = np.einsum("ntd,de,ne->nt", X, model.W.detach(), z)[:, None, None]
    rows = recorded(model, X, z)
    check(rows, raw, np.zeros_like(raw))
    assert rows[0].spectral == pytest.approx(np.linalg.norm(model.W.detach(), 2))


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
