"""hunt: search for the smallest instance that breaks a statement, and prove that it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from attsvm.cli.options import FAILED, command
from attsvm.cli.output import emit, rows
from attsvm.errors import Unsupported


@command("equal-scores --seconds 60 --out found")
def hunt_command(
    statement: str | None = None,
    list_: bool = False,
    seconds: float = 60.0,
    instances: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    engine: str = "local",
    address: str | None = None,
    out: Path | None = None,
    json_: bool = False,
) -> None:
    """Search for an instance that breaks a statement, shrink it, and check it exactly.

    Small whole numbers are tried first, then simple fractions, then random entries, then changes
    that raise the violation. With --out the folder gets the record and, where something is found,
    the instance as .npz, as a few lines of Python, and a figure. Exit code 0: nothing was found, or
    what was found breaks a statement that is known to be false or is a conjecture; 5: a statement
    that is proved was broken, or a candidate could not be confirmed; 2: bad input.

    Arguments
    ---------
    statement : STATEMENT
        A statement of --list, the id of a claim, or FILE.py:NAME.

    Options
    -------
    list
        Print the statements that can be hunted.
    seconds : X
        Stop after so many seconds of search.
    instances : N, default: no limit
        Stop after so many instances.
    seed : N
        Which instances are drawn.
    out : FOLDER
        A new folder for the record.
    """
    if list_:
        _list(json_)
        return
    if statement is None:
        raise Unsupported("name a statement to hunt; attsvm hunt --list names them")
    from attsvm._utils.progress import bar
    from attsvm.experiments.counterexamples import found_statement, hunt
    from attsvm.experiments.executors import ExecutorConfig, engine_of

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
    emit(report, json_, *_lines(report))
    wrong = found.status == "found" and made.kind == "theorem"
    if wrong or found.status == "candidate":
        raise typer.Exit(FAILED)


def _lines(report: dict[str, Any]) -> list[str]:
    """The statement, what came of it, and where it is."""
    instance = {} if report["found"] is None else report["found"]["instance"]
    lines = [
        f"{report['statement']} ({report['kind']}): {report['says']}",
        f"{report['message']} (seed {report['seed']}, {report['seconds']:.1f} s)",
        *(f"  {name} = {array}".replace(".0", "") for name, array in instance.items()),
    ]
    return [*lines, f"  written to {report['out']}"] if report["out"] is not None else lines


def _list(json_: bool) -> None:
    from attsvm.experiments.statements import STATEMENTS

    report = [
        {"name": s.name, "kind": s.kind, "says": s.says, "claims": list(s.claims),
         "sizes": {k: list(v) for k, v in s.space.sizes.items()}, "proves": s.proves}
        for s in STATEMENTS.values()
    ]  # fmt: skip
    heads = ("name", "kind", "says")
    table = rows(heads, ([row[head] for head in heads] for row in report))
    emit({"status": "done", "statements": report}, json_, table)
