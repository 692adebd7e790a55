"""sentences: whether a text is realizable, what training learns of it, and where it tends to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attsvm._utils.progress import working
from attsvm.cli.options import OUTPUT, Force, Json, Style, app, check_figure
from attsvm.cli.output import emit
from attsvm.cli.parts.sentence_options import (
    Lines,
    Lower,
    Pairs,
    Prose,
    Shortest,
    Size,
    Strip,
)
from attsvm.errors import BadTokens

SHOWN = "What is shown"


@app.command("sentences", epilog="Example: attsvm sentences text.txt --prose --lower --json")
def sentences_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Text file, one sentence per line, its label last; or --prose."
        ),
    ],
    collocations: Pairs = None,
    vocabulary: Size = None,
    limit: Lines = None,
    prose: Prose = False,
    lower: Lower = False,
    strip: Strip = False,
    shortest: Shortest = None,
    query: Annotated[
        str | None,
        typer.Option(
            "--query",
            metavar="TOKEN",
            help="Show the order of this token in full.",
            rich_help_panel=SHOWN,
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            "--length",
            min=2,
            metavar="N",
            help="Count what is decided up to this many tokens.",
            rich_help_panel=SHOWN,
        ),
    ] = None,
    ties: Annotated[
        bool,
        typer.Option(
            "--ties",
            help="Take several labels and cycles as ties; count them.",
            rich_help_panel=SHOWN,
        ),
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure",
            metavar="FILE",
            help="Draw the orders to this .svg, .png or .pdf.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    style: Style = "screen",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Whether sentences are realizable, and the order of tokens that training learns by query."""
    from attsvm.cli.parts import sentence_sections as sections
    from attsvm.cli.parts.sentence_conclusion import conclusion
    from attsvm.cli.parts.sentence_tables import show_sentences
    from attsvm.next_token.order import orders
    from attsvm.next_token.prose import Cleaning
    from attsvm.next_token.realizable import realizability
    from attsvm.next_token.text import reading

    check_figure(figure, style, force=force)
    start = time.perf_counter()
    with working(f"reading {file.name}"):
        found = reading(
            file,
            collocations=collocations,
            vocabulary=vocabulary,
            limit=limit,
            cleaning=Cleaning(prose=prose, lower=lower, strip=strip, shortest=shortest),
        )
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
            **sections.finding(data, finding, every),
            "kinds": sections.kind_counts(data, every),
            "ties": sections.tie_counts(data, every, finding) if ties else None,
            "orders": sections.order_rows(data, chosen, full=query is not None),
        }
    with working(f"solving the problems of {len(every)} queries"):
        asked = None if query is None else next(iter(chosen))
        report["solved"], column = sections.solved(data, every, asked, length)
    if figure is not None:
        from attsvm.plotting.hasse import draw_order, draw_orders

        with working("drawing"):
            if query is None:
                draw_orders(every, data, figure, look=style)
            else:
                order = next(iter(chosen.values()))
                draw_order(order, data, figure, weights=column, look=style)
    report["conclusion"] = conclusion(report)
    report["figure"] = None if figure is None else str(figure)
    report["seconds"] = time.perf_counter() - start
    if as_json:
        emit(report, as_json)
    else:
        show_sentences(report)
