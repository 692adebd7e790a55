"""The sections of the report of `sentences`: plain data for JSON and for the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.memory import require
from attsvm.cli.parts.sentence_tables import cut
from attsvm.errors import BadTokens
from attsvm.next_token.infimum import entropy, finite_part
from attsvm.next_token.order import KINDS, Order, chains, longest_chain, orders
from attsvm.next_token.problems import Columns, solve_attention, solve_decoder
from attsvm.next_token.realizable import Realizability, explained
from attsvm.next_token.sentences import Sentences, embedding_of
from attsvm.next_token.text import TextReading
from attsvm.next_token.unseen import Coverage, coverage

# A gap that training of ordinary length has made clear.
GAP = 0.25
# KindPairs of tokens that are compared to count what is decided: a second or two.
_PAIRS = 3e8


def query_token(word: str, data: Sentences, every: Mapping[int, Order]) -> int:
    """The token number of a query; raises BadTokens unless it is one."""
    if data.names is not None:
        token = data.names.index(word) if word in data.names else -1
    else:
        token = int(word) if word.isdecimal() and len(word) < 19 else -1
    if token not in every:
        some = ", ".join(cut(data.word(q)) for q in list(every)[:8])
        more = ", …" if len(every) > 8 else ""
        raise BadTokens(
            f"--query {word!r} is the query of no sentence; queries are {some or 'none'}{more}"
        )
    return token


def facts(file: Path, found: TextReading, every: Mapping[int, Order]) -> dict[str, Any]:
    """What the file holds."""
    data = found.sentences
    return {
        "file": str(file),
        "sentences": int(data.counts.sum()),
        "distinct": data.size,
        "vocabulary": data.vocabulary,
        "collocations": int((data.follows >= 0).sum()),
        "queries": len(every),
        "left_out": {
            "words": found.left_out_words,
            "tokens": found.left_out_tokens,
            "lines": found.left_out_lines,
            "collocations": found.left_out_collocations,
        },
        "skipped": found.skipped,
        "followers": found.mode or "written",
        "ordered_queries": sum(bool(len(order.tokens)) for order in every.values()),
    }


def finding(data: Sentences, finding: Realizability, every: Mapping[int, Order]) -> dict[str, Any]:
    """Whether the data are realizable, how many sentences are, and why not."""
    none = ~data.optimal.any(axis=1)
    return {
        "explained": int(data.counts[explained(data, every)].sum()),
        "without_optimal": int(data.counts[none].sum()),
        "status": "realizable" if finding.realizable else "not-realizable",
        "faults": finding.counts,
        "reasons": [
            {
                "kind": fault.kind,
                "message": fault.message,
                "lines": [int(data.lines[s]) for s in fault.sentences],
            }
            for fault in finding.reasons
        ],
        "dominant": finding.dominant,
        "exceptions": len(finding.exceptions),
        "outside": list(finding.outside),
        "unclosed": len(finding.unclosed),
    }


def kind_counts(data: Sentences, every: Mapping[int, Order]) -> dict[str, int]:
    """How many tokens there are of each kind, over all queries."""
    counts: Counter[str] = Counter()
    for order in every.values():
        counts.update(order.kinds.tolist())
    counts[KINDS[3]] = len(every) * data.vocabulary - counts.total()
    return {kind: counts[kind] for kind in KINDS}


def tie_counts(
    data: Sentences, every: Mapping[int, Order], finding: Realizability
) -> dict[str, Any]:
    """What the ties are, once several labels of a context and cycles are allowed."""
    sizes = [np.bincount(order.component) for order in every.values() if len(order.tokens)]
    tied = [size[size > 1] for size in sizes]
    return {
        "contexts": finding.counts["contradiction"],
        "queries": sum(bool(size.size) for size in tied),
        "components": sum(map(len, sizes)),
        "tied_components": sum(map(len, tied)),
        "tied_tokens": sum(int(size.sum()) for size in tied),
        "largest": max((int(size.max()) for size in tied if size.size), default=0),
        # Nothing can be learnt from these: none of their tokens is followed by the label.
        "sentences_without_optimal": int((~data.optimal.any(axis=1)).sum()),
    }


def order_rows(data: Sentences, chosen: Mapping[int, Order], *, full: bool) -> list[dict[str, Any]]:
    """Each query's order in numbers, and in full its chains: steps, each a list of tied words."""
    times = np.bincount(data.queries, data.counts, minlength=data.vocabulary)
    rows = []
    for query, order in chosen.items():
        kinds = Counter(order.kinds.tolist())
        row = {
            "query": data.word(query),
            "sentences": int(times[query]),
            "tokens": len(order.tokens),
            "edges": len(order.hi),
            "covers": len(order.covers[0]),
            **{kind: kinds[kind] for kind in KINDS[:3]},
            "chain": longest_chain(order),
            "components": len(order.first),
        }
        if full:
            row["chains"] = [[[data.word(x) for x in s] for s in c] for c in chains(order)]
        rows.append(row)
    return rows


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
        "status": best.status,
        "lower": best.lower,
        "upper": best.upper,
        "gap": best.gap,
        "columns": sum(best.times),
        "message": best.message,
    }


def _finite(data: Sentences) -> dict[str, Any]:
    """The log-odds inside ties and the infimum of the loss, of sentences with one best token."""
    tokens, _ = data.distinct
    right = (tokens >= 0) & (data.follows[tokens] == data.labels[:, None])
    one = right.sum(axis=1) == 1
    part = data.part(np.flatnonzero(one))
    report: dict[str, Any] = {"sentences": int(part.counts.sum()), "components": 0}
    if not part.size:
        return report | {"infimum": None, "entropy": None, "largest": None}
    found = finite_part(part, orders(part))
    return report | {
        "components": found.components,
        "infimum": found.infimum,
        "entropy": entropy(part),
        "largest": float(np.abs(found.W).max()),
        "residual": found.residual,
    }


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
            (
                coverage(order, best.W[: data.vocabulary, q], most, gap=gap, up_to=True)
                for q, order in every.items()
            ),
            Coverage(0, 0, 0),
        )
        for gap in (0.0, GAP)
    )
    return {
        "length": most,
        "gap": GAP,
        "decided": decided.share,
        "wide": wide.share,
        "ordered": decided.ordered_share,
    }


def _column(data: Sentences, column: Floats, order: Order) -> dict[str, float]:
    """u of each token in a relation, from the top; all others are 0."""
    u = column[order.tokens]
    return {data.word(order.tokens[k]): float(u[k]) for k in np.lexsort((order.tokens, -u))}
