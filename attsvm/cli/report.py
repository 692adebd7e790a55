"""report: the page of a folder of results, drawn again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attsvm.cli.parts.options import Json, app
from attsvm.cli.parts.records import HERE, From, finish, say
from attsvm.errors import Unsupported


@app.command("report", epilog="Example: attsvm report attsvm-report --judge")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the results.")] = HERE,
    judging: Annotated[
        bool, typer.Option("--judge", help="Judge again from the saved arrays; runs no instance.")
    ] = False,
    source: From = None,
    as_json: Json = False,
) -> None:
    """Draw the page again from saved results.

    Judging again runs no instance: it checks the digests of the arrays, takes the last step of
    every run again from the record before it, certifies every solution again, and recomputes every
    number. What does not fit makes its claim undecided, and the exit code 5. Claims of your own
    are judged when --from gives their file.
    """
    if source is not None and not judging:
        raise Unsupported("--from goes with --judge: the page alone is drawn from the records")
    from attsvm.claims import CLAIMS
    from attsvm.reproduce import judge
    from attsvm.reproduce.folder import gather, opened
    from attsvm.reproduce.page.document import write_page

    place = opened(folder)
    records = judge(place, source=source, say=say) if judging else gather(place, CLAIMS, say)
    finish(place, records, write_page(place), as_json)
