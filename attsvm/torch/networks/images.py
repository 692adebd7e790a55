"""ImageClassifier: a small vision transformer on square patches of grey images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attsvm._utils.expected import listed, whole
from attsvm._utils.memory import require
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
        sizes = Sizes() if sizes is None else sizes
        super().__init__(sizes, classes)
        patch = whole(patch, "patch", least=1)
        cut = [whole(size, "shape", least=1) for size in listed(shape, "shape", of="two numbers")]
        if len(cut) != 2:
            raise Unsupported("shape is (height, width): give two numbers")
        if cut[0] % patch or cut[1] % patch:
            raise Unsupported(f"patch is {patch}: images of {cut[0]} × {cut[1]} cannot be cut so")
        self.shape, self.patch = (cut[0], cut[1]), patch
        count = (cut[0] // patch) * (cut[1] // patch)
        require(4.0 * (count + 1 + patch * patch) * sizes.width, "the network")
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
