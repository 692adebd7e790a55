"""sentences."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from attsvm.cli.parts.options import Force, Json, app, print_json
from attsvm.cli.parts.sentences_shown import cut, show_sentences
from attsvm.cli.parts.sentences_solved import solved
from attsvm.errors import BadTokens
from attsvm.ground.files import check_out
from attsvm.ground.progress import working
from attsvm.language.chain import chains, longest_chain
from attsvm.language.order import KINDS, Order, orders
from attsvm.language.realizable import Realizability, realizability
from attsvm.language.sentences import Sentences
from attsvm.language.text import Reading, reading


@app.command("sentences", epilog="Example: attsvm sentences text.txt --collocations bigrams --json")
def sentences_command(
    file: Annotated[Path, typer.Argument(help="Text file, one sentence a line, its label last.")],
    collocations: Annotated[
        str | None,
        typer.Option("--collocations", help="File of two-token lines, or bigrams, or copy."),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option("--vocabulary", min=1, help="Number of tokens; of words the most frequent."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Read only so many lines.")
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", help="Show the order of this token in full.")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option("--length", min=2, help="Count what is decided up to this many tokens."),
    ] = None,
    ties: Annotated[
        bool, typer.Option("--ties", help="Take several labels and cycles as ties; count them.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the orders to this .svg, .png or .pdf.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Whether sentences are realizable, and the order of tokens that training learns by query."""
    if figure is not None:
        from attsvm.figures.run import check_format

        check_out(figure, force=force)
        check_format(figure)
    start = time.perf_counter()
    with working(f"reading {file.name}"):
        found = reading(file, collocations=collocations, vocabulary=vocabulary, limit=limit)
    data = found.sentences
    with working(f"comparing the tokens of {data.size} sentences"):
        every = orders(data)
        if figure is not None and not every:
            raise BadTokens(f"{file} has no sentence, only collocations: there is nothing to draw")
        chosen = every if query is None else {q: every[q] for q in [_query(query, data, every)]}
        finding = realizability(data, every)
        # The sections of the report: each is a part of the object and of the tables below.
        report: dict[str, Any] = {
            **_facts(file, found, every),
            **_finding(data, finding),
            "kinds": _kinds(data, every),
            "ties": _ties(data, every, finding) if ties else None,
            "orders": _rows(data, chosen, full=query is not None),
        }
    with working(f"solving the problems of {len(every)} queries"):
        asked = None if query is None else next(iter(chosen))
        report["solved"], column = solved(data, every, asked, length)
    if figure is not None:
        from attsvm.figures.hasse import draw_order, draw_orders

        with working("drawing"):
            if query is None:
                draw_orders(every, data, figure)
            else:
                draw_order(next(iter(chosen.values())), data, figure, weights=column)
    report["figure"] = None if figure is None else str(figure)
    report["seconds"] = time.perf_counter() - start
    if as_json:
        print_json(report)
    else:
        show_sentences(report)


def _query(word: str, data: Sentences, every: Mapping[int, Order]) -> int:
    """The token number of a query; an error unless it is one."""
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


def _facts(file: Path, found: Reading, every: Mapping[int, Order]) -> dict[str, Any]:
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
    }


def _finding(data: Sentences, finding: Realizability) -> dict[str, Any]:
    """Whether the data are realizable, and why not."""
    return {
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
    }


def _kinds(data: Sentences, every: Mapping[int, Order]) -> dict[str, int]:
    """How many tokens there are of each kind, over all queries."""
    counts: Counter[str] = Counter()
    for order in every.values():
        counts.update(order.kinds.tolist())
    counts[KINDS[3]] = len(every) * data.vocabulary - counts.total()
    return {kind: counts[kind] for kind in KINDS}


def _ties(data: Sentences, every: Mapping[int, Order], finding: Realizability) -> dict[str, Any]:
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


def _rows(data: Sentences, chosen: Mapping[int, Order], *, full: bool) -> list[dict[str, Any]]:
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
