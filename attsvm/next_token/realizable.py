"""Realizability: whether one order for each query explains every sentence, and why when not.

Data are realizable when the collocations pair each follower with one token, every sentence has
exactly one distinct optimal token (one followed by its label), and no order of a query has a cycle.
The theorems of the paper ask for more: Assumption 1, every token has a follower and no token is
confused; Assumption 3, the optimal token of a sentence occurs at least as often as any non-optimal
one. Assumption 2, orthonormal tokens, is about the embedding. In the paper's setting the data are
also prefix-closed: each prefix of a sentence is a sentence, and the next token its label.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Ints
from attsvm._utils.expected import escaped
from attsvm._utils.result import Result, Summary
from attsvm.next_token.order import KINDS, Order, check_orders, orders
from attsvm.next_token.sentences import Sentences, check_sentences

# The kinds of faults, in the order in which they are listed.
FAULTS = (
    "no-collocations",
    "not-injective",
    "no-optimal",
    "several-optimal",
    "contradiction",
    "cycle",
)
# Faults listed in detail, of each kind; all are counted.
DETAILS = 20
# What is wrong in words, and the numbers of the sentences concerned.
Described = tuple[str, tuple[int, ...]]
# Longest quotations: tokens of a sentence, characters of a word.
_TOKENS, _LETTERS = 12, 40


@dataclass(frozen=True)
class Fault:
    """One reason why data are not realizable: its kind (one of FAULTS), a sentence that names what
    is wrong, the numbers of the sentences concerned, and their lines in the source."""

    kind: str
    message: str
    sentences: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Realizability(Result):
    """Whether data are realizable, and why not.

    reasons: the first DETAILS faults of each kind; counts: how many there are, by kind.
    exceptions: the sentences in which a non-optimal token occurs more often than the optimal one.
    confused: the queries with a confused token; unknown: the tokens without a follower; unclosed:
    the sentences whose prefix, one token shorter, is neither a sentence nor a collocation.
    """

    reasons: tuple[Fault, ...]
    counts: dict[str, int]
    exceptions: Ints
    confused: Ints
    unknown: Ints
    unclosed: Ints

    @property
    def realizable(self) -> bool:
        """Whether there is no fault."""
        return not any(self.counts.values())

    @property
    def dominant(self) -> bool:
        """Whether the optimal token of each sentence occurs at least as often as any non-optimal
        one: Assumption 3, no part of realizability."""
        return not self.exceptions.size

    @property
    def closed(self) -> bool:
        """Whether the data hold every prefix of their sentences."""
        return not self.unclosed.size

    @property
    def outside(self) -> tuple[str, ...]:
        """Why the data are outside Assumptions 1 and 3 of the paper; empty inside them."""
        reasons = (
            (not self.realizable, self.headline.replace("not", "not realizable", 1)),
            (self.unknown.size, f"{self.unknown.size} tokens without a follower"),
            (self.confused.size, f"confused tokens before {self.confused.size} queries"),
            (
                self.exceptions.size,
                f"in {self.exceptions.size} sentences a non-optimal token occurs more often than "
                "the optimal one",
            ),
        )
        return tuple(words for holds, words in reasons if holds)

    @property
    def headline(self) -> str:
        """In a few words: realizable, or how many faults of each kind there are."""
        said = ", ".join(f"{n} {kind}" for kind, n in self.counts.items() if n)
        return f"not: {said}" if said else "realizable"

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data for JSON."""
        return {
            "status": "realizable" if self.realizable else "not-realizable",
            "faults": self.counts,
            "reasons": [
                {"kind": fault.kind, "message": fault.message, "lines": list(fault.lines)}
                for fault in self.reasons
            ],
            "dominant": self.dominant,
            "exceptions": len(self.exceptions),
            "outside": list(self.outside),
            "unclosed": len(self.unclosed),
        }

    def _card(self) -> Summary:
        listed = {
            "kind": [fault.kind for fault in self.reasons],
            "what is wrong": [fault.message for fault in self.reasons],
        }
        many = sum(self.counts.values())
        return Summary("Realizability", self.headline, {}, listed, many, brief=True)


