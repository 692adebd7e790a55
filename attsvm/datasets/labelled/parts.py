"""Labelled: inputs with their classes in three fixed parts, for training, choosing and testing.

Where a set comes without parts, an input's part follows from a hash of the input itself: it is the
same on every machine and in every order of the file, and copies of an input are in one part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Ints
from attsvm.errors import BadTokens, Unsupported

# At most so many inputs of each part; None for all.
Counts = tuple[int | None, int | None, int | None]
ALL: Counts = (None, None, None)
NAMES = ("train", "valid", "test")
# Of a hundred inputs so many are for training, and so many for choosing; the rest is for testing.
_TRAIN, _VALID = 70, 10


@dataclass(frozen=True)
class Part:
    """Inputs and their classes: lists of words, or images (n, height, width) in [0, 1].

    labels (n,): 0, 1, …, the place of the class.
    """

    inputs: Any
    labels: Ints

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Labelled:
    """A set of texts or images in three parts. kind: text or images. classes: their names."""

    name: str
    kind: str
    classes: tuple[str, ...]
    train: Part
    valid: Part
    test: Part

    @property
    def parts(self) -> dict[str, Part]:
        """The three parts by name."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    @property
    def digest(self) -> str:
        """A name of the content: equal for equal inputs, labels and parts."""
        found = hashlib.sha256(repr((self.kind, self.classes)).encode())
        for part in (self.train, self.valid, self.test):
            found.update(np.asarray(part.labels, dtype=np.int64).tobytes())
            if self.kind == "text":
                found.update("\n".join(" ".join(words) for words in part.inputs).encode())
            else:
                found.update(np.ascontiguousarray(part.inputs).tobytes())
        return found.hexdigest()[:16]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(part):,} {name}" for name, part in self.parts.items())
        return f"Labelled({self.name}: {len(self.classes)} classes of {self.kind}, {sizes})"


def by_hash(
    inputs: Sequence[Any], labels: Sequence[int] | Ints, *, key: Callable[[Any], bytes]
) -> list[list[int]]:
    """The places of the inputs of each part, ordered by the hash of key(input), without copies.

    A copy is an input of equal key; its first label counts.
    """
    seen: dict[bytes, int] = {}
    for place, one in enumerate(inputs):
        seen.setdefault(hashlib.sha256(key(one)).digest(), place)
    found: list[list[int]] = [[], [], []]
    for digest in sorted(seen):
        share = int.from_bytes(digest[-4:], "big") % 100
        found[0 if share < _TRAIN else 1 if share < _TRAIN + _VALID else 2].append(seen[digest])
    return found


def taken(places: Sequence[list[int]], counts: Counts, name: str) -> list[list[int]]:
    """The first places of each part, as many as asked for. Raises where a part would be empty."""
    out = []
    for part, have, count in zip(NAMES, places, counts, strict=True):
        if count is not None and count < 1:
            raise Unsupported(f"the count of {part} is {count}: it must be at least 1")
        if not have:
            raise BadTokens(f"{name} has no input for {part}: it needs more inputs")
        out.append(have[:count])
    return out
