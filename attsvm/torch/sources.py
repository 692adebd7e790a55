"""Where attention is read: nn.MultiheadAttention, scaled_dot_product_attention, one's own reader.

Nothing here runs the model; a call is made of what the model has at hand while it runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attsvm.errors import Unsupported
from attsvm.torch.calls import Call, Projection
from attsvm.torch.models import Attention

# Names under which attention modules keep the projections of queries, keys and values.
TRIPLES = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q_lin", "k_lin", "v_lin"),
    ("to_q", "to_k", "to_v"),
    ("wq", "wk", "wv"),
    ("w_q", "w_k", "w_v"),
    ("W_q", "W_k", "W_v"),
    ("Wq", "Wk", "Wv"),
    ("q", "k", "v"),
)
# One projection for queries, keys and values in this order.
PACKED = ("c_attn", "qkv", "qkv_proj", "in_proj", "Wqkv", "to_qkv")
NAMES = frozenset(name for triple in TRIPLES for name in triple) | frozenset(PACKED)


class Reading(NamedTuple):
    """What a function of one's own yields for one layer.

    q (B, H, L, dh) or (B, L, dh), k likewise, with H or fewer heads. mask: booleans, True where a
    key is present, or numbers that are added to logits, broadcast to (B, H, L, S). scale: 1/√dh
    unless given. weights: (W_Q, W_K), each (H·dh, d), the parameters themselves; without them no
    norm of W_QK and no ceiling is known. inputs: what they are applied to, (B, L, d), (B, S, d).

    >>> import torch
    >>> q = torch.zeros(1, 2, 5, 4)  # one input, two heads, five queries of width four
    >>> Reading("block 1", q, q, causal=True).layer
    'block 1'
    """

    layer: str
    q: Tensor
    k: Tensor
    mask: Tensor | None = None
    scale: float | None = None
    causal: bool = False
    weights: tuple[Tensor, Tensor] | None = None
    inputs: tuple[Tensor, Tensor] | None = None


class Seen(NamedTuple):
    """A projection that ran inside an attention module: itself, its input, its output."""

    module: nn.Module
    x: Tensor
    out: Tensor


def call_of_reading(given: Any) -> Call:
    """The call of what a user's function yields. Raises Unsupported where it is no such thing."""
    try:
        read = Reading(*given)
    except TypeError:
        raise Unsupported(
            "the function yields tuples (layer, q, k) or attsvm.torch.Reading, this is "
            f"{type(given).__name__}"
        ) from None
    q, k = (x[:, None] if x.ndim == 3 else x for x in (read.q, read.k))
    if q.ndim != 4 or k.ndim != 4 or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise Unsupported(
            f"{read.layer}: q has shape {tuple(read.q.shape)} and k {tuple(read.k.shape)}: they "
            "must be (B, H, L, dh) and (B, H, S, dh), or both without heads"
        )
    if q.shape[1] % k.shape[1]:
        raise Unsupported(f"{read.layer}: {q.shape[1]} heads of q over {k.shape[1]} of k")
    made: dict[str, Any] = {}
    if read.weights is not None:
        made["query"], made["key"] = (Projection(W) for W in read.weights)
        if read.inputs is not None:
            made["inputs"] = (*read.inputs, read.inputs[1])
    return _of_tensors(
        read.layer, q, k, mask=read.mask, causal=read.causal, scale=read.scale, **made
    )


def _of_tensors(
    layer: str, q: Tensor, k: Tensor, *, scale: float | None, causal: bool, **more: Any
) -> Call:
    return Call(
        layer,
        heads=q.shape[1],
        size=(q.shape[0], q.shape[2], k.shape[2]),
        scale=1 / math.sqrt(q.shape[3]) if scale is None else float(scale),
        q=q,
        k=k,
        causal=bool(causal),
        **({"key_heads": k.shape[1]} | more),
    )


def call_of_function(layer: str, given: Mapping[str, Any], seen: Mapping[str, Seen]) -> Call | None:
    """The call of scaled_dot_product_attention with these arguments, by name; None if nested.

    seen: the projections that ran in the same module. Their weights are taken for those of q and k
    only where every query and key has the length that they gave it (rotations keep it), those of
    values where they are unchanged.
    """
    q, k, v, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    if q.is_nested or k.is_nested or q.ndim < 3:
        return None
    if q.ndim > 4 or k.ndim != q.ndim:
        return None
    if q.ndim == 3:
        q, k, v = q[:, None], k[:, None], v[:, None]
        mask = mask[:, None] if mask is not None and mask.ndim == 3 else mask
    made = _projections(q, k, v, seen)
    return _of_tensors(
        layer,
        q,
        k,
        mask=mask,
        causal=bool(given.get("is_causal", False)),
        scale=given.get("scale"),
        **made,
    )


