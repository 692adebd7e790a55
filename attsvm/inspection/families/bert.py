"""BERT: learned positions, norms after each part, a bias everywhere."""

from __future__ import annotations

from attsvm.errors import BadTokens
from attsvm.inspection.families.family import Config, ModelWeights, width_of
from attsvm.inspection.pieces import Mlp
from attsvm.inspection.transformer import Embedding, Layer, Transformer


def read_bert(config: Config, weights: ModelWeights) -> Transformer:
    """The Transformer of a BERT checkpoint."""
    return read_encoder(config, weights.under("bert."), family="bert")


def read_encoder(
    config: Config, weights: ModelWeights, *, family: str, first: int = 0
) -> Transformer:
    """The Transformer of BERT, or of RoBERTa. first: the row of the first position."""
    config.refuse("position_embedding_type", "absolute", "which adds positions to the logits")
    config.refuse("is_decoder", False, "which makes it causal")
    d, heads = config.count("hidden_size"), config.count("num_attention_heads")
    rows, eps = config.count("max_position_embeddings"), config.number("layer_norm_eps", 1e-12)
    if first >= rows:
        raise BadTokens(f"{config.where}: {rows} positions leave none after the padding's")
    embedding = Embedding(
        weights.take("embeddings.word_embeddings.weight", config.count("vocab_size"), d),
        weights.take("embeddings.position_embeddings.weight", rows, d),
        first=first,
        kind=weights.take(
            "embeddings.token_type_embeddings.weight", config.count("type_vocab_size", default=2), d
        )[0],
        norm=weights.norm("embeddings.LayerNorm", d, eps),
    )
    return Transformer(
        family=family,
        embedding=embedding,
        layers=_layers(config, weights),
        heads=heads,
        groups=heads,
        width=width_of(config, d, heads),
        features=d,
        longest=rows - first,
    )


def _layers(config: Config, weights: ModelWeights) -> tuple[Layer, ...]:
    """The layers of the encoder."""
    d, wide = config.count("hidden_size"), config.count("intermediate_size")
    scale = width_of(config, d, config.count("num_attention_heads")) ** -0.5
    eps = config.number("layer_norm_eps", 1e-12)
    act = config.activation("hidden_act", default="gelu")
    return tuple(
        Layer(
            query=weights.linear(f"{name}.attention.self.query", d, d),
            key=weights.linear(f"{name}.attention.self.key", d, d),
            value=weights.linear(f"{name}.attention.self.value", d, d),
            out=weights.linear(f"{name}.attention.output.dense", d, d),
            scale=scale,
            after=weights.norm(f"{name}.attention.output.LayerNorm", d, eps),
            mlp=Mlp(
                weights.linear(f"{name}.intermediate.dense", wide, d),
                weights.linear(f"{name}.output.dense", d, wide),
                act,
            ),
            mlp_after=weights.norm(f"{name}.output.LayerNorm", d, eps),
        )
        for name in (f"encoder.layer.{l}" for l in range(config.count("num_hidden_layers")))
    )
