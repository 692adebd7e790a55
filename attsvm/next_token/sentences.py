"""Sentences: next-token data over a vocabulary, each distinct sentence once, and who follows whom.

A line of tokens w_1 … w_L y is a sentence with the query w_L and the label y. A line of two tokens
x y is a collocation: y follows x, n(x) = y. A token of a sentence is optimal when its follower is
the label.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.expected import expect, listed, places, shown, whole
from attsvm._utils.expected import place as index
from attsvm._utils.memory import require
from attsvm._utils.objects import lazy
from attsvm.errors import BadTokens
from attsvm.next_token.numbering import Followers, numbered, pairs_of


@dataclass(frozen=True, eq=False, repr=False)
class Sentences:
    """S distinct sentences over N tokens.

    words (S, L): tokens from left to right, −1 beyond the end; labels (S,); counts (S,): how often
    each occurred; lines (S,): where it occurred first; follows (N,): n(x), −1 where it is not
    known; follow_counts (N,): how often x was seen with its follower; names: the tokens' words.
    `first` is the number of the first line: 1 in files, 0 in lists.

    >>> import attsvm
    >>> data = attsvm.Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> data
    Sentences(2 distinct of 2, 3 tokens, 3 collocations)
    >>> data.optimal.tolist()
    [[False, True, False], [True, False, False]]
    """

    words: Ints
    labels: Ints
    counts: Ints
    lines: Ints
    follows: Ints
    follow_counts: Ints
    names: tuple[str, ...] | None = None
    first: int = 0

    @classmethod
    def of(
        cls,
        lines: Iterable[Sequence[Any]],
        *,
        vocabulary: int | Sequence[str] | None = None,
        collocations: Any = None,
        numbers: Sequence[int] | None = None,
        first: int = 0,
    ) -> Sentences:
        """The sentences and collocations of lines of token numbers or of words.

        lines: lists of numbers or of words; a text is split by whitespace into words.
        vocabulary: its size N (one more than the largest number seen without it), or all its
        words. collocations: pairs (x, n(x)) or a mapping beside those of two-token lines;
        "bigrams": n(x) is what comes most often right after x; "copy": n(x) = x. numbers: the
        number of each line in its source; first: the number of the first line.
        """
        if isinstance(lines, str):
            raise BadTokens("sentences are given as one text: give its lines, text.splitlines()")
        if not isinstance(lines, Iterable):
            raise BadTokens(f"sentences are {shown(lines)}: give lines, each a list of tokens")
        given = [_listed(line) for line in listed(lines, "lines", of="lines")]
        first = whole(first, "first", least=0)
        place = list(range(first, first + len(given)))
        if numbers is not None:
            place = [whole(k, "numbers", least=0) for k in listed(numbers, "numbers", of="numbers")]
        pairs, mode = pairs_of(collocations)
        ids, extra, names, N = numbered(given, pairs, vocabulary, place)
        optimizer = Followers(N, names)
        sentences: dict[tuple[int, ...], list[int]] = {}
        for line, where in zip(ids, place, strict=True):
            if len(line) < 2:
                raise BadTokens(
                    f"line {where} has {len(line)} of the tokens it needs: a sentence is two or "
                    "more tokens and a label, a collocation two tokens"
                )
            if len(line) == 2:
                if mode is None:
                    optimizer.add(line[0], line[1], where)
            else:
                sentences.setdefault(tuple(line), [0, where])[0] += 1
        for x, y in extra:
            optimizer.add(x, y, None)
        if mode == "bigrams":
            optimizer.count(ids)
        elif mode == "copy":
            optimizer.copy()
        if not sentences and not (optimizer.follows >= 0).any():
            raise BadTokens("there is no sentence and no collocation")
        longest = max((len(line) - 1 for line in sentences), default=0)
        # The table and what is made of it, in blocks of the longest sentence's length.
        require(48.0 * len(sentences) * longest, f"{len(sentences)} sentences of {longest} tokens")
        words = np.full((len(sentences), longest), -1, np.int64)
        for s, key in enumerate(sentences):
            words[s, : len(key) - 1] = key[:-1]
        return cls(
            words,
            np.array([line[-1] for line in sentences], np.int64),
            np.array([seen[0] for seen in sentences.values()], np.int64),
            np.array([seen[1] for seen in sentences.values()], np.int64),
            optimizer.follows,
            optimizer.counts,
            names,
            first,
        )

    @property
    def size(self) -> int:
        """The number of distinct sentences S."""
        return len(self.words)

    @property
    def vocabulary(self) -> int:
        """The number of tokens N."""
        return len(self.follows)

    @lazy
    def lengths(self) -> Ints:
        """The number of tokens before the label (S,)."""
        return (self.words >= 0).sum(axis=1)

    @lazy
    def queries(self) -> Ints:
        """The last token before the label (S,)."""
        return self.words[np.arange(self.size), self.lengths - 1]

    @lazy
    def weights(self) -> Floats:
        """The share of each distinct sentence in the data (S,)."""
        return self.counts / max(self.counts.sum(), 1)

    @lazy
    def followers(self) -> Ints:
        """n of each token of each sentence (S, L), −1 where there is none."""
        return np.where(self.words >= 0, self.follows[self.words], -1)

    @lazy
    def optimal(self) -> Bools:
        """The places whose token is followed by the label (S, L)."""
        return self.followers == self.labels[:, None]

    @lazy
    def distinct(self) -> tuple[Ints, Ints]:
        """(tokens, counts), both (S, K): each sentence's distinct tokens by number, −1 and 0
        beyond the end."""
        ordered = np.sort(np.where(self.words < 0, self.vocabulary, self.words), axis=1)
        new = np.ones(ordered.shape, bool)
        new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        new &= ordered < self.vocabulary
        most = int(new.sum(axis=1).max(initial=0))
        tokens = np.full((self.size, most), -1, np.int64)
        counts = np.zeros((self.size, most), np.int64)
        row, _ = np.nonzero(new)
        column = (np.cumsum(new, axis=1) - 1)[new]
        tokens[row, column] = ordered[new]
        here = ordered < self.vocabulary
        index = np.cumsum(new, axis=1) - 1
        rows = np.broadcast_to(np.arange(self.size)[:, None], ordered.shape)
        np.add.at(counts, (rows[here], index[here]), 1)
        return tokens, counts

    @lazy
    def contexts(self) -> Ints:
        """The number of each sentence's context (S,): its tokens, their counts and its query."""
        tokens, counts = self.distinct
        table = np.concatenate([tokens, counts, self.queries[:, None]], axis=1)
        return np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)

    def word(self, token: int) -> str:
        """The name of a token: its word, or its number."""
        token = index(token, self.vocabulary, "token")
        return str(token) if self.names is None else self.names[token]

    def text(self, sentence: int) -> str:
        """One sentence in words, its label after an arrow."""
        sentence = index(sentence, self.size, "sentence")
        tokens = " ".join(self.word(w) for w in self.words[sentence, : self.lengths[sentence]])
        return f"{tokens} → {self.word(self.labels[sentence])}"

    def where(self, sentence: int) -> str:
        """Where a sentence stands in its source: 'line 7' or 'sentence 6'."""
        line = int(self.lines[index(sentence, self.size, "sentence")])
        return f"{'line' if self.first else 'sentence'} {line}"

    def part(self, index: Any) -> Sentences:
        """The sentences of `index`, with every collocation."""
        with places("index", self.size):
            index = np.atleast_1d(np.arange(self.size)[index])
        return Sentences(
            self.words[index],
            self.labels[index],
            self.counts[index],
            self.lines[index],
            self.follows,
            self.follow_counts,
            self.names,
            self.first,
        )

    def __repr__(self) -> str:
        return (
            f"Sentences({self.size} distinct of {int(self.counts.sum())}, {self.vocabulary} "
            f"tokens, {int((self.follows >= 0).sum())} collocations)"
        )


def checked_sentences(sentences: Any) -> Sentences:
    """The sentences as they are; raises BadTokens unless they are Sentences."""
    return expect(sentences, Sentences, "sentences", make="Sentences.of(lines) makes them")


def _listed(line: Any) -> list[Any]:
    """The tokens of one line."""
    if isinstance(line, str):
        return line.split()
    if not isinstance(line, Iterable):
        raise BadTokens(f"a line is {shown(line)}: it must be a list of token numbers, or of words")
    return listed(line, "a line", of="tokens")
