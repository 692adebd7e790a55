"""The forward pass of a Transformer by torch: for models that NumPy would walk through slowly.

The same sums in single precision; only the order in which they are added up differs, so that
attention agrees within a few roundings. On the processor, where the weights are.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools
from attsvm.inspection.pieces import (
    Floats32,
    LinearLayer,
    Mlp,
    NormLayer,
    gelu,
    gelu_tanh,
    relu,
    silu,
)
from attsvm.inspection.transformer import Layer, Transformer

# Multiplications of a forward pass from which torch is worth its loading.
MANY = 1e12
Step = Callable[[int, Floats32, Bools], Floats32]


def forward_of(body: Transformer, tokens: int) -> Step:
    """How so many tokens go through a layer: by torch where it is installed and pays."""
    weights = sum(x.size for layer in body.layers for x in _matrices(layer))
    if weights * tokens < MANY or find_spec("torch") is None or not _known(body):
        return body.step
    return TorchForward(body).step


def _matrices(layer: Layer) -> list[Floats32]:
    mlp = layer.mlp
    linear = [layer.query, layer.key, layer.value, layer.out, mlp.up, mlp.down]
    return [part.weight for part in linear + ([] if mlp.gate is None else [mlp.gate])]


def _known(body: Transformer) -> bool:
    """Whether torch has the activations; a custom family may have others."""
    return all(layer.mlp.act in (gelu, gelu_tanh, relu, silu) for layer in body.layers)


class TorchForward:
    """The layers of a Transformer, each by torch's own operations."""

    def __init__(self, body: Transformer) -> None:
        self.body = body

    def step(self, layer: int, x: Floats32, valid: Bools) -> Floats32:
        """`Transformer.step`: the stream (B, T, d) after a layer."""
        import torch

        part = self.body.layers[layer]
        with torch.inference_mode():
            stream = _at(np.ascontiguousarray(x))
            s = self._norm(part.before, stream)
            mixed = torch.matmul(self._shares(part, s, valid), self._heads(part.value, s))
            B, H, T, h = mixed.shape
            out = self._linear(part.out, mixed.transpose(1, 2).reshape(B, T, H * h))
            stream = self._norm(part.after, stream + out)
            more = self._mlp(part.mlp, self._norm(part.mlp_before, stream))
            stream = self._norm(part.mlp_after, stream + more)
            made: Floats32 = stream.numpy()
        return made

    def _shares(self, part: Layer, s: Any, valid: Bools) -> Any:
        """The attention (B, H, T, T)."""
        import torch

        body, T = self.body, s.shape[1]
        q, k = self._heads(part.query, s), self._heads(part.key, s)
        if body.rotary is not None:
            cos, sin = (_at(a.astype(np.float32)) for a in body.rotary(np.arange(T)))
            q, k = (x * cos + _rotated(x) * sin for x in (q, k))
        logits = torch.matmul(q, k.transpose(2, 3)) * part.scale
        open_ = body.sight(T) & valid[:, None, :]
        open_[~open_.any(axis=2), 0] = True
        logits.masked_fill_(~_at(open_)[:, None], -torch.inf)
        return torch.softmax(logits, dim=-1)

    def _heads(self, linear: LinearLayer, s: Any) -> Any:
        """(B, H, T, h) of a projection; key heads as the query heads share them."""
        B, T, _ = s.shape
        found = self._linear(linear, s).reshape(B, T, -1, self.body.width).transpose(1, 2)
        times = self.body.heads // found.shape[1]
        return found if times == 1 else found.repeat_interleave(times, dim=1)

    def _linear(self, linear: LinearLayer, x: Any) -> Any:
        import torch

        bias = None if linear.bias is None else _at(linear.bias)
        return torch.nn.functional.linear(x, _at(linear.weight), bias)

    def _norm(self, norm: NormLayer | None, x: Any) -> Any:
        import torch

        if norm is None:
            return x
        if norm.shift is not None:
            x = x - x.mean(dim=-1, keepdim=True)
        size = torch.sqrt(x.square().mean(dim=-1, keepdim=True) + norm.eps)
        out = x / size * _at(norm.scale)
        return out if norm.shift is None else out + _at(norm.shift)

    def _mlp(self, mlp: Mlp, x: Any) -> Any:
        up = self._linear(mlp.up, x)
        if mlp.gate is None:
            return self._linear(mlp.down, _activation(mlp)(up))
        return self._linear(mlp.down, _activation(mlp)(self._linear(mlp.gate, x)) * up)


def _at(x: Any) -> Any:
    """An array as a tensor, its memory shared unless it may not be written to."""
    import torch

    return torch.from_numpy(x if x.flags.writeable else x.copy())


def _activation(mlp: Mlp) -> Any:
    from torch.nn import functional as F

    known: dict[Any, Any] = {
        gelu: F.gelu,
        gelu_tanh: lambda x: F.gelu(x, approximate="tanh"),
        relu: F.relu,
        silu: F.silu,
    }
    return known[mlp.act]


def _rotated(x: Any) -> Any:
    import torch

    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], dim=-1)
