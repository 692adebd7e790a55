"""Labelled texts and images: their three fixed parts, their words, and where their files are.

Where a set comes without parts, an input's part follows from a hash of the input itself: it is the
same on every machine and in every order of the file, and copies of an input are in one part.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
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


_TAG = re.compile(r"<br ?/?>")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# The first numbers: what fills up a short text, a word that is not listed, and the first token of
# every text, where the network reads its answer.
PAD, UNKNOWN, CLS = 0, 1, 2
SPECIAL = ("[pad]", "[unknown]", "[cls]")


def words_of(text: str) -> list[str]:
    """The words of a text in small letters, without marks.

    >>> words_of("It's GOOD,<br />isn't it?")
    ["it's", 'good', "isn't", 'it']
    """
    return _WORD.findall(_TAG.sub(" ", text).lower())


@dataclass(frozen=True)
class Vocabulary:
    """Words by number: the three special ones, then the most frequent ones of a set of texts.

    >>> known = Vocabulary.of([["a", "good", "film"], ["a", "bad", "film"]], 5)
    >>> known.words[3:]
    ('a', 'film')
    >>> known.encode([["a", "new", "film"], ["film"]], length=3)
    array([[2, 3, 1, 4], [2, 4, 0, 0]])
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], size: int) -> Vocabulary:
        """The vocabulary of these texts with at most `size` numbers; ties by the alphabet."""
        if size <= len(SPECIAL):
            raise Unsupported(f"the vocabulary is {size}: it must be above {len(SPECIAL)}")
        counts = Counter(word for text in texts for word in text)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls((*SPECIAL, *ranked[: size - len(SPECIAL)]))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, texts: Sequence[Sequence[str]], *, length: int) -> Ints:
        """Numbers (n, length + 1): [cls], at most `length` words of each text, then [pad]."""
        out = np.full((len(texts), length + 1), PAD, dtype=np.int64)
        out[:, 0] = CLS
        for row, text in zip(out, texts, strict=True):
            known = [self.numbers.get(word, UNKNOWN) for word in text[:length]]
            row[1 : 1 + len(known)] = known
        return out


def folder_with(
    files: Iterable[str], installed: Iterable[Path], *, data_dir: str | Path | None, missing: str
) -> Path:
    """The first folder that holds all these files. Raises BadTokens, with `missing`, where none is.

    installed: where a package puts them; looked at last.
    """
    names = tuple(files)
    given = [Path(folder) for folder in (data_dir, os.environ.get("ATTSVM_DATA")) if folder]
    for folder in (*given, *installed):
        if all((folder / name).is_file() for name in names):
            return folder
    if data_dir is not None:
        missing = f"{data_dir} does not have {names[0]}; {missing}"
    raise BadTokens(missing)


def package_folders(package: str, inside: str) -> list[Path]:
    """The folders `inside` an installed package; none where it is not installed."""
    spec = find_spec(package)
    places = (spec.submodule_search_locations or []) if spec else []
    return [Path(place) / inside for place in places]
