"""warm."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from attsvm.cli.parts.options import Json, app, print_json


@app.command("warm", epilog="Example: attsvm warm --jobs 2")
def warm_command(
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=1, help="Processes that compile.")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Compile every kernel now, so that no later call waits for it."""
    from attsvm._utils.compiled import silence
    from attsvm.cli.parts.warming import place, warm_up

    silence()
    start = time.perf_counter()
    count = warm_up(jobs)
    seconds = time.perf_counter() - start
    if as_json:
        found = {"status": "done", "compiled": count, "seconds": seconds, "place": place()}
        print_json(found)
    elif count:
        print(f"compiled {count} kernels in {seconds:.0f} s; they are kept in {place()}")
    else:
        print(f"nothing to compile: all kernels are in {place()}")
