"""sentences: whether a text is realizable, what training learns of it, and where it tends to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attsvm.cli.parts.options import Force, Json, app, print_json
from attsvm.errors import BadTokens
from attsvm.ground.files import check_out
from attsvm.ground.progress import working


@app.command("sentences", epilog="Example: attsvm sentences text.txt --collocations bigrams --json")
def sentences_command(
    file: Annotated[Path, typer.Argument(help="Text file, one sentence per line, its label last.")],
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
    from attsvm.cli.parts import sentence_sections as sections
    from attsvm.cli.parts.sentence_tables import show_sentences
    from attsvm.language.order import orders
    from attsvm.language.realizable import realizability
    from attsvm.language.text import reading

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
        chosen = (
            every
            if query is None
            else {q: every[q] for q in [sections.query_token(query, data, every)]}
        )
        finding = realizability(data, every)
        # The sections of the report: each is a part of the object and of the tables below.
        report: dict[str, Any] = {
            **sections.facts(file, found, every),
            **sections.finding(data, finding),
            "kinds": sections.kind_counts(data, every),
            "ties": sections.tie_counts(data, every, finding) if ties else None,
            "orders": sections.order_rows(data, chosen, full=query is not None),
        }
    with working(f"solving the problems of {len(every)} queries"):
        asked = None if query is None else next(iter(chosen))
        report["solved"], column = sections.solved(data, every, asked, length)
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
