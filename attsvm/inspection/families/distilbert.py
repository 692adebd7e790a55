"""DistilBERT: BERT with other names and without types of tokens."""

from __future__ import annotations

from attsvm.inspection.families.family import Config, ModelWeights, width_of
from attsvm.inspection.pieces import Mlp
from attsvm.inspection.transformer import Embedding, Layer, Transformer

_EPS = 1e-12  # the family has no entry for it


def read_distilbert(config: Config, weights: ModelWeights) -> Transformer:
    """The Transformer of a DistilBERT checkpoint."""
    weights = weights.under("distilbert.")
    d, heads = config.count("dim", "hidden_size"), config.count("n_heads", "num_attention_heads")
    wide, longest = config.count("hidden_dim"), config.count("max_position_embeddings")
    act, width = config.activation("activation", default="gelu"), width_of(config, d, heads)
    embedding = Embedding(
        weights.take("embeddings.word_embeddings.weight", config.count("vocab_size"), d),
        weights.take("embeddings.position_embeddings.weight", longest, d),
        norm=weights.norm("embeddings.LayerNorm", d, _EPS),
    )
    layers = tuple(
        Layer(
            query=weights.linear(f"{name}.attention.q_lin", d, d),
            key=weights.linear(f"{name}.attention.k_lin", d, d),
            value=weights.linear(f"{name}.attention.v_lin", d, d),
            out=weights.linear(f"{name}.attention.out_lin", d, d),
            scale=width**-0.5,
            after=weights.norm(f"{name}.sa_layer_norm", d, _EPS),
            mlp=Mlp(
                weights.linear(f"{name}.ffn.lin1", wide, d),
                weights.linear(f"{name}.ffn.lin2", d, wide),
                act,
            ),
            mlp_after=weights.norm(f"{name}.output_layer_norm", d, _EPS),
        )
        for name in (
            f"transformer.layer.{l}" for l in range(config.count("n_layers", "num_hidden_layers"))
        )
    )
    return Transformer(
        family="distilbert",
        embedding=embedding,
        layers=layers,
        heads=heads,
        groups=heads,
        width=width,
        features=d,
        longest=longest,
    )
