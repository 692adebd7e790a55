"""Call: one attention call of a running model, as far as it can be read without changing it.

Logits are scale · q·k plus what the mask adds. Queries and keys come as tensors (B, H, L, dh), or
as the layer's inputs (B, L, d) with the projections that make q and k of them, so that only those
that are looked at need be computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# Keys of a call that are looked at, about.
KEYS = 4096


class Projection(NamedTuple):
    """x ↦ M x + b, M some rows of a weight (columns where `across`), b some of a bias.

    weight, bias: the parameters themselves, as the optimizer knows them.
    """

    weight: Tensor
    bias: Tensor | None = None
    rows: slice = slice(None)
    bias_rows: slice = slice(None)
    across: bool = False

    def matrix(self, heads: int) -> Tensor:
        """M by heads, (heads, dh, d), in the weight's own memory where it can be."""
        M = self.weight.detach()
        M = (M.T if self.across else M)[self.rows]
        return M.reshape(heads, -1, M.shape[1])

    def vector(self, heads: int) -> Tensor | None:
        """b by heads, (heads, dh)."""
        if self.bias is None:
            return None
        return self.bias.detach()[self.bias_rows].reshape(heads, -1)

    def of(self, x: Tensor, heads: int) -> Tensor:
        """q or k of inputs (…, d), as (…, heads, dh)."""
        M, b = self.matrix(heads), self.vector(heads)
        flat = M.reshape(-1, M.shape[2])
        x = x.detach().to(flat.dtype)
        out = nn.functional.linear(x, flat, None if b is None else b.reshape(-1))
        return out.reshape(*x.shape[:-1], heads, -1)


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attention.

    layer: its name in the model. heads: H; keys may have fewer, each for H/Hk queries in turn.
    size: (B, L, S), extra keys not counted. q (B, H, L, dh), k (B, Hk, S, dh): None where the
    projections make them. mask: booleans, True where a key is present, or numbers that are added,
    of a shape that broadcasts to (B, H, L, S). extra: keys (H, dh) behind all others, which no mask
    hides; extra_weights: the parameters among them. inputs: what the layer read for queries, keys
    and values. single: the one W of a model with logits x·W z; then `query` and `key` are None.
    key_heads: how many heads the projections of keys and values have, H unless given. value: the
    projection of values, None where it is not known.
    """

    layer: str
    heads: int
    size: tuple[int, int, int]
    scale: float
    q: Tensor | None = None
    k: Tensor | None = None
    mask: Tensor | None = None
    causal: bool = False
    query: Projection | None = None
    key: Projection | None = None
    extra: Sequence[Tensor] = ()
    extra_weights: Sequence[Tensor] = ()
    inputs: tuple[Tensor, Tensor, Tensor] | None = None
    single: Tensor | None = None
    key_heads: int | None = None
    value: Projection | None = None

    def logits(self, b: Tensor, l: Tensor) -> tuple[Tensor, Tensor]:
        """(scale · q·k, the same with what masks add: −inf where no key is), each (nb, H, m, S).

        b (nb,): sequences; l (nb, m): places of queries in them.
        """
        rows = b[:, None]
        if self.q is not None:
            q = self.q.detach()[rows, :, l]
        else:
            x, M = self._need(0)
            q = M.of(x[rows, l], self.heads)
        if self.k is not None:
            k = self.k.detach()[b]
        else:
            x, M = self._need(1)
            k = M.of(x[b], self.key_heads or self.heads).transpose(1, 2)
        kind = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        q, k = q.to(kind).transpose(1, 2), k.to(kind)
        if k.shape[1] != self.heads:
            k = k.repeat_interleave(self.heads // k.shape[1], dim=1)
        for more in self.extra:
            one = more.detach().to(kind).reshape(1, self.heads, 1, -1)
            k = torch.cat([k, one.expand(len(k), -1, -1, -1)], dim=2)
        raw = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        added = self.added(b, l, raw.dtype)
        return raw, raw if added is None else raw + added

    def added(self, b: Tensor, l: Tensor, kind: torch.dtype) -> Tensor | None:
        """What masks add, (nb, H or 1, m, S); −inf where no key is, None without a mask."""
        B, L, S = self.size
        out: Tensor | None = None
        if self.mask is not None:
            mask = self.mask.detach()
            while mask.ndim < 4:
                mask = mask[None]
            mask = mask.expand(B, -1, L, S)[b[:, None], :, l].transpose(1, 2)
            out = _additive(mask, kind)
        if self.causal:
            later = torch.arange(S, device=l.device) > l[..., None]
            shut = _additive(~later, kind)[:, None]
            out = shut if out is None else out + shut
        if out is not None and self.extra:
            out = nn.functional.pad(out, (0, len(self.extra)))
        return out

    def _need(self, side: int) -> tuple[Tensor, Projection]:
        """The input and projection of the queries (0) or the keys (1)."""
        M = (self.query, self.key)[side]
        if self.inputs is None or M is None:
            raise RuntimeError("a call has q and k, or inputs and projections")
        return self.inputs[side], M

    def weights(self) -> tuple[Tensor, Tensor] | None:
        """(A, K) in double precision with W = scale · Kᵀ A for each head; None where not known.

        A = [W_Q b_q] (H, dh, dq + 1), K = W_K (H, dh, d); the bias of keys moves all logits of a
        query alike and is left out. Without a bias A has no last column.
        """
        if self.single is not None:
            W = self.single.detach().double()
            W = W[:, None] if W.ndim == 1 else W
            return W[None], torch.eye(len(W), dtype=W.dtype, device=W.device)[None]
        if self.query is None or self.key is None:
            return None
        A, b = self.query.matrix(self.heads).double(), self.query.vector(self.heads)
        if b is not None:
            A = torch.cat([A, b.double()[..., None]], dim=2)
        return A, self._by_heads(self.key.matrix(self.key_heads or self.heads))

    def values(self) -> tuple[Tensor, Tensor] | None:
        """(V (H, dh, d), shift (H, dh)) in double precision, the values V x + shift of each head.

        None where they are not known, or are not of the inputs that the keys are of.
        """
        if self.value is None or self.inputs is None:
            return None
        if self.inputs[2] is not self.inputs[1] and not torch.equal(*self.inputs[1:]):
            return None
        heads = self.key_heads or self.heads
        V, shift = self.value.matrix(heads), self.value.vector(heads)
        shift = torch.zeros_like(V[..., 0]) if shift is None else shift
        return self._by_heads(V), self._by_heads(shift)

    def _by_heads(self, x: Tensor) -> Tensor:
        """What keys or values have by their own heads, as the H heads use it."""
        return x.double().repeat_interleave(self.heads // len(x), dim=0)


def _additive(mask: Tensor, kind: torch.dtype) -> Tensor:
    """A mask as numbers to add, −inf for what is shut.

    Libraries also shut keys by the least number of a type, which is −inf in all but name.
    """
    if mask.dtype == torch.bool:
        shut = ~mask
        mask = torch.zeros(mask.shape, dtype=kind, device=mask.device)
    else:
        shut = mask <= torch.finfo(mask.dtype).min / 2
        mask = mask.to(kind)
    return mask.masked_fill(shut, -torch.inf)


@lru_cache(maxsize=8)
def sample(size: tuple[int, int, int], most: int, turn: int, device: Any) -> tuple[Tensor, Tensor]:
    """(b (nb,), l (nb, m)): at most `most` queries, evenly over sequences and places.

    Of long sequences few are opened, 16 queries in each, because each needs all its keys. turn:
    moves the choice on from one record to the next. No random number is drawn: that would change
    the training.
    """
    B, L, S = size
    nb = max(1, min(B, most // min(L, 16, most), max(4, KEYS // S)))
    m = max(1, min(L, most // nb))
    b = (torch.arange(nb, device=device) * B // nb + turn) % B
    start = (torch.arange(nb, device=device)[:, None] * 7 + turn * 3) % max(L // m, 1)
    l = (torch.arange(m, device=device) * L // m)[None] + start
    return b, l.clamp(max=L - 1)
