"""A live torch model's head as a View."""

import numpy as np
import pytest
import torch
from torch import nn

from attsvm import inspection as lens
from attsvm.errors import Unsupported
from attsvm.inspection.checkpoints import folder_of
from attsvm.torch import Attention, Monitor, capture
from tests.tolerances import EXACTLY
from tests.torch.attending import Functional


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
    outputs = [
        np.einsum("nt,nth->nh", v.attention(), v.keys @ v.value_factor.T + v.value_shift)
        for v in views
    ]
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
    assert (first.layer, first.head, first.value_factor.shape) == (1, 0, (4, 8))
    assert list(first.positions) == [0, 1, 2, 3, 0, 1, 2]  # the padded place asks nothing
    attention = model.layers[1].self_attn
    seen = torch.as_tensor(first.keys[[0, 4]])
    truth = attention(seen, seen, seen, key_padding_mask=padding)[0].detach()
    outputs = np.concatenate(
        [
            np.einsum("nt,nth->nh", v.attention(), v.keys @ v.value_factor.T + v.value_shift)
            for v in views
        ],
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
    transformers = pytest.importorskip("transformers")
    try:
        folder, _ = folder_of("minilm")
    except Unsupported as missing:
        pytest.skip(str(missing))
    return transformers.AutoModel.from_pretrained(folder).eval()


def test_a_head_of_minilm_looks_at_the_token_before(minilm):
    read = lens.load("minilm").reader.encoded(
        lens.sample_texts("prose")[:24], length=16, longest=512
    )
    batch = {
        "input_ids": torch.as_tensor(read.ids),
        "attention_mask": torch.as_tensor(read.valid).long(),
    }
    captured = capture(minilm, batch, layer="encoder.layer.0.attention.self", head=2, query=5)
    view = captured.view(ids=batch["input_ids"], special=read.special)
    (record,) = lens.inspect_views([view], plan=lens.InspectionConfig.quick()).records
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
