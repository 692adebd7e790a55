"""The report on a text as plain data: realizable or not, its orders, both solutions, and what they
decide. `attsvm sentences` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from attsvm._utils.memory import require
from attsvm.next_token.infimum import finite_part
from attsvm.next_token.order import KINDS, Order, chains, longest_chain, orders
from attsvm.next_token.problems import solve_attention, solve_decoder
from attsvm.next_token.realizable import find_explained, realizability
from attsvm.next_token.sentences import Sentences, embedding_of


def describe_sentences(
    data: Sentences, every: Mapping[int, Order], *, query: int | None = None
) -> dict[str, Any]:
    """What is known of sentences.

    every: their orders. query: the one whose order and column are given in full;
    without it every order is counted.
    """
    finding = realizability(data, every)
    chosen = every if query is None else {query: every[query]}
    without = ~data.optimal.any(axis=1)
    report = {
        "sentences": int(data.counts.sum()),
        "distinct": data.size,
        "vocabulary": data.vocabulary,
        "collocations": int((data.follows >= 0).sum()),
        "queries": len(every),
        "left_out": dict(data.left_out),
        "ordered_queries": sum(bool(len(order.tokens)) for order in every.values()),
        "explained": int(data.counts[find_explained(data, every)].sum()),
        "without_optimal": int(data.counts[without].sum()),
        **finding.to_dict(),
        "kinds": _count_kinds(data, every),
        "orders": [
            _describe_order(data, order, full=query is not None) for order in chosen.values()
        ],
    }
    report["solved"] = _solve(data, every, query)
    return report


def _count_kinds(data: Sentences, every: Mapping[int, Order]) -> dict[str, int]:
    """How many tokens there are of each kind, over all queries."""
    counts: Counter[str] = Counter()
    for order in every.values():
        counts.update(order.kinds.tolist())
    counts[KINDS[3]] = len(every) * data.vocabulary - counts.total()
    return {kind: counts[kind] for kind in KINDS}


def _describe_order(data: Sentences, order: Order, *, full: bool) -> dict[str, Any]:
    """One order in numbers; in full with its chains: steps, each a list of tied words."""
    kinds = Counter(order.kinds.tolist())
    found = {
        "query": data.word(order.query),
        "sentences": int(data.counts[data.queries == order.query].sum()),
        "tokens": len(order.tokens),
        "edges": len(order.hi),
        "covers": len(order.covers[0]),
        **{kind: kinds[kind] for kind in KINDS[:3]},
        "chain": longest_chain(order),
        "components": len(order.first),
    }
    if full:
        found["chains"] = [[[data.word(x) for x in s] for s in c] for c in chains(order)]
    return found


def _solve(data: Sentences, every: Mapping[int, Order], query: int | None) -> dict[str, Any]:
    """Both problems on orthonormal tokens, and the finite part."""
    N = data.vocabulary
    require(5 * 8 * N * N, f"the matrices of {N} tokens")
    E = embedding_of(N)
    some = any(len(order.tokens) for order in every.values())
    best = solve_attention(every, E) if some else None
    decoder = solve_decoder(data, E) if N > 1 and (data.follows >= 0).any() else None
    listed = None
    if query is not None and best is not None:
        tokens, column = every[query].tokens, best.W[:, query]
        # Each token in a relation, from the top; all others are 0.
        falling = tokens[np.lexsort((tokens, -column[tokens]))]
        listed = {data.word(x): float(column[x]) for x in falling}
    return {
        "attention": None if best is None else best.to_dict(),
        "decoder": None if decoder is None else decoder.to_dict(),
        "finite": _describe_finite(data),
        "column": listed,
    }


def _describe_finite(data: Sentences) -> dict[str, Any]:
    """The log-odds inside ties and the infimum of the loss, of sentences with one optimal token."""
    part = data.part(np.flatnonzero(data.right.sum(axis=1) == 1))
    report = {"sentences": int(part.counts.sum())}
    if not part.size:
        return report | dict.fromkeys(("infimum", "entropy", "largest")) | {"components": 0}
    return report | finite_part(part, orders(part)).to_dict()
