"""Attention: the one-layer models of the papers as a module: one W or a prompt, a linear head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attsvm._utils.arrays import detached, numbers
from attsvm._utils.expected import listed, whole
from attsvm._utils.memory import require
from attsvm.errors import BadTokens


class Attention(nn.Module):
    """f(X, z) = v · Xᵀ softmax(keys W z), W (d, dq) trained from zero, the head v fixed.

    head: v (d,). shape: (d, dq) of W; (d,) for a prompt, whose logits are keys·p and which takes no
    queries. v is a buffer: a part of the state, and not trained. Everything is in double precision.

    >>> import torch
    >>> model = Attention([0.0, 1.0], shape=(2,))
    >>> model(torch.eye(2, dtype=torch.float64)[None]).item()
    0.5
    """

    v: Tensor

    def __init__(self, head: Any, *, shape: tuple[int, ...]) -> None:
        super().__init__()
        sizes = [whole(size, "shape", least=1) for size in listed(shape, "shape", of="numbers")]
        if len(sizes) not in (1, 2):
            raise BadTokens(f"shape is {tuple(sizes)}: it is (d, dq), or (d,) for a prompt")
        require(8.0 * math.prod(sizes), "W")
        self.W = nn.Parameter(torch.zeros(sizes, dtype=torch.float64))
        v = numbers(detached(head), "head").astype(np.float64)
        self.register_buffer("v", torch.from_numpy(v))

    def forward(
        self, X: Tensor, z: Tensor | None = None, keys: Tensor | None = None, mask: Any = None
    ) -> Tensor:
        """f of each input: X (n, T, d), z (n, dq), keys (n, T, d), mask (n, T) True for a token."""
        if self.W.ndim == 2:
            if z is None:
                raise BadTokens("W has queries: give z, or make a prompt with shape=(d,)")
            q = z @ self.W.T
        else:
            q = self.W.expand(len(X), -1)
        logits = ((X if keys is None else keys) @ q[:, :, None])[:, :, 0]
        if mask is not None:
            logits = logits.masked_fill(~mask, -torch.inf)
        attention = torch.softmax(logits, dim=1)
        return attention[:, None, :].matmul(X)[:, 0] @ self.v
