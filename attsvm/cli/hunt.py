"""hunt: search for the smallest instance that breaks a statement, and prove that it does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attsvm.cli.parts.options import FAILED, Json, app, print_json
from attsvm.errors import Unsupported


@app.command("hunt", epilog="Example: attsvm hunt equal-scores --seconds 60 --out found")
def hunt_command(
    statement: Annotated[
        str | None,
        typer.Argument(help="A statement of --list, the id of a claim, or FILE.py:NAME."),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Print the statements that can be hunted.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", help="Stop after so many seconds of search.")
    ] = 60.0,
    instances: Annotated[
        int | None, typer.Option("--instances", help="Stop after so many instances.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Which instances are drawn.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes; 0 for one per core.")] = 1,
    engine: Annotated[
        str, typer.Option("--engine", help="Where blocks are searched: local, dask, slurm, here.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="Of a dask scheduler, with --engine dask.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the record; a hunt there goes on.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Search for an instance that breaks a statement, shrink it, and check it exactly.

    Small whole numbers are tried first, then simple fractions, then random entries, then changes
    that raise the violation. With --out the folder gets the record and, where something is found,
    the instance as .npz, as a few lines of Python, and a figure. Exit code 0: nothing was found, or
    what was found breaks a statement that is known to be false or is a conjecture; 5: a statement
    that is proved was broken, or a candidate could not be confirmed; 2: bad input.
    """
    if listed:
        _list(as_json)
        return
    if statement is None:
        raise Unsupported("name a statement to hunt; attsvm hunt --list names them")
    from attsvm._utils.progress import bar
    from attsvm.experiments.counterexamples import found_statement, hunt
    from attsvm.experiments.executors import engine_of
    from attsvm.experiments.executors.engine import ExecutorConfig

    made = found_statement(statement)
    alone = engine == "local" and jobs == 1 and address is None
    asked = ExecutorConfig(jobs=jobs, address=address, folder=out)
    with bar(f"hunting {made.name}") as progress:
        found = hunt(
            statement,
            seconds=seconds,
            instances=instances,
            seed=seed,
            engine="here" if alone else engine_of(engine, asked),
            out=out,
            progress=progress,
        )
    report = {
        **found.to_dict(),
        "kind": made.kind,
        "says": made.says,
        "whole": found.whole(made),
        "out": None if out is None else str(out),
    }
    if as_json:
        print_json(report)
    else:
        _print(report, made.lines)
    wrong = found.status == "found" and made.kind == "theorem"
    if wrong or found.status == "candidate":
        raise typer.Exit(FAILED)


def _print(report: dict[str, Any], lines: tuple[str, ...]) -> None:
    """The statement, what came of it, and where it is."""
    print(f"{report['statement']} ({report['kind']}): {report['says']}")
    print(f"{report['message']} (seed {report['seed']}, {report['seconds']:.1f} s)")
    if report["found"] is not None:
        for name, array in report["found"]["instance"].items():
            print(f"  {name} = {array}".replace(".0", ""))
    elif report["whole"]:
        whole = report["whole"]
        shown = "; ".join(f"({cell.replace('; ', ', entries ')})" for cell in whole[-3:])
        print(f"  of {len(whole)} sizes every instance was tried, the largest: {shown}")
    if report["out"] is not None:
        print(f"  written to {report['out']}")


def _list(as_json: bool) -> None:
    from attsvm.experiments.statements import STATEMENTS

    rows = [
        {"name": s.name, "kind": s.kind, "says": s.says, "claims": list(s.claims),
         "sizes": {k: list(v) for k, v in s.space.sizes.items()}, "proves": s.proves}
        for s in STATEMENTS.values()
    ]  # fmt: skip
    if as_json:
        print_json({"status": "done", "statements": rows})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("statement", "kind", "says"):
        table.add_column(head, no_wrap=head != "says")
    for row in rows:
        table.add_row(str(row["name"]), str(row["kind"]), str(row["says"]))
    Console(markup=False).print(table)
