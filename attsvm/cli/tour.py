"""tour: a shipped example in every norm, in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from attsvm.cli.options import Json, app, option
from attsvm.cli.output import emit, rows


@app.command("tour", epilog="Example: attsvm tour --out tour")
def tour_command(
    out: Annotated[Path, option("--out", "FOLDER", "Folder for the picture.")] = Path("tour"),
    as_json: Json = False,
) -> None:
    """Solve and certify a shipped example in every norm, and draw it."""
    from attsvm.plotting.tour import run_tour

    found = run_tour(out)
    table = rows(
        ("norm", ">lower", ">upper", ">gap", ">rank", "exact check"),
        (
            (
                row["norm"],
                f"{row['lower']:.9f}",
                f"{row['upper']:.9f}",
                f"{row['gap']:.1e}",
                row["rank"],
                "holds" if row["exact"] else "fails",
            )
            for row in found
        ),
        title="One selection, every norm",
    )
    picture = f"picture: {out / 'tour.svg'} and {out / 'tour.png'}"
    emit({"status": "optimal", "rows": found}, as_json, table, picture)
