"""ALBERT: one layer, or a few, used again and again; words are narrower than the stream."""

from __future__ import annotations

from attsvm.inspection.families.family import Config, ModelWeights, width_of
from attsvm.inspection.pieces import Mlp
from attsvm.inspection.transformer import Embedding, Layer, Transformer


def read_albert(config: Config, weights: ModelWeights) -> Transformer:
    """The Transformer of an ALBERT checkpoint: its layers in the order in which they run."""
    config.refuse("position_embedding_type", "absolute", "which adds positions to the logits")
    weights = weights.under("albert.")
    d, heads = config.count("hidden_size"), config.count("num_attention_heads")
    narrow, longest = config.count("embedding_size"), config.count("max_position_embeddings")
    eps = config.number("layer_norm_eps", 1e-12)
    embedding = Embedding(
        weights.take("embeddings.word_embeddings.weight", config.count("vocab_size"), narrow),
        weights.take("embeddings.position_embeddings.weight", longest, narrow),
        kind=weights.take(
            "embeddings.token_type_embeddings.weight",
            config.count("type_vocab_size", default=2),
            narrow,
        )[0],
        norm=weights.norm("embeddings.LayerNorm", narrow, eps),
        widen=weights.linear("encoder.embedding_hidden_mapping_in", d, narrow),
    )
    # One layer may run any number of times, so that no tensor bounds this.
    runs = config.count("num_hidden_layers", most=1000)
    groups = config.count("num_hidden_groups", default=1)
    inner = config.count("inner_group_num", default=1)
    once = [[_layer(config, weights, g, i) for i in range(inner)] for g in range(groups)]
    layers = tuple(layer for run in range(runs) for layer in once[run * groups // runs])
    return Transformer(
        family="albert",
        embedding=embedding,
        layers=layers,
        heads=heads,
        groups=heads,
        width=width_of(config, d, heads),
        features=d,
        longest=longest,
    )


def _layer(config: Config, weights: ModelWeights, group: int, inner: int) -> Layer:
    name = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
    d, wide = config.count("hidden_size"), config.count("intermediate_size")
    eps = config.number("layer_norm_eps", 1e-12)
    return Layer(
        query=weights.linear(f"{name}.attention.query", d, d),
        key=weights.linear(f"{name}.attention.key", d, d),
        value=weights.linear(f"{name}.attention.value", d, d),
        out=weights.linear(f"{name}.attention.dense", d, d),
        scale=width_of(config, d, config.count("num_attention_heads")) ** -0.5,
        after=weights.norm(f"{name}.attention.LayerNorm", d, eps),
        mlp=Mlp(
            weights.linear(f"{name}.ffn", wide, d),
            weights.linear(f"{name}.ffn_output", d, wide),
            config.activation("hidden_act", default="gelu_new"),
        ),
        mlp_after=weights.norm(f"{name}.full_layer_layer_norm", d, eps),
    )
