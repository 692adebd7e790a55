"""TextClassifier: a small transformer on numbered words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attsvm._utils.expected import whole
from attsvm._utils.memory import require
from attsvm.errors import BadTokens
from attsvm.torch.networks.network import Network, Sizes


class TextClassifier(Network):
    """Classes of texts: word and position embeddings, a transformer, a head on the first token.

    vocabulary: how many numbers there are; 0 fills up short texts and is not looked at. length:
    the most words of a text, the first token not counted.

    >>> import torch
    >>> made = TextClassifier(10, length=4, classes=2, sizes=Sizes(width=8, heads=2))
    >>> batch = torch.tensor([[2, 5, 6, 0], [2, 7, 8, 9]])
    >>> made(batch).shape, [tuple(a.shape) for a in made.attention(batch)]
    (torch.Size([2, 2]), [(2, 2, 4, 4), (2, 2, 4, 4)])
    """

    def __init__(
        self, vocabulary: int, *, length: int, classes: int, sizes: Sizes | None = None
    ) -> None:
        sizes = Sizes() if sizes is None else sizes
        super().__init__(sizes, classes)
        for name, size in (("vocabulary", vocabulary), ("length", length)):
            require(4.0 * whole(size, name, least=1) * sizes.width, name)
        self.words = nn.Embedding(vocabulary, sizes.width, padding_idx=0)
        self.places = nn.Embedding(length + 1, sizes.width)
        with torch.no_grad():
            for table in (self.words, self.places):
                table.weight.mul_(sizes.spread)

    def tokens(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Tokens of numbered words (B, L), L at most length + 1, and which are words."""
        if batch.ndim != 2 or not 0 < batch.shape[1] <= self.places.num_embeddings:
            raise BadTokens(
                f"the batch has shape {tuple(batch.shape)}: it must be texts × at most "
                f"{self.places.num_embeddings} numbers, [cls] with them"
            )
        x = self.words(batch) + self.places.weight[: batch.shape[1]]
        # No row is without a token: [cls] is one even where a batch has padding in its place.
        there = batch != 0
        there[:, 0] = True
        return x, None if bool(there.all()) else there[:, None, None, :]
