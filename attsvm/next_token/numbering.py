"""Token numbers for lines of words or numbers, and the map of followers made of pairs."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from attsvm._utils.expected import listed, shown
from attsvm._utils.memory import require
from attsvm.errors import BadTokens, Unsupported

# Ways to find the followers that are not in the data.
INFERRED = ("bigrams", "copy")


class Followers:
    """The map n, filled pair by pair."""

    def __init__(self, N: int, names: tuple[str, ...] | None) -> None:
        self.follows = np.full(N, -1, np.int64)
        self.counts = np.zeros(N, np.int64)
        self.names = names
        self.lines: dict[int, int | None] = {}

    def add(self, x: int, y: int, line: int | None) -> None:
        """Note n(x) = y; raises BadTokens when x already has another follower."""
        if self.follows[x] not in (-1, y):
            before, now = _at(self.lines[x]), _at(line)
            raise BadTokens(
                f"token {self._word(x)} is followed by {self._word(int(self.follows[x]))} {before} "
                f"and by {self._word(y)} {now}: a collocation gives each token one follower; take "
                "the most frequent with collocations bigrams"
            )
        self.lines.setdefault(x, line)
        self.follows[x] = y
        self.counts[x] += 1

    def count(self, lines: list[list[int]]) -> None:
        """n(x): what comes most often right after x, the first seen among equals."""
        seen: Counter[tuple[int, int]] = Counter()
        for line in lines:
            seen.update(pairwise(line))
        for (x, y), times in seen.items():
            if times > self.counts[x]:
                self.follows[x], self.counts[x] = y, times

    def copy(self) -> None:
        """n(x) = x for all."""
        self.follows[:] = np.arange(len(self.follows))
        self.counts[:] = 1

    def _word(self, token: int) -> str:
        # Quoted with escapes: a word may hold anything, and an error is one line.
        return str(token) if self.names is None else repr(self.names[token])


def _at(line: int | None) -> str:
    return "in the collocations" if line is None else f"in line {line}"


def pairs_of(collocations: Any) -> tuple[list[tuple[Any, Any]], str | None]:
    """(pairs x, n(x) given beside the lines, the way to infer them)."""
    if collocations is None:
        return [], None
    if isinstance(collocations, str):
        if collocations not in INFERRED:
            known = ", ".join(INFERRED)
            said = f"collocations is {shown(collocations)}"
            raise Unsupported(f"{said}: give pairs, or one of {known}")
        return [], collocations
    pairs = collocations.items() if isinstance(collocations, Mapping) else collocations
    out = []
    for pair in listed(pairs, "collocations", of="pairs"):
        both = (
            list(pair) if isinstance(pair, list | tuple | np.ndarray) and np.ndim(pair) else [pair]
        )
        if len(both) != 2:
            raise BadTokens(f"collocation {shown(pair)} is no pair: give a token and its follower")
        out.append((both[0], both[1]))
    return out, None


def numbered(
    lines: list[list[Any]], pairs: list[tuple[Any, Any]], vocabulary: Any, place: list[int]
) -> tuple[list[list[int]], list[tuple[int, int]], tuple[str, ...] | None, int]:
    """(lines, pairs) as token numbers, the words when there are any, and the vocabulary's size."""
    if not lines and not pairs:
        raise BadTokens("there are no sentences")
    if isinstance(vocabulary, int | np.integer) and vocabulary < 1:
        raise BadTokens(f"the vocabulary is {shown(vocabulary)}: it needs at least one token")
    if isinstance(vocabulary, np.integer):
        vocabulary = int(vocabulary)
    if not (vocabulary is None or isinstance(vocabulary, int | Iterable)):
        raise BadTokens(f"the vocabulary is {shown(vocabulary)}: give its size, or its words")
    if isinstance(vocabulary, int):
        require(100.0 * min(vocabulary, 10**18), f"a vocabulary of {shown(vocabulary)} tokens")
    if len(place) != len(lines):
        raise BadTokens(f"there are {len(place)} numbers of lines for {len(lines)} lines")
    some = next((w for line in lines for w in line), pairs[0][0] if pairs else 0)
    if isinstance(some, str) or not (vocabulary is None or isinstance(vocabulary, int)):
        return _worded(lines, pairs, vocabulary, place)
    N = None if vocabulary is None else operator.index(vocabulary)
    ids = [[_number(w, N, f"line {k}") for w in line] for line, k in zip(lines, place, strict=True)]
    extra = [tuple(_number(w, N, "the collocations") for w in pair) for pair in pairs]
    if N is None:
        N = 1 + max(
            max((w for line in ids for w in line), default=0),
            max((w for pair in extra for w in pair), default=0),
        )
    require(24.0 * min(N, 10**18), f"a vocabulary of {N} tokens")
    return ids, [(x, y) for x, y in extra], None, N


def _number(word: Any, N: int | None, where: str) -> int:
    """A token number; raises BadTokens unless it is whole and within the vocabulary."""
    try:
        number = operator.index(word)
    except TypeError:
        raise BadTokens(
            f"token {shown(word)} in {where} is no whole number: "
            "write all tokens as numbers, or all as words"
        ) from None
    if number < 0 or (N is not None and number >= N):
        most = "not negative" if N is None else f"within 0…{N - 1} (vocabulary {N})"
        raise BadTokens(f"token {shown(number)} in {where} is out of range: it must be {most}")
    return number


def _worded(
    lines: list[list[Any]], pairs: list[tuple[Any, Any]], vocabulary: Any, place: list[int]
) -> tuple[list[list[int]], list[tuple[int, int]], tuple[str, ...] | None, int]:
    """As `numbered`, of words: numbered as they come, or by the given vocabulary."""
    fixed = not (vocabulary is None or isinstance(vocabulary, int))
    table: dict[str, int] = {}
    for word in listed(vocabulary, "the vocabulary", of="words") if fixed else ():
        if str(word) in table:
            raise BadTokens(f"the vocabulary holds the word {shown(word)} twice")
        table[str(word)] = len(table)

    def look(word: Any, where: str) -> int:
        if not isinstance(word, str):
            raise BadTokens(f"token {shown(word)} in {where} is no word: write all tokens as words")
        if word not in table:
            if fixed:
                raise BadTokens(f"token {shown(word)} in {where} is not in the vocabulary")
            table[word] = len(table)
        return table[word]

    ids = [[look(w, f"line {k}") for w in line] for line, k in zip(lines, place, strict=True)]
    extra = [(look(x, "the collocations"), look(y, "the collocations")) for x, y in pairs]
    if isinstance(vocabulary, int) and len(table) > vocabulary:
        raise BadTokens(
            f"there are {len(table)} different words for a vocabulary of {vocabulary}: raise it"
        )
    unseen = 0
    while isinstance(vocabulary, int) and len(table) < vocabulary:  # names no word has
        table.setdefault(f"<{unseen}>", len(table))
        unseen += 1
    return ids, extra, tuple(table), len(table)
