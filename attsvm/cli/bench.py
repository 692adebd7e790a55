"""bench: attsvm beside other solvers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from attsvm.cli.parts.options import Json, app, print_json
from attsvm.errors import Unsupported


@app.command("bench", epilog="Example: attsvm bench --quick --json")
def bench_command(
    what: Annotated[
        str | None, typer.Argument(metavar="[torch]", help="torch: steps of optimizers.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller works.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Works by name.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder for the rows.")
    ] = Path("results"),
    as_json: Json = False,
) -> None:
    """Measure attsvm beside other solvers, graded by the certificate.

    `attsvm bench torch` measures whole steps of torch optimizers instead: ours, SGD and AdamW.
    """
    if what is not None:
        _optimizers(what, quick, bool(only), as_json)
        return
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


def _optimizers(what: str, quick: bool, only: bool, as_json: bool) -> None:
    """The race of torch optimizers, printed."""
    if what != "torch" or only:
        raise Unsupported("bench takes no argument, or torch alone")
    from attsvm.bench.optimizers import run, table

    show = sys.stderr.isatty()
    rows = run(quick=quick, progress=lambda line: print(line, file=sys.stderr) if show else None)
    if as_json:
        print_json({"status": "done", "rows": rows})
    else:
        print(table(rows))
