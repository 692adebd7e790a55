"""What training on sentences tends to, solved and certified, for the report of `sentences`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attsvm.ground.arrays import Floats
from attsvm.ground.memory import require
from attsvm.language.covering import Coverage, coverage
from attsvm.language.embedding import embedding_of
from attsvm.language.finite import entropy, finite_part
from attsvm.language.order import Order, orders
from attsvm.language.problems import Columns, solve_attention, solve_decoder
from attsvm.language.sentences import Sentences

# A gap that training of ordinary length has made clear.
GAP = 0.25
# Pairs of tokens that are compared to count what is decided: a second or two.
_PAIRS = 3e8


def solved(
    data: Sentences, every: Mapping[int, Order], query: int | None, length: int | None
) -> tuple[dict[str, Any], Floats | None]:
    """(report, column): both problems on orthonormal tokens, and the finite part.

    query: the one whose column u (N,) is given, and listed by word, or None. length: up to how
    many tokens all sentences are counted that the solution decides, those of the data without it.
    """
    N = data.vocabulary
    require(5 * 8 * N * N, f"the matrices of {N} tokens")
    E = embedding_of(N)
    some = any(len(order.tokens) for order in every.values())
    best = solve_attention(every, E) if some else None
    decoder = solve_decoder(data, E) if N > 1 and (data.follows >= 0).any() else None
    u = None if query is None or best is None else best.W[:, query]
    report = {
        "attention": None if best is None else _bounds(best),
        "decoder": None if decoder is None else _bounds(decoder),
        "finite": _finite(data),
        "coverage": None if best is None else _coverage(data, every, best, length),
        "column": None if u is None or query is None else _column(data, u, every[query]),
    }
    return report, u


def _bounds(best: Columns) -> dict[str, Any]:
    """A certificate in numbers."""
    return {
        "status": best.status, "lower": best.lower, "upper": best.upper, "gap": best.gap,
        "columns": sum(best.times), "message": best.message,
    }  # fmt: skip


def _finite(data: Sentences) -> dict[str, Any]:
    """The log-odds inside ties and the floor of the loss, over sentences with one optimal token."""
    tokens, _ = data.distinct
    right = (tokens >= 0) & (data.follows[tokens] == data.labels[:, None])
    one = right.sum(axis=1) == 1
    part = data.part(np.flatnonzero(one))
    report: dict[str, Any] = {"sentences": int(part.counts.sum()), "components": 0}
    if not part.size:
        return report | {"floor": None, "entropy": None, "largest": None}
    found = finite_part(part, orders(part))
    return report | {
        "components": found.components, "floor": found.floor, "entropy": entropy(part),
        "largest": float(np.abs(found.W).max()), "residual": found.residual,
    }  # fmt: skip


def _coverage(
    data: Sentences, every: Mapping[int, Order], best: Columns, length: int | None
) -> dict[str, Any] | None:
    """The share of all sentences with a query of the data that the solution decides.

    None where counting would take long: N² pairs of tokens for each query.
    """
    if data.vocabulary**2 * len(every) > _PAIRS:
        return None
    most = int(data.lengths.max(initial=2)) if length is None else length
    decided, wide = (
        sum(
            (coverage(order, best.W[: data.vocabulary, q], most, gap=gap, up_to=True)
             for q, order in every.items()), Coverage(0, 0, 0),
        )
        for gap in (0.0, GAP)
    )  # fmt: skip
    return {
        "length": most, "gap": GAP, "decided": decided.share, "wide": wide.share,
        "ordered": decided.ordered_share,
    }  # fmt: skip


def _column(data: Sentences, column: Floats, order: Order) -> dict[str, float]:
    """u of each token in a relation, from the top; all others are 0."""
    u = column[order.tokens]
    return {data.word(order.tokens[k]): float(u[k]) for k in np.lexsort((order.tokens, -u))}


def levels(column: dict[str, float]) -> list[tuple[float, list[str]]]:
    """(u, its words) for each different u of a column, from the top; equal to nine digits."""
    found: list[tuple[float, list[str]]] = []
    for word, u in column.items():
        if not found or found[-1][0] - u > 1e-9:
            found.append((u, []))
        found[-1][1].append(word)
    return found
