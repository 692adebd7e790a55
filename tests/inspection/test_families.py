"""Every family on tiny random checkpoints: attention equal to that of slow loops."""

import numpy as np
import pytest

import attsvm
from attsvm.inspection.families import FAMILIES, Config, ModelWeights
from tests.inspection.tiny import CONFIGS, tensors


def body_of(kind, *, prefix="", **changed):
    """The Transformer of a tiny checkpoint, and its tensors."""
    config = CONFIGS[kind] | changed
    held = tensors(CONFIGS[kind])
    named = {prefix + name: array for name, array in held.items()}
    read = FAMILIES[config["model_type"]]
    return read(Config(config, "config.json"), ModelWeights(named, "model.safetensors")), held


def forward(body, ids, valid):
    """The attention (B, H, T, T) of every layer."""
    x, found = body.embedding(ids), []
    for layer in range(len(body.layers)):
        found.append(body.shares(layer, body.attention_input(layer, x), valid))
        x = body.step(layer, x, valid)
    return found


def test_every_family_is_tried():
    assert {config["model_type"] for config in CONFIGS.values()} >= set(FAMILIES) - {
        "xlm-roberta",
        "camembert",
    }


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [("bert", "bert."), ("roberta", "roberta."), ("gpt2", "transformer."), ("llama", "model.")],
)
def test_names_may_begin_with_the_family(kind, prefix):
    bare, _ = body_of(kind)
    named, _ = body_of(kind, prefix=prefix)
    ids, valid = np.array([[5, 6, 7]]), np.ones((1, 3), dtype=bool)
    for a, b in zip(forward(bare, ids, valid), forward(named, ids, valid), strict=True):
        np.testing.assert_array_equal(a, b)


def test_old_names_of_norms_are_read():
    body, held = body_of("bert")
    config = CONFIGS["bert"]
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in held.items()
    }
    assert old.keys() != held.keys()
    again = FAMILIES["bert"](Config(config, "config.json"), ModelWeights(old, "w"))
    ids, valid = np.array([[5, 6, 7]]), np.ones((1, 3), dtype=bool)
    for a, b in zip(forward(body, ids, valid), forward(again, ids, valid), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("bert", {"num_attention_heads": 3}, "3 attention heads do not divide 8"),
        ("bert", {"hidden_size": "wide"}, "hidden_size is 'wide'"),
        ("bert", {"hidden_size": None}, "no entry hidden_size"),
        ("bert", {"layer_norm_eps": "tiny"}, "layer_norm_eps is 'tiny'"),
        ("bert", {"vocab_size": 31}, r"\(30, 8\) and config.json makes it \(31, 8\)"),
        ("bert", {"num_hidden_layers": 3}, "no tensor encoder.layer.2.attention.self.query"),
        ("roberta", {"pad_token_id": 15}, "leave none after the padding's"),
        ("llama", {"num_key_value_heads": 3}, "3 attention heads of keys do not divide 4"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(kind, changed, message):
    with pytest.raises(attsvm.BadTokens, match=message):
        body_of(kind, **changed)


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("bert", {"position_embedding_type": "relative_key"}, "only 'absolute' is read"),
        ("bert", {"is_decoder": True}, "makes it causal"),
        ("bert", {"hidden_act": "mish"}, "activation 'mish' is not known here; known are gelu"),
        ("llama", {"rope_scaling": {"rope_type": "yarn"}}, "kind 'yarn' are not read"),
        ("qwen2", {"use_sliding_window": True}, "differs from layer to layer"),
        ("mistral", {"layer_types": ["full_attention", "sliding_attention"]}, "one is read"),
        ("gpt2", {"add_cross_attention": True}, "attends to another model"),
    ],
)
def test_what_has_no_single_matrix_or_name_is_refused(kind, changed, message):
    with pytest.raises(attsvm.Unsupported, match=message):
        body_of(kind, **changed)


def test_normalized_queries_are_refused():
    held = tensors(CONFIGS["llama"]) | {"layers.0.self_attn.q_norm.weight": np.ones(2)}
    with pytest.raises(attsvm.Unsupported, match="have no W at all"):
        FAMILIES["llama"](Config(CONFIGS["llama"], "config.json"), ModelWeights(held, "w"))


def test_weights_that_are_not_finite_are_refused():
    held = tensors(CONFIGS["bert"])
    held["encoder.layer.1.attention.self.key.weight"][0, 0] = np.nan
    with pytest.raises(attsvm.BadTokens, match=r"layer.1.attention.self.key.weight .*not finite"):
        FAMILIES["bert"](Config(CONFIGS["bert"], "config.json"), ModelWeights(held, "w"))
