"""ImageClassifier: a small vision transformer on square patches of grey images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attsvm.errors import BadTokens, Unsupported
from attsvm.torch.networks.network import Network, Sizes


class ImageClassifier(Network):
    """Classes of grey images: linear patches with places, a transformer, a head on a first token.

    shape: height and width of the images, multiples of patch.

    >>> import torch
    >>> made = ImageClassifier((8, 8), patch=4, classes=10, sizes=Sizes(width=8, heads=2, layers=1))
    >>> made(torch.zeros(3, 8, 8)).shape, made.attention(torch.zeros(3, 8, 8))[0].shape
    (torch.Size([3, 10]), torch.Size([3, 2, 5, 5]))
    """

    def __init__(
        self, shape: tuple[int, int], *, patch: int, classes: int, sizes: Sizes | None = None
    ) -> None:
        sizes = sizes or Sizes()
        super().__init__(sizes, classes)
        if patch < 1 or shape[0] % patch or shape[1] % patch:
            raise Unsupported(
                f"patch is {patch}: images of {shape[0]} × {shape[1]} cannot be cut so"
            )
        self.shape, self.patch = tuple(shape), patch
        count = (shape[0] // patch) * (shape[1] // patch)
        self.patches = nn.Linear(patch * patch, sizes.width, bias=sizes.biases)
        self.places = nn.Embedding(count + 1, sizes.width)
        self.cls = nn.Embedding(1, sizes.width)
        with torch.no_grad():
            for table in (self.places, self.cls):
                table.weight.mul_(sizes.spread)

    def tokens(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Tokens of images (B, height, width), row by row of patches; none is hidden."""
        if batch.ndim != 3 or tuple(batch.shape[1:]) != self.shape:
            raise BadTokens(
                f"the batch has shape {tuple(batch.shape)}: it must be images × {self.shape[0]} × "
                f"{self.shape[1]}"
            )
        P = self.patch
        cut = batch.unflatten(2, (-1, P)).unflatten(1, (-1, P))  # (B, rows, P, columns, P)
        x = self.patches(cut.transpose(2, 3).flatten(3).flatten(1, 2))
        x = torch.cat([self.cls.weight.expand(len(x), 1, -1), x], dim=1)
        return x + self.places.weight, None
