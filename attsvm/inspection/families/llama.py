"""Llama and its kin: causal, rotary positions, grouped queries, RMS norms before each part."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.families.family import Config, ModelWeights, width_of
from attsvm.inspection.pieces import LinearLayer, Mlp, NormLayer
from attsvm.inspection.transformer import Embedding, Layer, Rotary, Transformer


def read_llama(config: Config, weights: ModelWeights) -> Transformer:
    """The Transformer of a Llama checkpoint, of Mistral's or of Qwen2's."""
    config.refuse("use_sliding_window", False, "which differs from layer to layer")
    weights = weights.under("model.")
    d, heads = config.count("hidden_size"), config.count("num_attention_heads")
    groups = config.count("num_key_value_heads", default=heads)
    if heads % groups:
        raise BadTokens(
            f"{config.where}: {groups} attention heads of keys do not divide {heads} of queries"
        )
    given = config.entries.get("head_dim")
    width = width_of(config, d, heads) if given is None else config.count("head_dim")
    kinds = {str(kind) for kind in _list(config, "layer_types")}
    if len(kinds) > 1:
        raise Unsupported(
            f"{config.where}: layer_types are {', '.join(sorted(kinds))}; one is read"
        )
    slides = config.entries.get("sliding_window") and kinds != {"full_attention"}
    if config.entries.get("model_type") == "qwen2" and not kinds:
        slides = None  # it names a window that it does not use
    return Transformer(
        family=str(config.entries.get("model_type", "llama")),
        embedding=Embedding(weights.take("embed_tokens.weight", config.count("vocab_size"), d)),
        layers=tuple(
            _layer(config, weights, f"layers.{l}", (heads * width, groups * width, width))
            for l in range(config.count("num_hidden_layers"))
        ),
        heads=heads,
        groups=groups,
        width=width,
        features=d,
        longest=config.count("max_position_embeddings"),
        causal=True,
        window=config.count("sliding_window") if slides else None,
        rotary=_rotary(config, width),
    )


def _list(config: Config, name: str) -> list[Any]:
    """An entry that is a list; an empty one where it is missing."""
    value = config.entries.get(name)
    if value is not None and not isinstance(value, list):
        raise BadTokens(f"{config.where}: {name} is {value!r}; it must be a list")
    return value or []


def _layer(config: Config, weights: ModelWeights, name: str, sizes: tuple[int, int, int]) -> Layer:
    asked, kept, width = sizes
    d, wide = config.count("hidden_size"), config.count("intermediate_size")
    eps = config.number("rms_norm_eps", 1e-6)
    if weights.find(f"{name}.self_attn.q_norm.weight") is not None:
        raise Unsupported(
            f"{weights.where}: {name} normalizes queries after their projection, so that its "
            "attention heads have no W at all"
        )

    def linear(part: str, out: int, into: int) -> LinearLayer:
        bias = weights.find(f"{name}.{part}.bias") is not None
        return weights.linear(f"{name}.{part}", out, into, bias=bias)

    def norm(part: str) -> NormLayer:
        return NormLayer(weights.take(f"{name}.{part}.weight", d), None, eps)

    return Layer(
        query=linear("self_attn.q_proj", asked, d),
        key=linear("self_attn.k_proj", kept, d),
        value=linear("self_attn.v_proj", kept, d),
        out=linear("self_attn.o_proj", d, asked),
        scale=width**-0.5,
        before=norm("input_layernorm"),
        mlp_before=norm("post_attention_layernorm"),
        mlp=Mlp(
            linear("mlp.up_proj", wide, d),
            linear("mlp.down_proj", d, wide),
            config.activation("hidden_act", default="silu"),
            linear("mlp.gate_proj", wide, d),
        ),
    )


def _rotary(config: Config, width: int) -> Rotary:
    """The angles per position of each pair, stretched as the configuration says."""
    if width % 2:
        raise BadTokens(
            f"{config.where}: attention heads of odd width {width} have no rotary positions"
        )
    named = config.entries.get("rope_parameters") or config.entries.get("rope_scaling") or {}
    if not isinstance(named, dict):
        raise BadTokens(f"{config.where}: the entries of rotary positions are {named!r}")
    said = Config(named, config.where)
    base = said.number("rope_theta", config.number("rope_theta", 10000.0), least=1.0)
    angles = base ** (-np.arange(0, width, 2) / width)
    kind = named.get("rope_type", named.get("type", "default"))
    if kind == "default":
        return Rotary(angles)
    if kind == "linear":
        return Rotary(angles / said.number("factor", least=1e-3))
    if kind == "llama3":
        return Rotary(_stretched(angles, said))
    raise Unsupported(
        f"{config.where}: rotary positions of kind {kind!r} are not read; default, linear and "
        "llama3 are"
    )


def _stretched(angles: Floats, said: Config) -> Floats:
    """Angles as Llama 3 stretches them: slow ones by a factor, fast ones not at all."""
    factor = said.number("factor", least=1e-3)
    old = said.number("original_max_position_embeddings", least=1.0)
    low, high = said.number("low_freq_factor"), said.number("high_freq_factor")
    if not high > low:
        raise BadTokens(f"{said.where}: high_freq_factor is {high}; it must be above {low}")
    turns = old * angles / (2 * np.pi)  # in the old length
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return angles * ((1 - smooth) / factor + smooth)
