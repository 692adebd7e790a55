"""capture(): the captured head attends as the model does; verdicts and Views of it."""

import runpy

import numpy as np
import pytest
import torch
from torch import nn

import attsvm
from attsvm import inspection
from attsvm.datasets import EXAMPLES
from attsvm.errors import BadTokens, Unsupported
from attsvm.torch import Attention, Monitor, capture
from tests.conventions.tree import ROOT
from tests.tolerances import EXACTLY
from tests.torch.attending import ByHand, Functional


def attention_of(captured):
    """softmax over tokens of keys·W z, by the definition, (n, T)."""
    tokens = captured.tokens
    source = np.arange(tokens.n) if tokens.source is None else tokens.source
    logits = np.einsum("ntd,de,ne->nt", tokens.keys[source], captured.W, tokens.queries)
    logits = np.where(tokens.present(), logits, -np.inf)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("flags", [{}, {"bias": False}, {"kdim": 5, "vdim": 7}], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_multihead_attends_as_captured(flags, masked):
    torch.manual_seed(0)
    B, L, S = 3, 4, 5
    layer = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.5, **flags).double()
    for x in layer.parameters():
        nn.init.normal_(x)
    x = torch.randn(B, L, 8).double()
    y, z = torch.randn(B, S, flags.get("kdim", 8)), torch.randn(B, S, flags.get("vdim", 8))
    batch = {"query": x, "key": y.double(), "value": z.double(), "average_attn_weights": False}
    if masked:
        batch["attn_mask"] = torch.ones(L, S, dtype=torch.bool).triu(2)
    found = [capture(layer, batch, head=h) for h in range(2)]
    assert layer.training
    layer.eval()
    truth = layer(**batch)[1].detach().numpy()  # (B, H, L, S)
    for h, one in enumerate(found):
        assert one.tokens.n == B * L and one.tokens.T == S
        mine = attention_of(one).reshape(B, L, S)
        np.testing.assert_allclose(mine, truth[:, h], atol=1e-12)
        K, Q = one.factors
        np.testing.assert_allclose(K @ Q.T, one.W, atol=1e-12)
        np.testing.assert_array_equal(one.tokens.X, z.double())
    last = capture(layer, batch, head=1, query="last", labels=[1, -1, 1])
    np.testing.assert_allclose(attention_of(last), truth[:, 1, -1], atol=1e-12)
    np.testing.assert_array_equal(last.tokens.labels, [1, -1, 1])
    np.testing.assert_allclose(
        attention_of(capture(layer, batch, query=1)), truth[:, 0, 1], atol=1e-12
    )


@pytest.mark.parametrize(
    ("kind", "key_heads"), [("plain", None), ("grouped", 2), ("repeated", 2), ("packed", None)]
)
def test_functional_attends_as_captured(kind, key_heads):
    torch.manual_seed(0)
    inner = Functional(kind=kind, key_heads=key_heads, is_causal=True).double()
    model = nn.Sequential(nn.Linear(12, 12).double(), inner)
    x = torch.randn(2, 5, 12).double()
    for head in range(4):
        found = capture(model, x, layer="1", head=head)
        q, k = inner.seen["q"][:, head], inner.seen["k"][:, head * inner.seen["k"].shape[1] // 4]
        logits = (q @ k.transpose(1, 2) / 3**0.5).masked_fill(~torch.ones(5, 5).tril().bool(), -9e9)
        truth = torch.softmax(logits, dim=-1).reshape(10, 5).numpy()
        np.testing.assert_allclose(attention_of(found), truth, atol=1e-12)


def test_evaluation_does_not_take_another_way():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval().requires_grad_(False)
    x = torch.randn(2, 3, 8)
    with pytest.raises(Unsupported, match=r"give layer=: layers\.0\.self_attn, layers\.1"):
        capture(model, x)
    assert capture(model, x, layer="layers.1.self_attn", head=1).W.shape == (8, 9)
    assert torch.backends.mha.get_fastpath_enabled()
    assert not any(part.training for part in model.modules())


def test_what_has_no_single_w_is_refused():
    torch.manual_seed(0)
    x = torch.randn(2, 4, 12)
    for kind in ("rotated", "normed"):
        with pytest.raises(Unsupported):
            capture(Functional(kind=kind), x)
    with pytest.raises(Unsupported, match="adds numbers to its logits"):
        capture(Functional(), (x, torch.randn(4, 4)))
    with pytest.raises(Unsupported, match=r"adds keys \(add_bias_kv"):
        capture(nn.MultiheadAttention(12, 2, add_zero_attn=True), (x, x, x))
    with pytest.raises(Unsupported, match=r"give attsvm\.Tokens and W"):
        capture(ByHand(), torch.randn(1, 2, 6))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"head": 4}, "attention heads of Functional are 0 to 3"),
        ({"layer": "x"}, "no layer 'x' has attended; these have: Functional"),
        ({"query": "middle"}, "'first', 'last'"),
        ({"query": 9}, "there are 4 places"),
        ({"labels": [1, 1]}, "8 queries were captured"),
    ],
)
def test_bad_requests_are_refused(options, said):
    with pytest.raises((Unsupported, BadTokens), match=said):
        capture(Functional(), torch.randn(2, 4, 12), **options)


