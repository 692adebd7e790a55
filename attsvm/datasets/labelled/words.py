"""Words of texts, and the vocabulary that numbers them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attsvm._utils.arrays import Ints
from attsvm.errors import Unsupported

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