def _projections(q: Tensor, k: Tensor, v: Tensor, seen: Mapping[str, Seen]) -> dict[str, Any]:
    """The projections of q (B, H, L, dh), k and v (B, Hk, S, dh) among those seen, and inputs."""
    wide = [x.shape[1] * x.shape[3] for x in (q, k, v)]
    names = next((names for names in TRIPLES if names[0] in seen and names[1] in seen), None)
    if names is not None:
        ends = [(seen.get(name), slice(None)) for name in names]
    else:
        packed = next((seen[name] for name in PACKED if name in seen), None)
        ends = [(packed, slice(sum(wide[:i]), sum(wide[: i + 1]))) for i in range(3)]
    query, key = (_projection(*end, x) for end, x in zip(ends, (q, k), strict=False))
    if query is None or key is None or ends[0][0] is None or ends[1][0] is None:
        return {}
    made = {"query": query[0], "key": key[0], "key_heads": key[1]}
    inputs = [ends[0][0].x, ends[1][0].x, ends[1][0].x]
    value = _projection(*ends[2], v, whole=True)
    if value is not None and value[1] == key[1] and ends[2][0] is not None:
        made["value"], inputs[2] = value[0], ends[2][0].x
    return made | {"inputs": tuple(inputs)}


def _projection(
    found: Seen | None, part: slice, x: Tensor, *, whole: bool = False
) -> tuple[Projection, int] | None:
    """What made x (B, H, L, dh), and of how many heads; None unless it gave every part its length.

    whole: its entries too. One sequence is enough to see whether something stands in between.
    """
    if found is None:
        return None
    out, x, width = found.out.detach()[:1, ..., part], x.detach()[:1], x.shape[3]
    if out.ndim != 3 or out.shape[-1] % width or x.shape[1] % (out.shape[-1] // width):
        return None
    if out.shape[0] != x.shape[0] or out.shape[1] != x.shape[2]:
        return None
    heads = out.shape[-1] // width
    mine = out.reshape(*out.shape[:2], heads, width).transpose(1, 2).float()
    mine, theirs = mine.repeat_interleave(x.shape[1] // heads, dim=1), x.float()
    if not whole:
        mine, theirs = mine.norm(dim=-1), theirs.norm(dim=-1)
    close = 1e-4 if x.dtype in (torch.float32, torch.float64) else 2e-2
    if not torch.allclose(mine, theirs, rtol=close, atol=close * 1e-2):
        return None
    weight: Any = found.module.weight
    bias: Any = getattr(found.module, "bias", None)
    across = type(found.module).__name__ == "Conv1D"  # weights (in, out)
    return Projection(weight, bias, part, part, across), heads


def call_of_multihead(layer: str, module: nn.MultiheadAttention, given: Mapping[str, Any]) -> Call:
    """The call of nn.MultiheadAttention with these arguments, by name."""
    x, y, z = given["query"], given["key"], given["value"]
    pad, mask = given.get("key_padding_mask"), given.get("attn_mask")
    if x.ndim == 2:
        x, y, z = x[None], y[None], z[None]
        pad = None if pad is None else pad[None]
    elif not module.batch_first:
        x, y, z = (t.transpose(0, 1) for t in (x, y, z))
    H, E = module.num_heads, module.embed_dim
    B, L, S = x.shape[0], x.shape[1], y.shape[1]
    bias = module.in_proj_bias
    packed: Tensor | None = module.in_proj_weight
    if packed is not None:
        query = Projection(packed, bias, slice(E), slice(E))
        key = Projection(packed, bias, slice(E, 2 * E), slice(E, 2 * E))
        value = Projection(packed, bias, slice(2 * E, 3 * E), slice(2 * E, 3 * E))
    else:
        query = Projection(module.q_proj_weight, bias, bias_rows=slice(E))
        key = Projection(module.k_proj_weight, bias, bias_rows=slice(E, 2 * E))
        value = Projection(module.v_proj_weight, bias, bias_rows=slice(2 * E, 3 * E))
    extra, extra_weights = [], []
    if module.bias_k is not None:
        extra.append(module.bias_k.reshape(H, -1))
        extra_weights.append(module.bias_k)
    if module.add_zero_attn:
        extra.append(torch.zeros(H, E // H, dtype=x.dtype, device=x.device))
    return Call(
        layer,
        heads=H,
        size=(B, L, S),
        scale=1 / math.sqrt(E // H),
        mask=_merged(mask, pad, B, H),
        query=query,
        key=key,
        value=value,
        extra=extra,
        extra_weights=extra_weights,
        inputs=(x, y, z),
    )


def _merged(mask: Tensor | None, pad: Tensor | None, B: int, H: int) -> Tensor | None:
    """The masks of nn.MultiheadAttention, where True hides, as numbers (B, H, L, S) to add."""

    def numbers(x: Tensor) -> Tensor:
        if x.dtype != torch.bool:
            return x.detach()
        return torch.zeros(x.shape, device=x.device).masked_fill(x, -torch.inf)

    out = None
    if mask is not None:
        out = numbers(mask)
        out = out.reshape(B, H, *out.shape[1:]) if out.ndim == 3 else out[None, None]
    if pad is not None:
        shut = numbers(pad)[:, None, None, :]
        out = shut if out is None else out + shut
    return out


def call_of_single(layer: str, module: Attention, given: Mapping[str, Any]) -> Call:
    """The call of attention with one W."""
    X, z, keys, mask = given["X"], given.get("z"), given.get("keys"), given.get("mask")
    keys = X if keys is None else keys
    z = torch.ones(len(X), 1, dtype=X.dtype, device=X.device) if z is None else z
    W = module.W if module.W.ndim == 2 else module.W[:, None]
    return Call(
        layer,
        heads=1,
        size=(len(X), 1, X.shape[1]),
        scale=1.0,
        q=(z.detach() @ W.detach().T)[:, None, None],
        k=keys[:, None],
        mask=None if mask is None else mask[:, None, None],
        inputs=(z[:, None], keys, X),
        single=module.W,
    )
