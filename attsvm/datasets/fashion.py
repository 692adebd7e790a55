"""Fashion-MNIST: 70,000 small pictures of clothes in ten classes, from files of the usual form."""

from __future__ import annotations

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attsvm.datasets.labelled.parts import ALL, Counts, Labelled, Part, taken
from attsvm.datasets.labelled.places import folder_with
from attsvm.errors import BadTokens

FILES = tuple(
    f"{part}-{what}-ubyte.gz"
    for part in ("train", "t10k")
    for what in ("images-idx3", "labels-idx1")
)
CLASSES = (
    *("T-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "boot"),
)
# Where Debian's package dataset-fashion-mnist puts them.
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
# The last images of the training file are for choosing.
_VALID = 10_000


def fashion_images(counts: Counts = ALL, *, data_dir: str | Path | None = None) -> Labelled:
    """Grey images (n, 28, 28) in [0, 1] and their ten classes.

    The training file but for its last 10,000 images, those, and the test file, each from its
    beginning. The four files are looked for in data_dir, in the folder that ATTSVM_DATA names, and
    where Debian's package puts them.
    """
    missing = (
        "Fashion-MNIST is not here: apt install dataset-fashion-mnist, or name a folder with "
        f"{FILES[0]} and the three files beside it in ATTSVM_DATA"
    )
    folder = folder_with(FILES, [DEBIAN], data_dir=data_dir, missing=missing)
    pairs = []
    for images, labels in (FILES[:2], FILES[2:]):
        X, y = read_idx(folder / images, 3), read_idx(folder / labels, 1)
        if len(X) != len(y):
            raise BadTokens(f"{folder / images} has {len(X)} images and {len(y)} labels")
        if len(y) and y.max() >= len(CLASSES):
            raise BadTokens(f"{folder / labels} has label {y.max()}: there are {len(CLASSES)}")
        pairs.append((X, y))
    cut = max(len(pairs[0][1]) - _VALID, 0)
    places = [list(range(cut)), list(range(cut, len(pairs[0][1]))), list(range(len(pairs[1][1])))]
    parts = [
        Part(X[k].astype(np.float32) / np.float32(255), y[k].astype(np.int64))
        for k, (X, y) in zip(
            taken(places, counts, "Fashion-MNIST"), (pairs[0], *pairs), strict=True
        )
    ]
    return Labelled("Fashion-MNIST", "images", CLASSES, *parts)


def read_idx(file: Path, axes: int) -> NDArray[np.uint8]:
    """The bytes of an idx file packed by gzip, as an array with so many axes."""
    try:
        raw = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise BadTokens(f"{file} is cut or no gzip file ({error}): fetch it again") from error
    if len(raw) < 4 * (axes + 1) or raw[:4] != bytes((0, 0, 8, axes)):
        raise BadTokens(f"{file} is no idx file of bytes with {axes} axes: fetch it again")
    shape = np.frombuffer(raw, dtype=">u4", count=axes, offset=4).tolist()
    need = prod(shape)
    if len(raw) - 4 * (axes + 1) != need:
        raise BadTokens(
            f"{file} should hold {need} bytes of data and holds {len(raw) - 4 * (axes + 1)}: fetch "
            "it again"
        )
    return np.frombuffer(raw, dtype=np.uint8, offset=4 * (axes + 1)).reshape(shape)
