"""bench: attsvm beside other solvers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from attsvm.cli.parts.options import Json, app, print_json


@app.command("bench", epilog="Example: attsvm bench --quick --json")
def bench_command(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller works.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="Works by name.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the rows.")] = Path("results"),
    as_json: Json = False,
) -> None:
    """Measure attsvm beside other solvers, graded by the certificate."""
    from attsvm.bench import run, table

    report = run(
        quick=quick,
        only=only,
        out=out,
        progress=lambda line: print(line, file=sys.stderr) if sys.stderr.isatty() else None,
    )
    if as_json:
        print_json(report)
    else:
        print(table(report["rows"]))
