"""Sentences: next-token data over a vocabulary, each distinct sentence once, and who follows whom.

A line of tokens w_1 … w_L y is a sentence with the query w_L and the label y. A line of two tokens
x y is a collocation: y follows x, n(x) = y. A token of a sentence is optimal when its follower is
the label. `embedding_of` makes the vectors of the tokens.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints, floats
from attsvm._utils.expected import expect, listed, places, shown, whole
from attsvm._utils.expected import place as index
from attsvm._utils.memory import require
from attsvm.errors import BadTokens, Unsupported

# Ways to find the followers that are not in the data.
INFERRED = ("bigrams", "copy")
EMBEDDINGS = ("orthonormal", "normal")


@dataclass(frozen=True, eq=False, repr=False)
class Sentences:
    """S distinct sentences over N tokens.

    words (S, L): tokens from left to right, −1 beyond the end; labels (S,); counts (S,): how often
    each occurred; lines (S,): where it occurred first; follows (N,): n(x), −1 where it is not
    known; follow_counts (N,): how often x was seen with its follower; names: the tokens' words.
    `first` is the number of the first line: 1 in files, 0 in lists. left_out: what reading a file
    left out, by kind.

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
    left_out: Mapping[str, int] = field(default_factory=dict)

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
        pairs, mode = _given_pairs(collocations)
        ids, extra, names, N = number_tokens(given, pairs, vocabulary, place)
        sentences: dict[tuple[int, ...], list[int]] = {}
        known: list[tuple[int, int, int | None]] = []
        for line, where in zip(ids, place, strict=True):
            if len(line) < 2:
                raise BadTokens(
                    f"line {where} has {len(line)} of the tokens it needs: a sentence is two or "
                    "more tokens and a label, a collocation two tokens"
                )
            if len(line) > 2:
                sentences.setdefault(tuple(line), [0, where])[0] += 1
            elif mode is None:
                known.append((line[0], line[1], where))
        known += [(x, y, None) for x, y in extra]
        if mode == "bigrams":
            follows, follow_counts = _count_bigrams(ids, N)
        elif mode == "copy":
            follows, follow_counts = np.arange(N), np.ones(N, np.int64)
        else:
            follows, follow_counts = _follow(known, N, names)
        if not sentences and not (follows >= 0).any():
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
            follows,
            follow_counts,
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

    @cached_property
    def lengths(self) -> Ints:
        """The number of tokens before the label (S,)."""
        return (self.words >= 0).sum(axis=1)

    @cached_property
    def queries(self) -> Ints:
        """The last token before the label (S,)."""
        return self.words[np.arange(self.size), self.lengths - 1]

    @cached_property
    def weights(self) -> Floats:
        """The share of each distinct sentence in the data (S,)."""
        return self.counts / max(self.counts.sum(), 1)

    @cached_property
    def followers(self) -> Ints:
        """n of each token of each sentence (S, L), −1 where there is none."""
        return np.where(self.words >= 0, self.follows[self.words], -1)

    @cached_property
    def optimal(self) -> Bools:
        """The places whose token is followed by the label (S, L)."""
        return self.followers == self.labels[:, None]

    @cached_property
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

    @cached_property
    def right(self) -> Bools:
        """Which of the distinct tokens the label follows (S, K)."""
        tokens, _ = self.distinct
        return (tokens >= 0) & (self.follows[tokens] == self.labels[:, None])

    @cached_property
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


def check_sentences(sentences: Any) -> Sentences:
    """The sentences as they are; raises BadTokens unless they are Sentences."""
    return expect(sentences, Sentences, "sentences", make="Sentences.of(lines) makes them")


def _listed(line: Any) -> list[Any]:
    """The tokens of one line."""
    if isinstance(line, str):
        return line.split()
    if not isinstance(line, Iterable):
        raise BadTokens(f"a line is {shown(line)}: it must be a list of token numbers, or of words")
    return listed(line, "a line", of="tokens")


