"""Every family once more, for one text, by loops in double precision, without code of attsvm."""

from math import cos, erf, exp, pi, sin, sqrt, tanh
from typing import Any

import numpy as np

Tensors = dict[str, np.ndarray]


def attention_of(config: dict[str, Any], tensors: Tensors, ids: list[int]) -> list[np.ndarray]:
    """The attention (heads, T, T) of every layer in the order in which the layers run."""
    w = {name: array.astype(np.float64) for name, array in tensors.items()}
    encoders = dict.fromkeys(("bert", "roberta", "albert", "distilbert"), _encoder)
    return (encoders | {"gpt2": _gpt2}).get(config["model_type"], _llama)(config, w, ids)


def _gelu(x: float) -> float:
    return 0.5 * x * (1 + erf(x / sqrt(2)))


def _gelu_new(x: float) -> float:
    return 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))


def _silu(x: float) -> float:
    return x / (1 + exp(-x))


def _each(function: Any, x: np.ndarray) -> np.ndarray:
    return np.array([[function(float(one)) for one in row] for row in x])


def _affine(w: Tensors, name: str, x: np.ndarray) -> np.ndarray:
    rows = []
    for row in x:
        y = w[f"{name}.weight"] @ row
        rows.append(y + w[f"{name}.bias"] if f"{name}.bias" in w else y)
    return np.array(rows)


def _layer_norm(w: Tensors, name: str, x: np.ndarray, eps: float) -> np.ndarray:
    rows = []
    for row in x:
        centred = row - sum(row) / len(row)
        spread = sqrt(sum(centred**2) / len(row) + eps)
        rows.append(w[f"{name}.weight"] * centred / spread + w[f"{name}.bias"])
    return np.array(rows)


def _rms(scale: np.ndarray, x: np.ndarray, eps: float) -> np.ndarray:
    return np.array([scale * row / sqrt(sum(row**2) / len(row) + eps) for row in x])


def _softmax(logits: dict[int, float], T: int) -> np.ndarray:
    top = max(logits.values())
    whole = sum(exp(l - top) for l in logits.values())
    out = np.zeros(T)
    for t, l in logits.items():
        out[t] = exp(l - top) / whole
    return out


