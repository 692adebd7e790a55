"""Small transformers for experiments on real data, and the one-layer models of the papers.

    x ← x + O attend(N x),    x ← x + D gelu(U N x),    logits = head(N x_cls)

N is layer normalization. Keys, queries and values are separate modules, called `key`, `query` and
`value`, so that their weights can be read and Monitor and capture find them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attsvm._utils.arrays import detached, numbers
from attsvm._utils.expected import listed, whole
from attsvm._utils.memory import require
from attsvm.errors import BadTokens, Unsupported

if TYPE_CHECKING:
    from attsvm.torch.config import TrainConfig


class SelfAttention(nn.Module):
    """Softmax attention of several heads, with separate maps for keys, queries and values."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__()
        self.heads = config.heads
        width = config.width
        self.key = nn.Linear(width, width)
        self.query = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def _split(self, x: Tensor) -> Tensor:
        """(B, L, width) by heads: (B, H, L, width / H)."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None, first: bool = False) -> Tensor:
        """Attention output of the tokens of x (B, L, width), or of the first alone (B, 1, width).

        mask: (B, 1, 1, L), True for a token that is present.
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


class TransformerBlock(nn.Module):
    """Attention, then two linear maps, each on normalized tokens and added to them."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attend = SelfAttention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, config.hidden)
        self.down = nn.Linear(config.hidden, config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, first: bool = False) -> Tensor:
        """The tokens (B, L, width) one layer on; with `first` the first alone."""
        mixed = self.attend(self.norm1(x), mask, first)
        x = (x[:, :1] if first else x) + self.drop(mixed)
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Network(nn.Module):
    """A classifier; a subclass turns a batch into tokens, the first of them [cls].

    forward(batch) gives logits (B, classes), attention(batch) the attention of every layer.
    """

    def __init__(self, config: TrainConfig, classes: int) -> None:
        super().__init__()
        if config.width % config.heads:
            raise Unsupported(
                f"width is {config.width}: it must be a multiple of {config.heads} attention heads"
            )
        if config.dropout >= 1:
            raise Unsupported(f"dropout is {config.dropout:g}: it must lie in [0, 1)")
        self.blocks = nn.ModuleList([TransformerBlock(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, classes)

    def tokens(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Tokens (B, L, width) and the mask (B, 1, 1, L) of those that are present, or None."""
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
        for block in cast("list[TransformerBlock]", list(self.blocks)):
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


@torch.no_grad()
def _spread(size: float, *tables: nn.Embedding) -> None:
    """Makes the entries of new embeddings, drawn from a standard normal, this large."""
    for table in tables:
        table.weight.mul_(size)


class TextClassifier(Network):
    """Classifies texts: word and position embeddings, a transformer, a prediction head on [cls].

    vocabulary: how many numbers there are; 0 is padding.
    """

    def __init__(self, config: TrainConfig, classes: int, vocabulary: int) -> None:
        super().__init__(config, classes)
        self.words = nn.Embedding(vocabulary, config.width, padding_idx=0)
        self.places = nn.Embedding(config.length + 1, config.width)
        _spread(config.spread, self.words, self.places)

    def tokens(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Tokens of numbered words (B, L), L at most length + 1, and which are words."""
        x = self.words(batch) + self.places.weight[: batch.shape[1]]
        # [cls] is present even where a batch has padding in its place, so no row is empty.
        there = batch != 0
        there[:, 0] = True
        return x, None if bool(there.all()) else there[:, None, None, :]


class ImageClassifier(Network):
    """Classifies grey images: patches with positions, a transformer, a prediction head on [cls].

    shape: height and width of the images, multiples of the config's patch.
    """

    def __init__(self, config: TrainConfig, classes: int, shape: Sequence[int]) -> None:
        super().__init__(config, classes)
        height, width = shape
        self.patch = P = config.patch
        if height % P or width % P:
            raise Unsupported(f"patch is {P}: it must divide images of {height} × {width}")
        self.patches = nn.Linear(P * P, config.width)
        self.places = nn.Embedding((height // P) * (width // P) + 1, config.width)
        self.cls = nn.Embedding(1, config.width)
        _spread(config.spread, self.places, self.cls)

    def tokens(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Tokens of images (B, height, width), row by row of patches; none is hidden."""
        P = self.patch
        cut = batch.unflatten(2, (-1, P)).unflatten(1, (-1, P))  # (B, rows, P, columns, P)
        x = self.patches(cut.transpose(2, 3).flatten(3).flatten(1, 2))
        x = torch.cat([self.cls.weight.expand(len(x), 1, -1), x], dim=1)
        return x + self.places.weight, None


class Attention(nn.Module):
    """The one-layer model of the papers, f(X, z) = v · Xᵀ softmax(keys W z), in double precision.

    W is trained from zero. The prediction head v is fixed: a buffer, part of the state.

    Parameters
    ----------
    head : array (d,)
        The prediction head v.
    shape : tuple of int
        (d, dq) of W; (d,) for a prompt, whose logits are keys·p and which takes no queries.

    Examples
    --------
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
