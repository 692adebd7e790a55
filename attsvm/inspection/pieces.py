"""The pieces a transformer layer is made of: linear maps, norms, activations, small networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """x ↦ A x + b with A = weight (out, in) and b = bias (out,), or without a bias."""

    weight: Floats32
    bias: Floats32 | None = None

    def __call__(self, x: Floats32) -> Floats32:
        """A x + b for every row of x (…, in)."""
        flat = x.reshape(-1, x.shape[-1]) @ self.weight.T
        if self.bias is not None:
            flat += self.bias
        return flat.reshape(*x.shape[:-1], len(self.weight))


@dataclass(frozen=True, eq=False)
class NormLayer:
    """x ↦ scale (x − mean) / √(variance + eps) + shift.

    Without a shift it is the RMS norm: scale x / √(mean of x² + eps), no mean taken off.
    """

    scale: Floats32
    shift: Floats32 | None
    eps: float

    def __call__(self, x: Floats32) -> Floats32:
        """Every row of x (…, d) normalized."""
        if self.shift is not None:
            x = x - x.mean(axis=-1, keepdims=True)
        size = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(self.eps))
        out = x / size * self.scale
        if self.shift is not None:
            out += self.shift
        return out


def normed(norm: NormLayer | None, x: Floats32) -> Floats32:
    """x through the norm, or x itself where there is none."""
    return x if norm is None else norm(x)


@dataclass(frozen=True, eq=False)
class Mlp:
    """x ↦ down(act(up(x))); with a gate, down(act(gate(x)) · up(x))."""

    up: LinearLayer
    down: LinearLayer
    act: Callable[[Floats32], Floats32]
    gate: LinearLayer | None = None

    def __call__(self, x: Floats32) -> Floats32:
        """The network at every row of x (…, d)."""
        if self.gate is None:
            return self.down(self.act(self.up(x)))
        return self.down(self.act(self.gate(x)) * self.up(x))


def gelu(x: Floats32) -> Floats32:
    """x Φ(x), with Φ the normal distribution.

    >>> gelu(np.array([0.0, 1.0], dtype=np.float32)).round(4)
    array([0.    , 0.8413], dtype=float32)
    """
    out: Floats32 = x * np.float32(0.5) * (1 + erf(x * np.float32(0.5**0.5)))
    return out


def gelu_tanh(x: Floats32) -> Floats32:
    """x Φ(x) with Φ by a hyperbolic tangent."""
    inner = np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x * x * x)
    return x * np.float32(0.5) * (1 + np.tanh(inner))


def silu(x: Floats32) -> Floats32:
    """x / (1 + e⁻ˣ)."""
    return x * np.float32(0.5) * (1 + np.tanh(x * np.float32(0.5)))


def relu(x: Floats32) -> Floats32:
    """max(x, 0)."""
    return np.maximum(x, np.float32(0))


# By the names that configurations use.
ACTIVATIONS: dict[str, Callable[[Floats32], Floats32]] = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_fast": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": relu,
    "silu": silu,
    "swish": silu,
}
