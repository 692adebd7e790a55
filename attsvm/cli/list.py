"""list: the claims, and their last verdicts."""

from __future__ import annotations

from typing import Annotated

import typer

from attsvm.cli.parts.options import Json, app, print_json
from attsvm.cli.parts.records import HERE, Folder, From, about, last_records, verdict_text


@app.command("list", epilog="Example: attsvm list --out attsvm-report")
def list_command(
    papers: Annotated[
        list[str] | None, typer.Argument(metavar="[CLAIM]...", help="Ids or paper letters.")
    ] = None,
    out: Folder = HERE,
    source: From = None,
    as_json: Json = False,
) -> None:
    """The claims: id, kind, title, and the last verdict where there is one.

    Those marked (--real) are on real data: `attsvm reproduce --real` runs them.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from attsvm.experiments.reproduce import chosen_ids, known_claims
    from attsvm.experiments.reproduce.page.claim import kind_words

    known = known_claims(source)
    names = chosen_ids(papers or [], known, real=None)
    last = last_records(out, known)
    if as_json:
        print_json({"status": "done", "claims": [about(known[n], last.get(n)) for n in names]})
        return
    table = Table(box=None, pad_edge=False)
    for head in ("claim", "kind", "known from", *(["verdict"] if last else []), "title"):
        table.add_column(head, no_wrap=head != "title")
    for name in names:
        verdict = verdict_text(last[name]) if name in last else Text("not run", "dim")
        stated = about(known[name], None)
        shown = [verdict] if last else []
        title = f"{known[name].title} (--real)" if known[name].real else known[name].title
        table.add_row(name, kind_words(stated), stated["trust"], *shown, title)
    Console(markup=False).print(table)