@pytest.mark.parametrize("prompt", [True, False])
def test_one_layer_models_go_on_as_arrays_do(prompt):
    a = EXAMPLES["sphere"](4, 5, 3, seed=1)
    X, z, y = (torch.as_tensor(a[name]) for name in ("X", "z", "y"))
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[2, 3:] = False
    model = Attention(a["v"], shape=(3,) if prompt else (3, 3))
    nn.init.normal_(model.W, std=5.0)
    batch = {"X": X, "mask": mask, "keys": 2 * X} | ({} if prompt else {"z": z})
    found = capture(model, batch, labels=y)
    given = attsvm.Tokens(
        a["X"],
        keys=2 * a["X"],
        queries=None if prompt else a["z"],
        labels=a["y"],
        mask=mask.numpy(),
    )
    W = model.W.detach().numpy()
    for one in ("X", "keys", "queries", "labels", "mask"):
        np.testing.assert_array_equal(getattr(found.tokens, one), getattr(given, one))
    np.testing.assert_array_equal(found.W[:, 0] if prompt else found.W, W)
    mine = attsvm.outcome(found.W, found.tokens, found.v, optimizer="ngd", lr=0.1)
    theirs = attsvm.outcome(W, given, a["v"], optimizer="ngd", lr=0.1)
    assert mine.loss == theirs.loss and mine.state == theirs.state
    f = (attention_of(found)[:, :, None] * a["X"]).sum(axis=1) @ a["v"]
    np.testing.assert_allclose(model(**batch).detach().numpy(), f, atol=1e-12)
    loss = nn.functional.softplus(-y * model(**batch)).mean()
    assert loss.item() == pytest.approx(mine.loss, rel=1e-12)


def test_a_prompt_takes_no_queries_and_a_matrix_needs_them():
    with pytest.raises(BadTokens, match="give z"):
        Attention([1.0, 0.0], shape=(2, 2))(torch.zeros(1, 2, 2).double())
    with pytest.raises(BadTokens, match="shape is"):
        Attention([1.0, 0.0], shape=(2, 2, 2))


def said(name, capsys):
    """What an example prints."""
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    return capsys.readouterr().out


def test_the_example_that_is_proved(capsys):
    text = said("torch_proved.py", capsys)
    assert "converges, proved" in text
    assert text.endswith("this torch model has converged; the proof, checked again, holds\n")


def test_the_example_that_is_blocked(capsys):
    text = said("torch_blocked.py", capsys)
    assert "not proved: the selection is not locally optimal: token 4 of input 4" in text
    assert "input 4: token 4 is a tight neighbour of token 3 and scores 0.3241 more" in text
    assert text.endswith("785 exact steps later input 4 moves to token 4\n")


def test_a_head_of_a_live_model_is_a_view():
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(6, 2, batch_first=True).double()
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    _, shares = model(x, x, x, average_attn_weights=False)
    captured = capture(model, (x, x, x), head=1, query="last")
    view = captured.view(number=2)
    assert (view.layer, view.head) == (2, 1)
    np.testing.assert_allclose(view.attention(), shares[:, 1, -1].detach(), rtol=EXACTLY)
    assert list(view.positions) == [4, 4, 4]
    assert view.texts[0] == ("0", "1", "2", "3", "4")


def test_tokens_may_be_named_by_their_numbers():
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(6, 2, batch_first=True).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    captured = capture(model, (x, x, x), query="first")
    view = captured.view(ids=[[7, 8, 9], [9, 8, 7]], positions=[0, 0])
    assert view.texts == (("7", "8", "9"), ("9", "8", "7"))
    np.testing.assert_array_equal(view.positions, [0, 0])