def realizability(
    sentences: Sentences, found_orders: Mapping[int, Order] | None = None
) -> Realizability:
    """Whether the sentences are realizable, with every fault counted and the first ones listed.

    found_orders: `orders(sentences)`, where it is already known.

    >>> import attsvm
    >>> data = attsvm.Sentences.of([[0, 1, 2, 0], [0, 1, 2, 1]], collocations="copy")
    >>> found = realizability(data)
    >>> found.realizable, {kind: n for kind, n in found.counts.items() if n}
    (False, {'contradiction': 1, 'cycle': 1})
    """
    check_sentences(sentences)
    every = orders(sentences) if found_orders is None else check_orders(found_orders)
    number = sentences.right.sum(axis=1)
    known = sentences.follows[sentences.follows >= 0]
    shared = np.bincount(known, minlength=sentences.vocabulary) > 1
    # Without any follower no sentence has an optimal token: that is one fault.
    none = (number == 0) & bool(known.size)
    # Of each kind in FAULTS: its cases, and the function that describes one.
    cases: tuple[tuple[Any, Callable[[Sentences, Any], Described]], ...] = (
        ([] if known.size else [None], _no_collocations),
        (np.flatnonzero(shared), _not_injective),
        (np.flatnonzero(none), _no_optimal),
        (np.flatnonzero(number > 1), _several),
        (_contradicting(sentences), _contradiction),
        ([order for order in every.values() if not order.acyclic], _cycle),
    )
    faults = []
    for kind, (found, describe) in zip(FAULTS, cases, strict=True):
        for case in found[:DETAILS]:
            message, places = describe(sentences, case)
            lines = tuple(sentences.lines[list(places)].tolist())
            faults.append(Fault(kind, message, places, lines))
    return Realizability(
        tuple(faults),
        {kind: len(found) for kind, (found, _) in zip(FAULTS, cases, strict=True)},
        exceptions=_exceptions(sentences, every),
        confused=np.array([q for q, o in every.items() if KINDS[1] in o.kinds], np.int64),
        unknown=np.flatnonzero(sentences.follows < 0),
        unclosed=_unclosed(sentences),
    )


def find_explained(sentences: Sentences, found_orders: Mapping[int, Order] | None = None) -> Bools:
    """Whether a sentence has one optimal token, above all its others in the query's order (S,).

    Of these sentences alone the orders have no cycle: they are realizable but for collocations that
    share a follower. found_orders: `orders(sentences)`, where it is already known.

    >>> import attsvm
    >>> lines = [[0, 1, 0], [1, 0, 0], [0, 1, 1], [2, 2, 3]]
    >>> find_explained(attsvm.Sentences.of(lines, collocations="copy")).tolist()
    [False, True, False, False]
    """
    every = orders(sentences) if found_orders is None else found_orders
    tied, _ = tied_with_optimal(sentences, every)
    return (sentences.right.sum(axis=1) == 1) & (tied.sum(axis=1) <= 1)


def tied_with_optimal(sentences: Sentences, orders: Mapping[int, Order]) -> tuple[Bools, Ints]:
    """(tokens in the component of the sentence's optimal token (S, K), that component (S,))."""
    tokens, _ = sentences.distinct
    component = np.full(tokens.shape, -1, np.int64)
    for query, order in orders.items():
        rows = np.flatnonzero(sentences.queries == query)
        table = np.full(sentences.vocabulary + 1, -1, np.int64)  # the last: beyond the end
        table[order.tokens] = order.component
        component[rows] = table[tokens[rows]]
    if not len(tokens):
        return np.zeros(tokens.shape, bool), np.zeros(0, np.int64)
    own = np.take_along_axis(component, sentences.right.argmax(axis=1)[:, None], 1)
    # A token in no relation at all: its sentence has no other token, and asks for nothing.
    return (component == own) & (own >= 0) & (tokens >= 0), np.maximum(own[:, 0], 0)


def _contradicting(sentences: Sentences) -> list[Ints]:
    """The sentences of each context with two labels or more, the contexts as they come."""
    if not sentences.size:
        return []
    context, labels = sentences.contexts, sentences.labels
    by_context = np.argsort(context, kind="stable")
    groups = np.split(by_context, np.flatnonzero(np.diff(context[by_context])) + 1)
    found = [
        group for group in groups if len(group) > 1 and (labels[group] != labels[group[0]]).any()
    ]
    return sorted(found, key=lambda group: int(group[0]))


