"""report: the page of a folder of results, drawn again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attsvm.cli.parts.options import Json, app
from attsvm.cli.parts.records import HERE, finish, say


@app.command("report", epilog="Example: attsvm report attsvm-report")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the results.")] = HERE,
    as_json: Json = False,
) -> None:
    """Draw the page again from saved results."""
    from attsvm.experiments.reproduce.folder import gather, open_folder
    from attsvm.experiments.reproduce.page.document import write_page
    from attsvm.experiments.studies import CLAIMS

    place = open_folder(folder)
    finish(place, gather(place, CLAIMS, say), write_page(place), as_json)
