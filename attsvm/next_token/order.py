"""Orders: for each query, which token is above which, and the structure of that relation.

A sentence with the query q puts each of its optimal tokens i (those followed by the label) above
each of its other tokens j: an edge i → j. The order of q is the graph of all its edges. Tokens on
a common cycle are tied; between the strongly connected components the relation is a strict partial
order, whose covering edges fall into chains.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Ints
from attsvm._utils.expected import shown
from attsvm.errors import BadTokens
from attsvm.next_token.sentences import Sentences, check_sentences

KINDS = ("optimal", "confused", "non-optimal", "non-comparable")


@dataclass(frozen=True, eq=False, repr=False)
class Order:
    """The relation 'above' of one query.

    tokens (k,): the tokens in some relation, increasing. Edge number t puts tokens[hi[t]] above
    tokens[lo[t]]; each edge stands once, by (hi, lo); witness[t] is the first sentence that makes
    it. hi, lo and witness: (e,). Wherever a place is meant, it is a place in `tokens`.

    >>> import attsvm
    >>> data = attsvm.Sentences.of([[0, 1, 3, 0], [1, 2, 3, 1]], collocations="copy")
    >>> order = orders(data)[3]
    >>> order
    Order(query 3: 4 of 4 tokens, 4 edges, acyclic)
    >>> order.kind(0), order.kind(1), order.kind(3)
    ('optimal', 'confused', 'non-optimal')
    >>> order.comparable(0, 2)
    True
    """

    query: int
    vocabulary: int
    tokens: Ints
    hi: Ints
    lo: Ints
    witness: Ints

    @cached_property
    def component(self) -> Ints:
        """The strongly connected component of each token (k,).

        Numbered from the top: no edge goes from a higher number to a lower one. Within the same
        longest path from the top, the component with the least token comes first.
        """
        k = len(self.tokens)
        label = _strong(self.hi, self.lo, k)
        depth = _depths(*_between(label, self.hi, self.lo))
        first = np.unique(label, return_index=True)[1]
        rank = np.empty(len(first), np.int64)
        rank[np.lexsort((first, depth[: len(first)]))] = np.arange(len(first))
        return rank[label]

    @cached_property
    def first(self) -> Ints:
        """The place of each component's first token, its representative."""
        return np.unique(self.component, return_index=True)[1]

    @cached_property
    def acyclic(self) -> bool:
        """Whether every component is a single token."""
        return len(self.first) == len(self.tokens)

    @cached_property
    def reach(self) -> Bools:
        """The transitive closure (k, k): whether a path of at least one edge leads from i to j."""
        bits, _, _ = self._closure
        C = len(self.first)
        closed = np.unpackbits(bits, axis=1, count=C).view(np.bool_)
        tied = np.bincount(self.component, minlength=C) > 1
        closed[tied, tied] = True
        return closed[np.ix_(self.component, self.component)]

    @cached_property
    def covers(self) -> tuple[Ints, Ints]:
        """(hi, lo): the places of the covering edges, by (hi, lo).

        The transitive reduction of the order between components, each named by its first token:
        the smallest set of edges that, with the ties, implies all others.
        """
        _, above, below = self._closure
        hi, lo = self.first[above], self.first[below]
        sorting = np.lexsort((lo, hi))
        return hi[sorting], lo[sorting]

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each token (k,): 'optimal', 'confused' or 'non-optimal'.

        Something below and nothing above, both, something above and nothing below. Tied tokens
        are above and below each other.
        """
        above = np.zeros(len(self.tokens), bool)
        below = above.copy()
        above[self.lo] = True
        below[self.hi] = True
        return np.where(above & below, KINDS[1], np.where(below, KINDS[0], KINDS[2]))

    @cached_property
    def parts(self) -> Ints:
        """The weakly connected part of each token (k,), numbered by least token.

        Where embeddings are orthonormal, the column of the query sums to 0 over each part.
        """
        label = scipy.sparse.csgraph.connected_components(
            _graph(self.hi, self.lo, len(self.tokens)), False
        )[1]
        _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[inverse]

    def kind(self, token: int) -> str:
        """The kind of any token of the vocabulary; 'non-comparable' when it is in no relation."""
        place = self._place(token)
        return KINDS[3] if place < 0 else str(self.kinds[place])

    def comparable(self, a: int, b: int) -> bool:
        """Whether a path of edges leads from one of two tokens to the other."""
        i, j = self._place(a), self._place(b)
        return i >= 0 and j >= 0 and bool(self.reach[i, j] or self.reach[j, i])

    def cycle(self) -> tuple[list[int], list[int]]:
        """(tokens, sentences) of a shortest cycle, both empty when there is none.

        Token t is above token t + 1, the last above the first, by sentence t. It starts at its
        least token.
        """
        k = len(self.tokens)
        key = self.hi * k + self.lo
        both = np.flatnonzero(np.isin(self.lo * k + self.hi, key))
        if both.size:
            places = [int(self.hi[both[0]]), int(self.lo[both[0]])]
        else:
            places = _shortest_cycle(self.hi, self.lo, k)
        start = places.index(min(places)) if places else 0
        places = places[start:] + places[:start]
        made = {int(edge): int(s) for edge, s in zip(key, self.witness, strict=True)}
        after = places[1:] + places[:1]
        witnesses = [made[i * k + j] for i, j in zip(places, after, strict=True)]
        return [int(self.tokens[i]) for i in places], witnesses

    @cached_property
    def _closure(self) -> tuple[NDArray[np.uint8], Ints, Ints]:
        """(bits, hi, lo): the closure between C components, eight to the byte, and its covers.

        What a component reaches is its children D and what they reach; a child is covered by it
        unless another child reaches it. From the bottom up, so that the children are done.
        """
        hi, lo, C = _between(self.component, self.hi, self.lo)
        bits = np.zeros((C, (C + 7) // 8), np.uint8)
        byte, bit = lo >> 3, (128 >> (lo & 7)).astype(np.uint8)
        covering = np.ones(len(hi), bool)
        start = np.searchsorted(hi, np.arange(C + 1))
        for c in np.flatnonzero(np.diff(start))[::-1]:
            edges = slice(start[c], start[c + 1])
            row = np.bitwise_or.reduce(bits[lo[edges]], axis=0)
            covering[edges] = row[byte[edges]] & bit[edges] == 0
            np.bitwise_or.at(row, byte[edges], bit[edges])
            bits[c] = row
        return bits, hi[covering], lo[covering]

    def _place(self, token: int) -> int:
        """The place of a token, −1 when it is in no relation."""
        if not isinstance(token, int | np.integer) or not 0 <= token < self.vocabulary:
            raise BadTokens(
                f"token {shown(token)} is not within 0…{self.vocabulary - 1}, the vocabulary"
            )
        place = int(np.searchsorted(self.tokens, token))
        return place if place < len(self.tokens) and self.tokens[place] == token else -1

    def __repr__(self) -> str:
        ties = "acyclic" if self.acyclic else "with ties"
        return (
            f"Order(query {self.query}: {len(self.tokens)} of {self.vocabulary} tokens, "
            f"{len(self.hi)} edges, {ties})"
        )


def check_orders(found: Any) -> Mapping[int, Order]:
    """The orders as they are; raises BadTokens unless they are those of `orders`."""
    if isinstance(found, Mapping) and all(isinstance(order, Order) for order in found.values()):
        return found
    raise BadTokens(f"orders must be those of sentences, this is {shown(found)}: orders(sentences)")


def orders(sentences: Sentences) -> dict[int, Order]:
    """The Order of each query that occurs, by increasing query.

    A sentence without an optimal token makes no edge. With several, each of them is above each
    token that is not optimal.

    >>> import attsvm
    >>> data = attsvm.Sentences.of([[0, 1, 3, 0], [1, 2, 3, 1]], collocations="copy")
    >>> orders(data)
    {3: Order(query 3: 4 of 4 tokens, 4 edges, acyclic)}
    """
    check_sentences(sentences)
    tokens, _ = sentences.distinct
    s, column = np.nonzero(sentences.right)
    other = ((tokens >= 0) & ~sentences.right)[s]  # (optimal tokens of all sentences, K)
    which, below = np.nonzero(other)
    s, hi = s[which], tokens[s, column][which]
    lo = tokens[s, below]
    asked = sentences.queries[s]
    sorting = np.lexsort((lo, hi, asked))  # stable: the first sentence of an edge comes first
    s, hi, lo, asked = s[sorting], hi[sorting], lo[sorting], asked[sorting]
    new = np.ones(len(s), bool)
    new[1:] = (np.diff(asked) != 0) | (np.diff(hi) != 0) | (np.diff(lo) != 0)
    s, hi, lo, asked = s[new], hi[new], lo[new], asked[new]
    queries = np.unique(sentences.queries)
    cuts = np.searchsorted(asked, queries), np.searchsorted(asked, queries, side="right")
    found = {}
    for query, start, end in zip(queries.tolist(), *(cut.tolist() for cut in cuts), strict=True):
        ends = np.concatenate([hi[start:end], lo[start:end]])
        present, places = np.unique(ends, return_inverse=True)
        above, below = places[: end - start], places[end - start :]
        found[query] = Order(
            query, sentences.vocabulary, present, above, below, s[start:end].copy()
        )
    return found


def _graph(hi: Ints, lo: Ints, k: int) -> scipy.sparse.csr_array:
    """The edges as a sparse matrix (k, k)."""
    return scipy.sparse.csr_array((np.ones(len(hi), np.int8), (hi, lo)), shape=(k, k))


def _strong(hi: Ints, lo: Ints, k: int) -> Ints:
    """The strongly connected component of each of k nodes, numbered in no particular way."""
    return scipy.sparse.csgraph.connected_components(_graph(hi, lo, k), connection="strong")[
        1
    ].astype(np.int64)


def _between(component: Ints, hi: Ints, lo: Ints) -> tuple[Ints, Ints, int]:
    """(hi, lo, C): the distinct edges between C components, by (hi, lo)."""
    C = int(component.max(initial=-1)) + 1
    above, below = component[hi], component[lo]
    key = np.unique((above * C + below)[above != below])
    return key // max(C, 1), key % max(C, 1), C


def _depths(hi: Ints, lo: Ints, C: int) -> Ints:
    """The length of the longest path to each of C nodes of an acyclic graph, edges by hi."""
    depth = np.zeros(C, np.int64)
    waiting = np.bincount(lo, minlength=C)
    start = np.searchsorted(hi, np.arange(C + 1))
    front, level = np.flatnonzero(waiting == 0), 0
    while front.size:
        depth[front] = level
        count = start[front + 1] - start[front]
        skip = np.repeat(start[front] - np.cumsum(count) + count, count)
        reached, times = np.unique(lo[skip + np.arange(len(skip))], return_counts=True)
        waiting[reached] -= times
        front, level = reached[waiting[reached] == 0], level + 1
    return depth


def _shortest_cycle(hi: Ints, lo: Ints, k: int) -> list[int]:
    """The nodes of a shortest cycle of a graph without cycles of length 2, [] without any.

    The shortest cycle through one node is found breadth first; then the node is taken out, with
    every edge that is on no cycle any more, until no edge is left.
    """
    best: list[int] = []
    while True:
        label = _strong(hi, lo, k)
        inside = label[hi] == label[lo]
        hi, lo = hi[inside], lo[inside]
        if not hi.size or len(best) == 3:
            return best
        node = int(np.argmax(np.bincount(hi, minlength=k)))
        walk, before = scipy.sparse.csgraph.breadth_first_order(_graph(hi, lo, k), node)
        last = int(walk[np.isin(walk, hi[lo == node])][0])  # the nearest of those above it
        trail = [last]
        while trail[-1] != node:
            trail.append(int(before[trail[-1]]))
        if not best or len(trail) < len(best):
            best = trail[::-1]
        keep = (hi != node) & (lo != node)
        hi, lo = hi[keep], lo[keep]


def longest_chain(order: Order) -> int:
    """The number of steps a > b > … of the longest chain; tied tokens are one step."""
    return 1 + int(_depths(*_between(order.component, order.hi, order.lo)).max(initial=-1))


def chains(order: Order) -> list[list[list[int]]]:
    """Chains from above to below in which every covering edge stands once.

    A chain is a list of steps and a step the list of tokens tied there, by token number. Ties
    above and below nothing are chains of one step.
    """
    below: dict[int, list[int]] = {int(i): [] for i in order.first}
    for i, j in zip(*(ends.tolist() for ends in order.covers), strict=True):
        below[i].append(j)
    alone = set(below) - {int(i) for i in np.concatenate(order.covers)}
    found = []
    for top in below:  # by component: from the top
        while below[top] or top in alone:
            alone.discard(top)
            chain = [top]
            while below[chain[-1]]:
                chain.append(below[chain[-1]].pop(0))
            found.append(chain)
    at = order.component
    tied = {i: order.tokens[at == at[i]].tolist() for i in below}
    return [[tied[i] for i in chain] for chain in found]
