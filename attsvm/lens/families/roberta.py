"""RoBERTa: BERT whose positions begin after the padding's."""

from __future__ import annotations

from attsvm.errors import BadTokens
from attsvm.lens.families.bert import encoder_layers
from attsvm.lens.families.family import Config, Weights, width_of
from attsvm.lens.transformer import Embedding, Transformer


def read_roberta(config: Config, weights: Weights) -> Transformer:
    """The Transformer of a RoBERTa checkpoint, or of one of its kin in other languages."""
    config.refuse("position_embedding_type", "absolute", "which adds positions to the logits")
    config.refuse("is_decoder", False, "which makes it causal")
    weights = weights.under("roberta.")
    d, heads = config.count("hidden_size"), config.count("num_attention_heads")
    rows, eps = config.count("max_position_embeddings"), config.number("layer_norm_eps", 1e-5)
    first = int(config.number("pad_token_id", 1)) + 1
    if first >= rows:
        raise BadTokens(f"{config.where}: {rows} positions leave none after the padding's")
    embedding = Embedding(
        weights.take("embeddings.word_embeddings.weight", config.count("vocab_size"), d),
        weights.take("embeddings.position_embeddings.weight", rows, d),
        first=first,
        kind=weights.take(
            "embeddings.token_type_embeddings.weight", config.count("type_vocab_size", default=1), d
        )[0],
        norm=weights.norm("embeddings.LayerNorm", d, eps),
    )
    return Transformer(
        family="roberta",
        embedding=embedding,
        layers=encoder_layers(config, weights),
        heads=heads,
        groups=heads,
        width=width_of(config, d, heads),
        features=d,
        longest=rows - first,
    )