def _follow(
    pairs: Iterable[tuple[int, int, int | None]], N: int, names: tuple[str, ...] | None
) -> tuple[Ints, Ints]:
    """(n (N,), how often each was seen (N,)) of pairs x, n(x) and the line of each, if it has one.

    Raises BadTokens when a token has two followers.
    """
    follows, counts = np.full(N, -1, np.int64), np.zeros(N, np.int64)
    first: dict[int, int | None] = {}
    for x, y, line in pairs:
        if follows[x] not in (-1, y):
            # Quoted with escapes: a word may hold anything, and an error is one line.
            tokens = [str(k) if names is None else repr(names[k]) for k in (x, int(follows[x]), y)]
            places = (first[x], line)
            where = ["in the collocations" if k is None else f"in line {k}" for k in places]
            raise BadTokens(
                f"token {tokens[0]} is followed by {tokens[1]} {where[0]} and by {tokens[2]} "
                f"{where[1]}: a collocation gives each token one follower; take the most frequent "
                "with collocations bigrams"
            )
        first.setdefault(x, line)
        follows[x] = y
        counts[x] += 1
    return follows, counts


def _count_bigrams(lines: list[list[int]], N: int) -> tuple[Ints, Ints]:
    """As `_follow`: what comes most often right after each token, the first seen among equals."""
    follows, counts = np.full(N, -1, np.int64), np.zeros(N, np.int64)
    seen = Counter(pair for line in lines for pair in pairwise(line))
    for (x, y), times in seen.items():
        if times > counts[x]:
            follows[x], counts[x] = y, times
    return follows, counts


def _given_pairs(collocations: Any) -> tuple[list[tuple[Any, Any]], str | None]:
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


def number_tokens(
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
    """As `number_tokens`, of words: numbered as they come, or by the given vocabulary."""
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


def embedding_of(
    vocabulary: int, given: Any = "orthonormal", *, dimension: int | None = None, seed: int = 0
) -> Floats:
    """The embeddings E (N, d) of N tokens.

    given: "orthonormal", the first N unit vectors of d ≥ N; "normal", random directions of length
    1 drawn by the seed, for any d; or the array itself. dimension: d, N without it.

    >>> embedding_of(2)
    array([[1., 0.],
           [0., 1.]])
    """
    vocabulary, seed = whole(vocabulary, "vocabulary", least=1), whole(seed, "seed", least=0)
    dimension = None if dimension is None else whole(dimension, "dimension", least=1)
    if not isinstance(given, str):
        E = np.ascontiguousarray(floats(given, "the embedding").astype(np.float64))
        if E.ndim != 2 or len(E) != vocabulary or not E.shape[1]:
            raise BadTokens(
                f"the embedding has shape {E.shape}; it must be ({vocabulary}, d), d at least 1"
            )
        if dimension is not None and dimension != E.shape[1]:
            raise BadTokens(f"the embedding has {E.shape[1]} columns, not {dimension}")
        return E
    if given not in EMBEDDINGS:
        raise Unsupported(
            f"unknown embedding {shown(given)}: give an array, or {' or '.join(EMBEDDINGS)}"
        )
    d = vocabulary if dimension is None else dimension
    require(8.0 * vocabulary * d, f"the embedding of {vocabulary} tokens in {d} dimensions")
    if given == "orthonormal":
        if d < vocabulary:
            raise BadTokens(
                f"{vocabulary} tokens cannot be orthonormal in {d} dimensions: raise the dimension "
                f"to {vocabulary}, or take the embedding normal"
            )
        return np.eye(vocabulary, d)
    E = np.random.default_rng([seed, 11]).standard_normal((vocabulary, d))
    return E / np.linalg.norm(E, axis=1, keepdims=True)


def orthonormal(E: Floats) -> bool:
    """Whether the rows are the first N unit vectors: then every token has a coordinate."""
    return E.shape[0] <= E.shape[1] and bool((np.eye(*E.shape) == E).all())
