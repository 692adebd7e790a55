"""Tiny checkpoints of every family, with random weights: configurations, tensors by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 30
_BERT = {
    "vocab_size": WORDS,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}
_LLAMA = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 100.0,
    "hidden_act": "silu",
}
_GPT2 = {
    "model_type": "gpt2",
    "vocab_size": WORDS,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 16,
    "n_inner": None,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
}
_STRETCH = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
    "rope_theta": 100.0,
}

CONFIGS: dict[str, dict[str, Any]] = {
    "bert": _BERT | {"model_type": "bert"},
    "roberta": _BERT | {"model_type": "roberta", "pad_token_id": 1, "type_vocab_size": 1},
    "albert": _BERT
    | {
        "model_type": "albert",
        "embedding_size": 4,
        "num_hidden_layers": 4,
        "num_hidden_groups": 2,
        "inner_group_num": 1,
        "hidden_act": "gelu_new",
    },
    "distilbert": {
        "model_type": "distilbert",
        "vocab_size": WORDS,
        "dim": 8,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 12,
        "max_position_embeddings": 16,
        "activation": "gelu",
    },
    "gpt2": _GPT2,
    "gpt2-by-layer": _GPT2 | {"scale_attn_by_inverse_layer_idx": True, "n_inner": 12},
    "llama": _LLAMA | {"model_type": "llama"},
    "llama-wide": _LLAMA | {"model_type": "llama", "head_dim": 6},
    "llama3": _LLAMA | {"model_type": "llama", "head_dim": 6, "rope_parameters": _STRETCH},
    "llama-linear": _LLAMA
    | {"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 3.0}},
    "mistral": _LLAMA | {"model_type": "mistral", "sliding_window": 3},
    "qwen2": _LLAMA | {"model_type": "qwen2", "use_sliding_window": False},
}


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor that the checkpoint of a configuration holds."""
    kind = config["model_type"]
    return {
        "bert": _bert,
        "roberta": _bert,
        "albert": _albert,
        "distilbert": _distilbert,
        "gpt2": _gpt2,
    }.get(kind, _llama)(config)


def _linear(name: str, out: int, into: int, *, bias: bool = True) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {f"{name}.weight": (out, into)}
    return found | ({f"{name}.bias": (out,)} if bias else {})


def _norm(name: str, d: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (d,), f"{name}.bias": (d,)}


def _embeddings(c: dict[str, Any], d: int) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (WORDS, d),
        "embeddings.position_embeddings.weight": (c["max_position_embeddings"], d),
    }
    if "type_vocab_size" in c:
        found["embeddings.token_type_embeddings.weight"] = (c["type_vocab_size"], d)
    return found | _norm("embeddings.LayerNorm", d)


def _bert(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    d, wide = c["hidden_size"], c["intermediate_size"]
    found = _embeddings(c, d)
    for l in range(c["num_hidden_layers"]):
        name = f"encoder.layer.{l}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            found |= _linear(f"{name}.attention.{part}", d, d)
        found |= _norm(f"{name}.attention.output.LayerNorm", d)
        found |= _linear(f"{name}.intermediate.dense", wide, d)
        found |= _linear(f"{name}.output.dense", d, wide) | _norm(f"{name}.output.LayerNorm", d)
    return found


def _albert(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    d, wide, narrow = c["hidden_size"], c["intermediate_size"], c["embedding_size"]
    found = _embeddings(c, narrow) | _linear("encoder.embedding_hidden_mapping_in", d, narrow)
    for g in range(c["num_hidden_groups"]):
        for i in range(c["inner_group_num"]):
            name = f"encoder.albert_layer_groups.{g}.albert_layers.{i}"
            for part in ("query", "key", "value", "dense"):
                found |= _linear(f"{name}.attention.{part}", d, d)
            found |= _norm(f"{name}.attention.LayerNorm", d) | _linear(f"{name}.ffn", wide, d)
            found |= _linear(f"{name}.ffn_output", d, wide)
            found |= _norm(f"{name}.full_layer_layer_norm", d)
    return found


def _distilbert(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    d, wide = c["dim"], c["hidden_dim"]
    found = _embeddings(c, d)
    for l in range(c["n_layers"]):
        name = f"transformer.layer.{l}"
        for part in ("q_lin", "k_lin", "v_lin", "out_lin"):
            found |= _linear(f"{name}.attention.{part}", d, d)
        found |= _norm(f"{name}.sa_layer_norm", d) | _norm(f"{name}.output_layer_norm", d)
        found |= _linear(f"{name}.ffn.lin1", wide, d) | _linear(f"{name}.ffn.lin2", d, wide)
    return found


def _gpt2(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    d = c["n_embd"]
    wide = c["n_inner"] or 4 * d
    found: dict[str, tuple[int, ...]] = {
        "wte.weight": (WORDS, d),
        "wpe.weight": (c["n_positions"], d),
    }
    sizes = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, wide)}
    for l in range(c["n_layer"]):
        for part, (into, out) in (sizes | {"mlp.c_proj": (wide, d)}).items():
            found |= {f"h.{l}.{part}.weight": (into, out), f"h.{l}.{part}.bias": (out,)}
        found |= _norm(f"h.{l}.ln_1", d) | _norm(f"h.{l}.ln_2", d)
    return found | _norm("ln_f", d)


def _llama(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    d, wide = c["hidden_size"], c["intermediate_size"]
    H, G = c["num_attention_heads"], c["num_key_value_heads"]
    h, bias = c.get("head_dim", d // H), c["model_type"] == "qwen2"
    found: dict[str, tuple[int, ...]] = {"embed_tokens.weight": (WORDS, d), "norm.weight": (d,)}
    for l in range(c["num_hidden_layers"]):
        name = f"layers.{l}"
        for part, heads in (("q", H), ("k", G), ("v", G)):
            found |= _linear(f"{name}.self_attn.{part}_proj", heads * h, d, bias=bias)
        found |= _linear(f"{name}.self_attn.o_proj", d, H * h, bias=False)
        for part in ("gate_proj", "up_proj"):
            found |= _linear(f"{name}.mlp.{part}", wide, d, bias=False)
        found |= _linear(f"{name}.mlp.down_proj", d, wide, bias=False)
        found |= {
            f"{name}.input_layernorm.weight": (d,),
            f"{name}.post_attention_layernorm.weight": (d,),
        }
    return found


def tensors(config: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Random tensors of a configuration, loud enough for attention that is far from even."""
    rng = np.random.default_rng(seed)
    return {
        name: (0.9 * rng.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes(config).items()
    }


def write(folder: Path, kind: str, *, prefix: str = "", seed: int = 0) -> Path:
    """The folder, with config.json, model.safetensors and tokenizer.json of a tiny checkpoint."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIGS[kind]
    (folder / "config.json").write_text(json.dumps(config))
    held = {prefix + name: array for name, array in tensors(config, seed).items()}
    save_file(held, folder / "model.safetensors")
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of the words a, b, c and so on, between [CLS] and [SEP]."""
    import tokenizers

    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = {word: k for k, word in enumerate([*marks, *"abcdefghijklmnopqrstuvwxyz"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.add_special_tokens(marks)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.save(str(folder / "tokenizer.json"))
