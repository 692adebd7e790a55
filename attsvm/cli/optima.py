"""optima: every selection, and which of them are optimal."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from attsvm._utils.progress import bar
from attsvm.cli.parts import summary
from attsvm.cli.parts.options import File, Json, NormName, app, print_json, read_norm
from attsvm.errors import BadTokens


@app.command("optima", epilog="Example: attsvm optima tokens.npz --json")
def optima_command(
    file: File,
    norm: NormName = "frobenius",
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=1, help="Refuse more selections than this.")
    ] = 10**7,
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=0, help="Selections listed at most.")
    ] = 1000,
    as_json: Json = False,
) -> None:
    """Every selection: feasible, globally and locally optimal, with least norms."""
    from rich.console import Console

    from attsvm.cli.parts.archive import read_problem
    from attsvm.theory.optima import count_selections, local_optima

    archive = read_problem(file)
    if "v" not in archive.arrays:
        raise BadTokens(f"{file} has no array v: optimality needs the head's vector for scores")
    geometry = read_norm(norm)
    total = count_selections(archive.tokens)
    if sys.stderr.isatty():
        print(f"{total} selections", file=sys.stderr)
    start = time.perf_counter()
    with bar("selections") as progress:
        found = local_optima(
            archive.tokens, archive.arrays["v"], geometry, most=most, progress=progress
        )
    report = {
        **summary.describe_optima(found, geometry, rows),
        "seconds": time.perf_counter() - start,
    }
    if as_json:
        print_json(report)
        return
    Console(markup=False).print(summary.optima_table(report))