def _exceptions(sentences: Sentences, asked: Mapping[int, Order]) -> Ints:
    """The sentences whose optimal token is outnumbered by a non-optimal one."""
    N = sentences.vocabulary
    lowest = [o.query * N + o.tokens[o.kinds == KINDS[2]] for o in asked.values()]
    keys = np.concatenate([np.zeros(0, np.int64), *lowest])
    (tokens, times), best = sentences.distinct, sentences.right
    # Where the sentence ends, −1 would be a token of the query before it.
    here = np.where(tokens >= 0, sentences.queries[:, None] * N + tokens, -1)
    rival = np.where(np.isin(here, keys) & ~best, times, 0).max(axis=1, initial=0)
    own = np.where(best, times, 0).max(axis=1, initial=0)
    return np.flatnonzero((own > 0) & (rival > own))


def _unclosed(sentences: Sentences) -> Ints:
    """The sentences whose prefix, one token shorter, is not in the data."""
    rows = zip(sentences.words.tolist(), sentences.lengths.tolist(), strict=True)
    contexts = [tuple(words[:length]) for words, length in rows]
    known = {(*c, y) for c, y in zip(contexts, sentences.labels.tolist(), strict=True)}
    known |= set(enumerate(sentences.follows.tolist()))
    return np.array([s for s, c in enumerate(contexts) if c not in known], np.int64)


def _no_collocations(_: Sentences, __: None) -> Described:
    said = "no token has a known follower: write two-token lines, or give collocations (a file, "
    return f"{said}bigrams or copy)", ()


def _not_injective(sentences: Sentences, follower: int) -> Described:
    before = _listed(sentences, np.flatnonzero(sentences.follows == follower))
    return f"{_word(sentences, follower)} follows {before}: a token may follow only one", ()


def _no_optimal(sentences: Sentences, s: int) -> Described:
    before = np.flatnonzero(sentences.follows == sentences.labels[s])
    known = f"follows {_listed(sentences, before)}" if before.size else "is no token's follower"
    said = f"no token of it is followed by its label, which {known}"
    return f"{quote(sentences, s)}: {said}", (int(s),)


def _several(sentences: Sentences, s: int) -> Described:
    best = _listed(sentences, sentences.distinct[0][s, sentences.right[s]])
    said = f"its label follows {best}, all in it, where one must be optimal"
    return f"{quote(sentences, s)}: {said}", (int(s),)


def _contradiction(sentences: Sentences, group: Ints) -> Described:
    labels = sentences.labels[group]
    first, second = int(group[0]), int(group[(labels != labels[0]).argmax()])
    number = len(np.unique(labels))
    message = (
        f"{quote(sentences, first)} and {quote(sentences, second)} have the same tokens before "
        f"the same query and {'two' if number == 2 else number} labels: allow several labels of "
        "one context with --ties"
    )
    return message, (first, second)


def _cycle(sentences: Sentences, order: Order) -> Described:
    tokens, made = order.cycle()
    words = " > ".join(_word(sentences, x) for x in [*tokens, tokens[0]])
    places = ", ".join(sentences.where(s) for s in made)
    message = (
        f"with the query {_word(sentences, order.query)} the order goes round, {words}, by "
        f"{places}: allow cycles as ties with --ties"
    )
    return message, tuple(made)


def _word(sentences: Sentences, token: int) -> str:
    """A token's name, cut when it is long, with escapes for what a terminal would obey."""
    name = sentences.word(token)
    return escaped(name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…")


def _listed(sentences: Sentences, tokens: Iterable[int]) -> str:
    """'a', 'a and b', 'a, b and 3 more'."""
    words = [_word(sentences, x) for x in list(tokens)]
    if len(words) < 3:
        return " and ".join(words)
    shown = words[:4] if len(words) > 4 else words[:-1]
    rest = words[-1] if len(words) <= 4 else f"{len(words) - 4} more"
    return f"{', '.join(shown)} and {rest}"


def quote(sentences: Sentences, s: int) -> str:
    """Where a sentence stands and what it says, its middle left out when it is long."""
    words = [_word(sentences, x) for x in sentences.words[s, : sentences.lengths[s]]]
    if len(words) > _TOKENS:
        words = [*words[: _TOKENS // 2], "…", *words[-_TOKENS // 2 :]]
    label = _word(sentences, int(sentences.labels[s]))
    return f"{sentences.where(s)} ({' '.join(words)} → {label})"
