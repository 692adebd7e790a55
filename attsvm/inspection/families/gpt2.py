"""GPT-2: causal, norms before each part, one matrix for queries, keys and values together."""

from __future__ import annotations

import numpy as np

from attsvm.inspection.families.family import Config, ModelWeights, width_of
from attsvm.inspection.pieces import LinearLayer, Mlp
from attsvm.inspection.transformer import Embedding, Layer, Transformer


def read_gpt2(config: Config, weights: ModelWeights) -> Transformer:
    """The Transformer of a GPT-2 checkpoint."""
    config.refuse("add_cross_attention", False, "which attends to another model as well")
    weights = weights.under("transformer.")
    d, heads = config.count("n_embd"), config.count("n_head")
    longest = config.count("n_positions")
    width = width_of(config, d, heads)
    embedding = Embedding(
        weights.take("wte.weight", config.count("vocab_size"), d),
        weights.take("wpe.weight", longest, d),
    )
    return Transformer(
        family="gpt2",
        embedding=embedding,
        layers=tuple(_layer(config, weights, l, width) for l in range(config.count("n_layer"))),
        heads=heads,
        groups=heads,
        width=width,
        features=d,
        longest=longest,
        causal=True,
    )


def _layer(config: Config, weights: ModelWeights, l: int, width: int) -> Layer:
    d, name = config.count("n_embd"), f"h.{l}"
    wide, eps = config.count("n_inner", default=4 * d), config.number("layer_norm_epsilon", 1e-5)
    query, key, value = (
        LinearLayer(weight, bias)
        for weight, bias in zip(*_thirds(weights, f"{name}.attn.c_attn", d), strict=True)
    )
    scale = width**-0.5 if config.entries.get("scale_attn_weights", True) else 1.0
    if config.entries.get("scale_attn_by_inverse_layer_idx"):
        scale /= l + 1
    return Layer(
        query=query,
        key=key,
        value=value,
        out=_transposed(weights, f"{name}.attn.c_proj", d, d),
        scale=scale,
        before=weights.norm(f"{name}.ln_1", d, eps),
        mlp_before=weights.norm(f"{name}.ln_2", d, eps),
        mlp=Mlp(
            _transposed(weights, f"{name}.mlp.c_fc", wide, d),
            _transposed(weights, f"{name}.mlp.c_proj", d, wide),
            config.activation("activation_function", default="gelu_new"),
        ),
    )


def _transposed(weights: ModelWeights, name: str, out: int, into: int) -> LinearLayer:
    """The map of a weight that is kept as (into, out)."""
    weight = np.ascontiguousarray(weights.take(f"{name}.weight", into, out).T)
    return LinearLayer(weight, weights.take(f"{name}.bias", out))


def _thirds(weights: ModelWeights, name: str, d: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The weights (d, d) and biases of queries, keys and values."""
    whole = _transposed(weights, name, 3 * d, d)
    return np.split(whole.weight, 3), np.split(whole.bias, 3)  # type: ignore[arg-type]
