"""hunt: search for the smallest instance that breaks a statement, and prove that it does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attsvm.cli.options import FAILED, Jobs, Json, app, option
from attsvm.cli.output import emit, rows
from attsvm.errors import Unsupported


@app.command("hunt", epilog="Example: attsvm hunt equal-scores --seconds 60 --out found")
def hunt_command(
    statement: Annotated[
        str | None,
        typer.Argument(help="A statement of --list, the id of a claim, or FILE.py:NAME."),
    ] = None,
    listed: Annotated[
        bool, option("--list", None, "Print the statements that can be hunted.")
    ] = False,
    seconds: Annotated[
        float, option("--seconds", "X", "Stop after so many seconds of search.")
    ] = 60.0,
    instances: Annotated[
        int | None,
        option("--instances", "N", "Stop after so many instances.", show_default="no limit"),
    ] = None,
    seed: Annotated[int, option("--seed", "N", "Which instances are drawn.")] = 0,
    jobs: Jobs = 1,
    engine: Annotated[
        str, option("--engine", "NAME", "Where blocks are searched: local, dask, slurm, here.")
    ] = "local",
    address: Annotated[
        str | None, option("--address", "URL", "Of a dask scheduler, with --engine dask.")
    ] = None,
    out: Annotated[
        Path | None, option("--out", "FOLDER", "Folder of the record; a hunt there goes on.")
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
    config = ExecutorConfig(jobs=jobs, address=address, folder=out)
    with bar(f"hunting {made.name}") as progress:
        found = hunt(
            statement,
            seconds=seconds,
            instances=instances,
            seed=seed,
            engine="here" if alone else engine_of(engine, config),
            out=out,
            progress=progress,
        )
    report = {
        **found.to_dict(),
        "kind": made.kind,
        "says": made.says,
        "out": None if out is None else str(out),
    }
    emit(report, as_json, *_lines(report))
    wrong = found.status == "found" and made.kind == "theorem"
    if wrong or found.status == "candidate":
        raise typer.Exit(FAILED)


def _lines(report: dict[str, Any]) -> list[str]:
    """The statement, what came of it, and where it is."""
    lines = [
        f"{report['statement']} ({report['kind']}): {report['says']}",
        f"{report['message']} (seed {report['seed']}, {report['seconds']:.1f} s)",
    ]
    if report["found"] is not None:
        for name, array in report["found"]["instance"].items():
            lines.append(f"  {name} = {array}".replace(".0", ""))
    return [*lines, f"  written to {report['out']}"] if report["out"] is not None else lines


def _list(as_json: bool) -> None:
    from attsvm.experiments.statements import STATEMENTS

    report = [
        {"name": s.name, "kind": s.kind, "says": s.says, "claims": list(s.claims),
         "sizes": {k: list(v) for k, v in s.space.sizes.items()}, "proves": s.proves}
        for s in STATEMENTS.values()
    ]  # fmt: skip
    body = [(row["name"], row["kind"], row["says"]) for row in report]
    table = rows(("statement", "kind", "says"), body)
    emit({"status": "done", "statements": report}, as_json, table)