def test_a_model_with_one_matrix_is_a_view():
    torch.manual_seed(0)
    model = Attention([0.0, 1.0], shape=(2, 2))
    with torch.no_grad():
        model.W.copy_(torch.randn(2, 2))
    x, z = torch.randn(2, 3, 3, 2, dtype=torch.float64).unbind(0)
    captured = capture(model, (x, z[:, 0]), labels=[1, 1, 1])
    view = captured.view()
    np.testing.assert_allclose(view.W, captured.W, rtol=EXACTLY)
    logits = np.einsum("ntd,de,ne->nt", captured.tokens.keys, captured.W, captured.tokens.queries)
    np.testing.assert_allclose(view.logits(), logits, rtol=EXACTLY)


@pytest.mark.parametrize(
    ("kind", "key_heads"), [("plain", None), ("grouped", 2), ("repeated", 2), ("packed", None)]
)
def test_outputs_of_the_views_are_those_of_the_layer(kind, key_heads):
    """Attention times values, head by head, through the output projection; masks as they are."""
    torch.manual_seed(0)
    layer = Functional(kind=kind, key_heads=key_heads, is_causal=True).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    views = [capture(layer, x, head=head).view() for head in range(4)]
    outputs = [np.einsum("nt,nth->nh", v.attention(), v.values) for v in views]
    made = layer.out(torch.as_tensor(np.concatenate(outputs, axis=1)))
    np.testing.assert_allclose(
        made.detach(), layer(x).detach().reshape(10, 12), rtol=EXACTLY, atol=EXACTLY
    )
    assert list(views[0].positions) == [*range(5), *range(5)]


def test_multihead_values_and_layers_are_kept():
    torch.manual_seed(0)
    one = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True, dropout=0.0).double()
    model = nn.TransformerEncoder(one, 2, enable_nested_tensor=False)
    x = torch.randn(2, 4, 8, dtype=torch.float64)
    padding = torch.tensor([[False] * 4, [False, False, False, True]])
    given = {"src": x, "src_key_padding_mask": padding}
    name = "layers.1.self_attn"
    views = [capture(model, given, layer=name, head=head).view() for head in range(2)]
    first = views[0]
    assert (first.layer, first.head, first.values.shape) == (1, 0, (7, 4, 4))
    assert list(first.positions) == [0, 1, 2, 3, 0, 1, 2]  # the padded place asks nothing
    attention = model.layers[1].self_attn
    seen = torch.as_tensor(first.keys[[0, 4]])
    truth = attention(seen, seen, seen, key_padding_mask=padding)[0].detach()
    outputs = np.concatenate(
        [np.einsum("nt,nth->nh", v.attention(), v.values) for v in views],
        axis=1,
    )
    made = attention.out_proj(torch.as_tensor(outputs)).detach()
    np.testing.assert_allclose(made, truth[~padding], rtol=EXACTLY, atol=EXACTLY)


def test_values_that_are_not_of_the_keys_are_refused():
    layer = nn.MultiheadAttention(6, 2, batch_first=True, vdim=3)
    x, z = torch.randn(1, 3, 6), torch.randn(1, 3, 3)
    captured = capture(layer, (x, x, z))
    with pytest.raises(Unsupported, match="the values are not a projection of the keys"):
        captured.view()
    assert len(repr(captured).splitlines()) < 10


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("transformers")
    try:
        return inspection.load("minilm")
    except Unsupported as missing:
        pytest.skip(str(missing))


def test_a_head_of_minilm_looks_at_the_token_before(minilm):
    texts = inspection.sample_texts("prose")[:31]
    batch = minilm.tokenizer(
        texts, max_length=16, truncation=True, padding=True, return_tensors="pt",
        return_special_tokens_mask=True,
    )  # fmt: skip
    special = batch.pop("special_tokens_mask").bool().numpy()
    captured = capture(
        minilm.model, dict(batch), layer="encoder.layer.0.attention.self", head=2, query=5
    )
    view = captured.view(ids=batch["input_ids"], special=special)
    (record,) = inspection.inspect_views([view], config=inspection.InspectionConfig.quick()).records
    assert (record["layer"], record["head"]) == (0, 2)
    assert (record["kind"], record["rule"]) == ("positional", "1 before")
    assert record["rule_agreement"] == 1.0


def test_eager_attention_is_told_to_be_sdpa():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8
    )
    model = transformers.BertModel._from_config(config, attn_implementation="eager")
    batch = {"input_ids": torch.tensor([[1, 2, 3]])}
    with pytest.raises(Unsupported, match=r'attn_implementation="sdpa"'):
        capture(model, batch)
    with Monitor(model) as monitor:
        model(**batch)
        with pytest.raises(Unsupported, match=r'attn_implementation="sdpa"'):
            monitor.step()
    model.set_attn_implementation("sdpa")
    assert capture(model, batch).layer == "encoder.layer.0.attention.self"
