"""Network: a transformer encoder whose first token is read by a linear head.

    x ← x + O attend(N x),    x ← x + D gelu(U N x),    logits = head(N x_cls)

N is layer normalization. Keys, queries and values are modules of their own, called `key`, `query`
and `value`, so that weights can be read and Monitor and capture find them.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attsvm._utils.expected import expect, whole
from attsvm._utils.memory import require
from attsvm.errors import Unsupported


class Sizes(NamedTuple):
    """width: entries of a token. hidden: of the layer between. biases: of every linear map.

    spread: of a new embedding's entries; small, so that plain descent moves them.
    """

    width: int = 64
    layers: int = 2
    heads: int = 4
    hidden: int = 128
    dropout: float = 0.0
    biases: bool = True
    spread: float = 0.02


class SelfAttention(nn.Module):
    """Softmax attention of several heads, with separate maps for keys, queries and values."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        width, bias = sizes.width, sizes.biases
        self.key = nn.Linear(width, width, bias=bias)
        self.query = nn.Linear(width, width, bias=bias)
        self.value = nn.Linear(width, width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def _split(self, x: Tensor) -> Tensor:
        """(B, L, width) by heads: (B, H, L, width / H)."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None, first: bool = False) -> Tensor:
        """What the tokens of x (B, L, width) attend to; of the first token alone: (B, 1, width).

        mask: (B, 1, 1, L), True for a token that is there.
        """
        q = self._split(self.query(x[:, :1] if first else x))
        k, v = self._split(self.key(x)), self._split(self.value(x))
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        mixed: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return mixed

    def probabilities(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """The attention of each token over all: (B, H, L, L), rows that sum to 1."""
        q, k = self._split(self.query(x)), self._split(self.key(x))
        logits = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        if mask is not None:
            logits = logits.masked_fill(~mask, -torch.inf)
        return torch.softmax(logits, dim=-1)


class Block(nn.Module):
    """Attention, then two linear maps, each on normalized tokens and added to them."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(sizes.width, bias=sizes.biases)
        self.attend = SelfAttention(sizes)
        self.norm2 = nn.LayerNorm(sizes.width, bias=sizes.biases)
        self.up = nn.Linear(sizes.width, sizes.hidden, bias=sizes.biases)
        self.down = nn.Linear(sizes.hidden, sizes.width, bias=sizes.biases)
        self.drop = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, first: bool = False) -> Tensor:
        """The tokens (B, L, width) one layer on; with `first` the first alone."""
        mixed = self.attend(self.norm1(x), mask, first)
        x = (x[:, :1] if first else x) + self.drop(mixed)
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Network(nn.Module):
    """A classifier; a subclass turns a batch into tokens, the first of them [cls].

    forward(batch) gives logits (B, classes), attention(batch) the attention of every layer.
    """

    def __init__(self, sizes: Sizes, classes: int) -> None:
        super().__init__()
        expect(sizes, Sizes, "sizes")
        if min(sizes.width, sizes.layers, sizes.heads, sizes.hidden) < 1:
            raise Unsupported("width, layers, heads and hidden are numbers of at least 1")
        if sizes.width % sizes.heads:
            raise Unsupported(
                f"width is {sizes.width}: it must be a multiple of {sizes.heads} heads"
            )
        if not 0 <= sizes.dropout < 1:
            raise Unsupported(f"dropout is {sizes.dropout:g}: it must lie in [0, 1)")
        require(4.0 * whole(classes, "classes", least=2) * sizes.width, "the head")
        self.blocks = nn.ModuleList([Block(sizes) for _ in range(sizes.layers)])
        self.norm = nn.LayerNorm(sizes.width, bias=sizes.biases)
        self.head = nn.Linear(sizes.width, classes, bias=sizes.biases)

    def tokens(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Tokens (B, L, width) and the mask (B, 1, 1, L) of those that are there, or None."""
        raise NotImplementedError

    def forward(self, batch: Tensor) -> Tensor:
        """Logits (B, classes). The last layer looks from the first token alone."""
        x, mask = self.tokens(batch)
        for block in self.blocks[:-1]:
            x = block(x, mask)
        x = self.blocks[-1](x, mask, True)
        logits: Tensor = self.head(self.norm(x[:, 0]))
        return logits

    def attention(self, batch: Tensor) -> list[Tensor]:
        """The attention (B, H, L, L) of each layer, from every token to every token."""
        maps = []
        x, mask = self.tokens(batch)
        for block in cast("list[Block]", list(self.blocks)):
            maps.append(block.attend.probabilities(block.norm1(x), mask))
            x = block(x, mask)
        return maps

    @property
    def projections(self) -> dict[str, list[nn.Parameter]]:
        """The weights K, Q and V of each layer, (width, width) each: rows are outputs."""
        names = {"K": "key", "Q": "query", "V": "value"}
        return {
            letter: [getattr(block.attend, name).weight for block in self.blocks]
            for letter, name in names.items()
        }

    @property
    def embeddings(self) -> list[nn.Parameter]:
        """The parameters that make tokens of a batch."""
        own = {id(x) for part in (self.blocks, self.norm, self.head) for x in part.parameters()}
        return [x for x in self.parameters() if id(x) not in own]
