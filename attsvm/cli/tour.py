"""tour: a shipped example in every norm, in one picture."""

from __future__ import annotations

from pathlib import Path

from attsvm.cli.options import command
from attsvm.cli.output import emit, rows


@command("--out tour")
def tour_command(out: Path = Path("tour"), json_: bool = False) -> None:
    """Solve and certify a shipped example in every norm, and draw it.

    Options
    -------
    out : FOLDER
        Folder for the picture.
    """
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
    emit({"status": "optimal", "rows": found}, json_, table, picture)
