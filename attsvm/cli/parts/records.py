"""What the commands on claims share: where results lie, the last verdicts, and how to end."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attsvm.cli.parts.options import FAILED, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.text import Text

    from attsvm.experiments.studies.claim import Claim

# The claims and what draws them are loaded by the commands that need them: the others start fast.

Record = dict[str, Any]
HERE = Path("attsvm-report")
Folder = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the results.")]
From = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE.py", help="Claims of your own: CLAIM or CLAIMS of FILE."),
]
COLOURS = {
    "holds": "green",
    "fails": "bold red",
    "not reproduced at this size": "yellow",
    "undecided": "yellow",
}


def say(sentence: str) -> None:
    """One line on standard error."""
    print(f"attsvm: {sentence}", file=sys.stderr)


def last_records(folder: Path, known: Mapping[str, Claim]) -> dict[str, Record]:
    """The records on file of these claims, by id; none when nothing was run in the folder."""
    from attsvm.experiments.reproduce.folder import open_folder, read_record

    if folder == HERE and not (folder / "attsvm.json").exists():
        return {}
    place = open_folder(folder)
    found = {name: read_record(place / "claims" / f"{name}.json", say) for name in known}
    return {name: record for name, record in found.items() if record is not None}


def about(claim: Claim, record: Record | None) -> dict[str, Any]:
    """What a list says of a claim."""
    return {
        "id": claim.id,
        "paper": claim.paper,
        "kind": claim.kind,
        "trust": claim.trust,
        "real": claim.real,
        "title": claim.title,
        "statement": claim.statement,
        "differs": claim.differs,
        "numbered": claim.numbered,
        "size": claim.size,
        "verdict": None if record is None else record["verdict"],
    }


def verdict_text(record: Record) -> Text:
    """The verdict in its colour."""
    from rich.text import Text

    verdict = str(record["verdict"])
    return Text(f"{verdict} (broken)" if "error" in record else verdict, COLOURS.get(verdict, ""))


def finish(folder: Path, records: list[Record], page: Path, as_json: bool) -> None:
    """Print what was found and where the page is, and leave with the code of the verdicts."""
    from rich.console import Console
    from rich.table import Table

    from attsvm.experiments.reproduce.folder import RESULTS
    from attsvm.experiments.reproduce.page.claim import VERDICTS, failing_words

    counts = Counter(str(record["verdict"]) for record in records)
    wrong = [str(r["id"]) for r in records if r["verdict"] == "fails" or "error" in r]
    if as_json:
        print_json(
            {
                "status": "failed" if wrong else "done",
                "page": str(page),
                "results": str(folder / RESULTS),
                **{v: counts[v] for v in VERDICTS},
                "claims": records,
            }
        )
    else:
        table = Table(box=None, pad_edge=False)
        for head in ("claim", "verdict", "seconds", "title"):
            justify: Any = "right" if head == "seconds" else "left"
            table.add_column(head, no_wrap=head != "title", justify=justify)
        for record in records:
            spent = record.get("seconds")
            shown = f"{spent:.1f}" if isinstance(spent, int | float) else "–"
            table.add_row(str(record["id"]), verdict_text(record), shown, str(record["title"]))
        Console(markup=False).print(table)
        said = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])
        print(f"{len(records)} claims: {said or 'none on file'}{failing_words(records)}")
        print(f"page: {page}")
    if wrong:
        say(f"{len(wrong)} of {len(records)} fail or could not be run: {', '.join(wrong)}")
        raise typer.Exit(FAILED)
