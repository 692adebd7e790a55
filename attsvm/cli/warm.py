"""warm."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated

import typer

from attsvm.cli.parts import warming
from attsvm.cli.parts.options import Json, app, print_json
from attsvm.ground.progress import bar
from attsvm.ground.waiting import hush


@app.command("warm", epilog="Example: NUMBA_CACHE_DIR=/opt/kernels attsvm warm")
def warm_command(
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes that compile.")] = 1,
    as_json: Json = False,
) -> None:
    """Compile every kernel now, so that no later call waits for it."""
    hush()
    start = time.perf_counter()
    names = [name for name, _ in warming.steps()]
    # A share holds neighbours, which have kernels in common.
    size = max(1, -(-len(names) // jobs))
    shares = [names[k : k + size] for k in range(0, len(names), size)]
    with bar("compiling kernels") as tell:
        if jobs == 1:
            count = _compile(names, tell)
        else:
            with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
                count = 0
                for k, made in enumerate(pool.map(_compile, shares)):
                    count += made
                    if tell is not None:
                        tell((k + 1) / len(shares))
    seconds = time.perf_counter() - start
    if as_json:
        print_json({"status": "done", "compiled": count, "seconds": seconds,
                    "place": warming.place()})  # fmt: skip
    elif count:
        print(f"compiled {count} kernels in {seconds:.0f} s; they are kept in {warming.place()}")
    else:
        print(f"nothing to compile: all kernels are in {warming.place()}")


def _compile(names: list[str], tell: object = None) -> int:
    """How many kernels were compiled by the steps of these names."""
    chosen = [step for step in warming.steps() if step[0] in names]
    count = 0
    for k, (name, count) in enumerate(warming.run(chosen)):
        if callable(tell):
            tell((k + 1) / len(chosen))
        elif not sys.stderr.isatty() and count:
            print(f"{name}: {count} kernels", file=sys.stderr, flush=True)
    return count
