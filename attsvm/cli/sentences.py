"""sentences: whether a text is realizable, what training learns of it, and where it tends to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from attsvm._utils.progress import working
from attsvm.cli.parts.options import (
    OUTPUT,
    Force,
    Glossary,
    Json,
    Style,
    app,
    check_figure,
    print_json,
)
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
    glossary: Glossary = False,
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
    from attsvm.cli.parts.sentence_conclusion import conclusion
    from attsvm.cli.parts.sentence_tables import find_query, show_sentences
    from attsvm.next_token.order import orders
    from attsvm.next_token.report import describe_sentences
    from attsvm.next_token.text import read_text

    check_figure(figure, style, force=force)
    start = time.perf_counter()
    with working(f"reading {file.name}"):
        found = read_text(
            file,
            collocations=collocations,
            vocabulary=vocabulary,
            limit=limit,
            prose=prose,
            lower=lower,
            strip=strip,
            shortest=shortest,
        )
    data = found.sentences
    with working(f"comparing the tokens of {data.size} sentences"):
        every = orders(data)
        if figure is not None and not every:
            raise BadTokens(f"{file} has no sentence, only collocations: there is nothing to draw")
        token = None if query is None else find_query(query, data, every)
    with working(f"solving the problems of {len(every)} queries"):
        report, column = describe_sentences(found, every, query=token, length=length, ties=ties)
    if figure is not None:
        from attsvm.plotting.hasse import draw_order, draw_orders

        with working("drawing"):
            if token is None:
                draw_orders(every, data, figure, look=style)
            else:
                draw_order(every[token], data, figure, weights=column, look=style)
    report = {"file": str(file), **report}
    report["conclusion"] = conclusion(report)
    report["figure"] = None if figure is None else str(figure)
    report["seconds"] = time.perf_counter() - start
    if as_json:
        print_json(report)
    else:
        show_sentences(report)
