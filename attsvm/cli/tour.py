"""tour: a shipped example in every norm, in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attsvm.cli.parts import summary
from attsvm.cli.parts.options import Json, app, print_json


@app.command("tour", epilog="Example: attsvm tour --out tour")
def tour_command(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder for the picture.")
    ] = Path("tour"),
    as_json: Json = False,
) -> None:
    """Solve and certify a shipped example in every norm, and draw it."""
    from rich.console import Console

    from attsvm.plotting.tour import run_tour

    rows = run_tour(out)
    if as_json:
        print_json({"status": "optimal", "rows": rows})
        return
    Console(markup=False).print(summary.tour_table(rows))
    print(f"picture: {out / 'tour.svg'} and {out / 'tour.png'}")
