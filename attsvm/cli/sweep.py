"""sweep: one measurement on many instances, on any executor; its table and its figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attsvm.cli.options import FAILED, command
from attsvm.cli.output import emit, many, rows, say
from attsvm.cli.studies import engine_options, run
from attsvm.errors import BadTokens, Unsupported

if TYPE_CHECKING:
    from attsvm.experiments.study import Study


@command("separability --quick --out sweep-1 --jobs 2")
def sweep_command(
    what: str | None = None,
    out: Path | None = None,
    quick: bool = False,
    seeds: int | None = None,
    first: int | None = None,
    engine: str = "local",
    jobs: int = 0,
    address: str | None = None,
    option: list[str] | None = None,
    retries: int = 2,
    table: Path | None = None,
    figure: Path | None = None,
    json_: bool = False,
) -> None:
    """Measure one thing on many instances, and keep every row; go on where it was stopped.

    A sweep is a study that is measured and not judged: a TOML file says what is drawn, trained and
    measured, at which points, for how many seeds; or a study of the package is taken with its
    grid. Rows are kept in the folder as they come: run the command again, or
    `attsvm sweep FOLDER`, to go on. More seeds or points keep what is there. Exit code 0: all is
    done; 5: chunks failed; 2: bad input, no space left, or a folder in use.

    Arguments
    ---------
    what : SWEEP
        A name, a study's id, a file SPEC.toml, or a sweep's folder; none: the names.

    Options
    -------
    out : FOLDER, default: sweep-NAME
        The folder.
    option : KEY=VALUE
        Of slurm, such as slurm_partition=short.
    table : FILE
        Write the table: a .csv or .parquet file.
    figure : FILE
        Draw the figure: a .svg, .png or .pdf file.
    """
    if what is None:
        _list(json_)
        return
    study, how, folder = _chosen(what, out)
    how |= {"quick": quick or how.get("quick", False), "retries": retries}
    how["seeds"] = how.get("seeds") if seeds is None else seeds
    how["first"] = how.get("first") if first is None else first
    if how["quick"] and not study.quick:
        raise BadTokens(f"{what} has no table [quick]")
    plan = study.at(quick=how["quick"], seeds=how["seeds"], first=how["first"])
    where = engine_options(engine, jobs, address, option)
    _check_files(plan, folder, table, figure)
    (record,) = run([study], folder, how, where)
    _finish(folder, plan, record, _write(folder, plan, record, table, figure), json_)


def _list(json_: bool) -> None:
    """The shipped sweeps."""
    from attsvm.experiments.spec import SHIPPED, shipped_sweep

    sweeps = {name: shipped_sweep(name) for name in SHIPPED}
    report = [{"name": name, "title": one.title, "instances": one.instances}
              for name, one in sweeps.items()]  # fmt: skip
    body = [(name, f"{one.instances:,}", one.title) for name, one in sweeps.items()]
    said = "any study can be swept as well: attsvm sweep B.rank --seeds 500"
    emit({"sweeps": report}, json_, rows(("sweep", ">instances", "what it maps"), body), said)


def _chosen(what: str, out: Path | None) -> tuple[Study, dict[str, Any], Path]:
    """The study that is meant, how it is run, and the folder of its results."""
    from attsvm.experiments.runner import results_folder
    from attsvm.experiments.spec import SHIPPED, read_sweep, shipped_sweep
    from attsvm.experiments.studies import studies, study_of

    place = Path(what)
    if what in SHIPPED:
        return shipped_sweep(what), {"source": f"sweep {what}"}, out or Path(f"sweep-{what}")
    if what.endswith(".toml"):
        return (
            read_sweep(place),
            {"source": str(place.resolve())},
            out or Path(f"sweep-{place.stem}"),
        )
    if what in studies():
        return replace(study_of(what), checks=None), {}, out or Path(f"sweep-{what}")
    if place.is_dir():
        if out is not None:
            raise Unsupported(f"{what} is a sweep's folder: leave out --out")
        asked = results_folder(place).open(asked=dict)["asked"]
        if len(asked["studies"]) != 1:
            raise Unsupported(f"{what} holds several studies: `attsvm reproduce --out {what}`")
        source = asked["source"]
        again = source.removeprefix("sweep ") if source else asked["studies"][0]
        study, how, _ = _chosen(again, None)
        return study, {**how, **{k: asked[k] for k in ("quick", "seeds", "first")}}, place
    if place.is_file():
        raise BadTokens(f"{what} is no sweep: give a file SPEC.toml, a name, or a folder")
    return shipped_sweep(what), {}, place


def _check_files(plan: Study, folder: Path, table: Path | None, figure: Path | None) -> None:
    """Raise unless the table and the figure can be written once the sweep has run."""
    from attsvm.experiments.table import check_table
    from attsvm.plotting.style import check_format

    for file in filter(None, (table, figure)):
        if file.is_dir() or not (file.parent.is_dir() or file.parent == folder):
            raise BadTokens(f"{file} cannot be written: give the name of a file in a folder")
    if table is not None and table.parent.is_dir():
        check_table(table)
    if figure is not None:
        check_format(figure)
        if plan.figure is None:
            raise BadTokens(f"{plan.id} has no table [figure]: say kind, x and value")


def _write(
    folder: Path, plan: Study, record: dict[str, Any], table: Path | None, figure: Path | None
) -> dict[str, str]:
    """Write the table and the figure asked for; their names."""
    from attsvm._utils.files import writing_to
    from attsvm.experiments.figures import figure_of
    from attsvm.experiments.runner import read_table
    from attsvm.experiments.table import as_frame, write_table
    from attsvm.plotting.style import styled, write_figure

    if "error" in record or not (table or figure):
        return {}
    columns = read_table(folder, record)
    if table is not None:
        with writing_to(table.parent):
            write_table(table, columns)
    if figure is not None:
        with writing_to(figure.parent), styled():
            write_figure(figure_of(plan, as_frame(columns)), figure)
    named = {"table": table, "figure": figure}
    return {name: str(file) for name, file in named.items() if file is not None}


def _finish(
    folder: Path, plan: Study, record: dict[str, Any], written: dict[str, str], json_: bool
) -> None:
    """Say what came of a sweep, and which files were written of it."""
    place = folder / "tables" / f"{plan.id}.csv"
    failed = "error" in record
    report = {
        "status": "failed" if failed else "done", "folder": str(folder), "table": str(place),
        "instances": plan.instances, "rows": record["rows"], "seconds": record["seconds"],
        **written,
    }  # fmt: skip
    said = [f"{many(plan.instances, 'instance')}: {many(record['rows'], 'row')} in {place}, "
            f"{record['seconds']:.0f} s of computing"]  # fmt: skip
    said += [f"{name} is written" for name in written.values()]
    emit(report, json_, *([] if failed else said))
    if failed:
        say(f"it is not finished: {record['error']}; run it again to try the rest again")
        raise typer.Exit(FAILED)
