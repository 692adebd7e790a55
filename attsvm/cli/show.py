"""show: one claim, what it says and what was found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attsvm.cli.parts.options import Json, app, print_json
from attsvm.cli.parts.records import (
    HERE,
    Folder,
    From,
    Record,
    about,
    last_records,
    verdict_text,
)

if TYPE_CHECKING:
    from rich.table import Table


@app.command("show", epilog="Example: attsvm show A.single-input-local")
def show_command(
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="Id of a claim.")],
    out: Folder = HERE,
    source: From = None,
    as_json: Json = False,
) -> None:
    """One claim: its statement, and the numbers of its last run or how it would be run."""
    from rich.console import Console, Group
    from rich.text import Text

    from attsvm.experiments.reproduce import known_claims
    from attsvm.experiments.reproduce.page.claim import KINDS, TRUST
    from attsvm.experiments.studies import claim_of

    known = known_claims(source)
    found = claim_of(claim, known)
    record = last_records(out, known).get(found.id)
    if as_json:
        configs = {"full": found.full, "quick": found.quick, "record": record}
        print_json({"status": "done", **about(found, record), **configs})
        return
    parts: list[Any] = [
        Text(f"{found.id}  {found.title}", "bold"),
        Text(found.statement),
        Text(),
        Text(KINDS[found.kind], "dim"),
        Text(TRUST[found.trust], "dim"),
    ]
    parts += [
        Text(f"{word}: {said}", "dim")
        for word, said in (("In the paper", found.numbered), ("Size", found.size))
        if said
    ]
    if found.differs:
        parts += [Text(), Text(f"Differs from what is published: {found.differs}")]
    if record is None:
        parts += [Text(), Text("Not run yet. Its config:")]
        parts += [Text(f"  {key} = {json.dumps(value)}") for key, value in found.full.items()]
        where = "" if source is None else f" --from {source}"
        parts += [Text(f"Run it: attsvm reproduce {found.id}{where}")]
    else:
        size = " (quick)" if record.get("quick") else ""
        parts += [Text(), Text.assemble("Verdict: ", verdict_text(record), size), _numbers(record)]
        parts += [
            Text(f"{word}: {record[key]}")
            for key, word in (("premises", "Premises"), ("reason", "Reason"))
            if record.get(key)
        ]
    Console(markup=False, highlight=False).print(Group(*parts))


def _numbers(record: Record) -> Table:
    """The table of what was seen and what was asked."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("what", "seen", "asked", "met"):
        table.add_column(head)
    words = {True: "yes", False: "no", None: ""}
    for row in record.get("numbers", []):
        seen = row.get("seen")
        shown = f"{seen:.6g}" if isinstance(seen, int | float) else str(seen)
        table.add_row(str(row.get("what")), shown, str(row.get("asked")), words[row.get("met")])
    return table