def _heads(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, heads: int, scale: float, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Attention (heads, T, T) and the heads' outputs side by side (T, heads · h)."""
    T, h = len(q), q.shape[1] // heads
    shares = np.zeros((heads, T, T))
    out = np.zeros((T, heads * h))
    for a in range(heads):
        part = slice(a * h, (a + 1) * h)
        for s in range(T):
            seen = range(s + 1) if causal else range(T)
            shares[a, s] = _softmax({t: scale * float(q[s, part] @ k[t, part]) for t in seen}, T)
            out[s, part] = sum(shares[a, s, t] * v[t, part] for t in range(T))
    return shares, out


def _embedded(w: Tensors, ids: list[int], first: int, eps: float) -> np.ndarray:
    rows = []
    for t, number in enumerate(ids):
        row = w["embeddings.word_embeddings.weight"][number].copy()
        row += w["embeddings.position_embeddings.weight"][first + t]
        if "embeddings.token_type_embeddings.weight" in w:
            row += w["embeddings.token_type_embeddings.weight"][0]
        rows.append(row)
    return _layer_norm(w, "embeddings.LayerNorm", np.array(rows), eps)


# The layer of a checkpoint, and its parts: query, key, value and output of attention, the norm
# after it, both parts of the perceptron, and the norm after that.
_BERT = (
    "encoder.layer.{}",
    *(f"attention.self.{part}" for part in ("query", "key", "value")),
    "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense",
    "output.LayerNorm",
)  # fmt: skip
_ALBERT = (
    "encoder.albert_layer_groups.{}.albert_layers.0",
    *(f"attention.{part}" for part in ("query", "key", "value", "dense", "LayerNorm")),
    "ffn", "ffn_output", "full_layer_layer_norm",
)  # fmt: skip
_DISTILBERT = (
    "transformer.layer.{}",
    *(f"attention.{part}_lin" for part in ("q", "k", "v", "out")),
    "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm",
)  # fmt: skip


def _encoder(c: dict[str, Any], w: Tensors, ids: list[int]) -> list[np.ndarray]:
    """BERT, RoBERTa, ALBERT and DistilBERT: the same layer by other names."""
    kind, eps = c["model_type"], c.get("layer_norm_eps", 1e-12)
    H, L = (c.get(f"num_{long}", c.get(short)) for long, short in
            (("attention_heads", "n_heads"), ("hidden_layers", "n_layers")))  # fmt: skip
    place, *parts = {"albert": _ALBERT, "distilbert": _DISTILBERT}.get(kind, _BERT)
    x, found = _embedded(w, ids, 2 if kind == "roberta" else 0, eps), []
    if kind == "albert":
        x = _affine(w, "encoder.embedding_hidden_mapping_in", x)
    for l in range(L):
        group = l if kind != "albert" else int(l / (L / c["num_hidden_groups"]))
        *qkv, out, norm, wide, narrow, last = (f"{place.format(group)}.{part}" for part in parts)
        q, k, v = (_affine(w, name, x) for name in qkv)
        shares, y = _heads(q, k, v, heads=H, scale=1 / sqrt(x.shape[1] // H), causal=False)
        y = _layer_norm(w, norm, x + _affine(w, out, y), eps)
        z = _each(_gelu_new if kind == "albert" else _gelu, _affine(w, wide, y))
        x = _layer_norm(w, last, y + _affine(w, narrow, z), eps)
        found.append(shares)
    return found


def _conv(w: Tensors, name: str, x: np.ndarray) -> np.ndarray:
    return np.array([row @ w[f"{name}.weight"] + w[f"{name}.bias"] for row in x])


def _gpt2(c: dict[str, Any], w: Tensors, ids: list[int]) -> list[np.ndarray]:
    eps, H, d = c["layer_norm_epsilon"], c["n_head"], c["n_embd"]
    x = np.array([w["wte.weight"][number] + w["wpe.weight"][t] for t, number in enumerate(ids)])
    found = []
    for l in range(c["n_layer"]):
        s = _conv(w, f"h.{l}.attn.c_attn", _layer_norm(w, f"h.{l}.ln_1", x, eps))
        scale = 1 / sqrt(d // H)
        if c.get("scale_attn_by_inverse_layer_idx"):
            scale /= l + 1
        q, k, v = s[:, :d], s[:, d : 2 * d], s[:, 2 * d :]
        shares, y = _heads(q, k, v, heads=H, scale=scale, causal=True)
        x = x + _conv(w, f"h.{l}.attn.c_proj", y)
        z = _each(_gelu_new, _conv(w, f"h.{l}.mlp.c_fc", _layer_norm(w, f"h.{l}.ln_2", x, eps)))
        x = x + _conv(w, f"h.{l}.mlp.c_proj", z)
        found.append(shares)
    return found


def _angle(c: dict[str, Any], pair: int, h: int) -> float:
    """Radians per position of a pair of features."""
    said = c.get("rope_parameters") or c.get("rope_scaling") or {}
    angle = said.get("rope_theta", c["rope_theta"]) ** (-2 * pair / h)
    if said.get("rope_type") == "linear":
        return angle / said["factor"]
    if said.get("rope_type") == "llama3":
        length, old = 2 * pi / angle, said["original_max_position_embeddings"]
        low, high = said["low_freq_factor"], said["high_freq_factor"]
        if length > old / low:
            return angle / said["factor"]
        if length >= old / high:
            part = (old / length - low) / (high - low)
            return (1 - part) * angle / said["factor"] + part * angle
    return angle


def _turned(c: dict[str, Any], x: np.ndarray, h: int) -> np.ndarray:
    """Every head of every row turned by its position, pair by pair."""
    out = x.copy()
    for t in range(len(x)):
        for start in range(0, x.shape[1], h):
            for i in range(h // 2):
                a, b = start + i, start + i + h // 2
                turn = t * _angle(c, i, h)
                out[t, a] = x[t, a] * cos(turn) - x[t, b] * sin(turn)
                out[t, b] = x[t, b] * cos(turn) + x[t, a] * sin(turn)
    return out


def _llama(c: dict[str, Any], w: Tensors, ids: list[int]) -> list[np.ndarray]:
    eps, H, G = c["rms_norm_eps"], c["num_attention_heads"], c["num_key_value_heads"]
    h = c.get("head_dim", c["hidden_size"] // H)
    x, found = np.array([w["embed_tokens.weight"][number] for number in ids]), []
    for l in range(c["num_hidden_layers"]):
        n = f"layers.{l}"
        s = _rms(w[f"{n}.input_layernorm.weight"], x, eps)
        q, k, v = (_affine(w, f"{n}.self_attn.{p}_proj", s) for p in "qkv")
        q, k = _turned(c, q, h), _turned(c, k, h)
        shares, out = np.zeros((H, len(x), len(x))), np.zeros((len(x), H * h))
        for a in range(H):
            mine = slice(a * h, (a + 1) * h)
            group = a // (H // G)
            theirs = slice(group * h, (group + 1) * h)
            for i in range(len(x)):
                first = max(0, i + 1 - c["sliding_window"]) if c.get("sliding_window") else 0
                logits = {
                    t: float(q[i, mine] @ k[t, theirs]) / sqrt(h) for t in range(first, i + 1)
                }
                shares[a, i] = _softmax(logits, len(x))
                out[i, mine] = shares[a, i] @ v[:, theirs]
        x = x + _affine(w, f"{n}.self_attn.o_proj", out)
        s = _rms(w[f"{n}.post_attention_layernorm.weight"], x, eps)
        gate = _each(_silu, _affine(w, f"{n}.mlp.gate_proj", s))
        x = x + _affine(w, f"{n}.mlp.down_proj", gate * _affine(w, f"{n}.mlp.up_proj", s))
        found.append(shares)
    return found
