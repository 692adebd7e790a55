"""sweep: one measurement on many instances, on any engine; its table and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from attsvm.cli.parts.options import FAILED, Json, app, print_json, stop
from attsvm.errors import BadTokens, Unsupported

if TYPE_CHECKING:
    from attsvm.experiments.executors import ExecutorConfig
    from attsvm.experiments.sweep import Spec, Swept


@app.command("sweep", epilog="Example: attsvm sweep separability --quick --out sweep-1 --jobs 2")
def sweep_command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC]", help="A name, a file SPEC.toml, or a sweep's folder; none: the names."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder; sweep-NAME unless given.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Run it small: the fewer seeds, points or steps of the spec's table quick.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how much it is and how long it may take.")
    ] = False,
    engine: Annotated[str, typer.Option("--engine", help="local, here, dask or slurm.")] = "local",
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Workers; 0 for one per core.")] = 0,
    address: Annotated[
        str | None, typer.Option("--address", help="Of a dask scheduler, such as tcp://host:8786.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="Of slurm: KEY=VALUE, such as slurm_partition=short."),
    ] = None,
    retries: Annotated[
        int, typer.Option("--retries", min=0, help="How often a failed task is tried again.")
    ] = 2,
    table: Annotated[
        Path | None, typer.Option("--table", help="Write the table: a .csv or .parquet file.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the picture: a .svg, .png or .pdf file.")
    ] = None,
    take: Annotated[
        list[Path] | None, typer.Option("--take", help="Copy what another sweep's folder has.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure one thing on many instances, and keep every result; go on where it was stopped.

    A spec says what is drawn, trained and measured, at which points, for how many seeds. Results
    are kept in the folder as they come: run the command again, or `attsvm sweep FOLDER`, to go on.
    More seeds or points in the spec keep what is there. --table and --figure are written
    when a spec's sweep has run; given a folder, or with --take, they use existing results and
    nothing is run. Exit code 0: all is done; 5: tasks failed, or instances are missing; 2: bad
    input, no space left, or a folder in use.
    """
    if what is None:
        _names(as_json)
        return
    asked = _asked(jobs, address, option or [])
    from attsvm.experiments.sweep.folder import is_sweep

    wanted = Wanted(table, figure)
    if take or (wanted.any and is_sweep(Path(what))):
        _read(_folder(what, out), wanted, take or [], as_json)
        return
    spec, folder = _chosen(what, out, quick)
    if dry_run:
        _dry_run(spec, folder, engine, asked, as_json)
        return
    wanted.check(spec, folder)
    swept = _run(spec, folder, {"engine": engine, "asked": asked, "retries": retries})
    _tell(swept, wanted.write(spec, folder) if swept.state.done else {}, as_json)


class Wanted(NamedTuple):
    """The files that a sweep's results are written to: its table and its picture."""

    table: Path | None
    figure: Path | None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self.table is not None or self.figure is not None

    def check(self, spec: Spec, folder: Path) -> None:
        """Raises, before a sweep is run, unless they can be written."""
        from attsvm.experiments.sweep.pictures import check_picture
        from attsvm.experiments.sweep.table import check_table

        if self.table is not None:
            check_table(self.table, folder)
        if self.figure is not None:
            check_picture(folder, spec, self.figure)

    def write(self, spec: Spec, folder: Path) -> dict[str, Any]:
        """Write them; what the report says of them."""
        from attsvm._utils.files import writing_to
        from attsvm.experiments.sweep import write_table
        from attsvm.experiments.sweep.pictures import write_figure

        said: dict[str, Any] = {}
        if self.table is not None:
            with writing_to(self.table.parent):
                count = write_table(folder, spec, self.table)
            said = {
                "table": str(self.table), "instances": count, "missing": spec.instances - count
            }  # fmt: skip
        if self.figure is not None:
            with writing_to(self.figure.parent):
                write_figure(folder, spec, self.figure)
            said["figure"] = str(self.figure)
        return said


def _asked(jobs: int, address: str | None, options: list[str]) -> ExecutorConfig:
    from attsvm.experiments.executors import ExecutorConfig as Those

    pairs = [text.partition("=") for text in options]
    for text, (name, sign, value) in zip(options, pairs, strict=True):
        if not (name and sign and value):
            raise Unsupported(f"--option is KEY=VALUE; this is {text!r}")
    return Those(jobs, address, options={name: value for name, _, value in pairs})


def _names(as_json: bool) -> None:
    """The shipped specs."""
    from attsvm.experiments.sweep import SHIPPED, shipped_spec

    rows: list[dict[str, Any]] = []
    for name in SHIPPED:
        spec = shipped_spec(name)
        rows.append(
            {"name": name, "title": spec.title, "instances": spec.instances, "claim": spec.claim}
        )
    if as_json:
        print_json({"sweeps": rows})
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for head in ("sweep", "instances", "what it maps"):
        shown.add_column(head, justify="right" if head == "instances" else "left")
    for row in rows:
        shown.add_row(row["name"], f"{row['instances']:,}", row["title"])
    Console(markup=False).print(shown)


def _folder(what: str, out: Path | None) -> Path:
    """The folder that is meant, for reading."""
    from attsvm.experiments.sweep.folder import is_sweep

    place = Path(what)
    if out is not None and not is_sweep(place):
        return out
    return place


def _chosen(what: str, out: Path | None, quick: bool) -> tuple[Spec, Path]:
    """The spec that is meant, and the folder of its results."""
    from attsvm.experiments.sweep import SHIPPED, read_spec, shipped_spec
    from attsvm.experiments.sweep.folder import is_sweep, kept_spec

    place = Path(what)
    if is_sweep(place) or (place.is_dir() and what not in SHIPPED):
        if out is not None or quick:
            raise Unsupported(f"{what} is a sweep's folder: leave out --out and --quick")
        return kept_spec(place), place
    if what.endswith(".toml"):
        return read_spec(place, quick=quick), out or Path(f"sweep-{place.stem}")
    if place.is_file():
        raise BadTokens(f"{what} is no sweep: give a file SPEC.toml, a name, or a folder")
    return shipped_spec(what, quick=quick), out or Path(f"sweep-{what}")


def _dry_run(spec: Spec, folder: Path, engine: str, asked: ExecutorConfig, as_json: bool) -> None:
    """Say how much there is to do, and how long a few instances took."""
    from attsvm._utils.progress import working
    from attsvm.cli.parts.sweeping import spell
    from attsvm.experiments.executors.local import cores
    from attsvm.experiments.sweep.calibration import estimate

    with working("trying a few instances"):
        found = estimate(spec)
    workers = cores(asked.jobs) if engine != "here" else 1
    seconds = found.seconds / workers
    script = ""
    if engine == "slurm":
        from attsvm.experiments.executors.slurm import job_script

        script = job_script(folder / "jobs", dict(asked.options))
    if as_json:
        print_json(
            {
                "status": "dry run", "points": found.points, "instances": found.instances,
                "tasks": found.tasks, "seconds": seconds, "workers": workers, "bytes": found.disk,
                "script": script or None,
            }
        )  # fmt: skip
        return
    print(f"{found.points} points, {found.instances} instances in {found.tasks} tasks")
    print(
        f"about {spell(seconds)} with {workers} workers, from {found.tried} instances tried here; "
        f"{max(found.disk / 1e6, 0.1):.1f} MB on disk"
    )
    if script:
        print(f"each task is sent by this script:\n{script}")


def _run(spec: Spec, folder: Path, how: dict[str, Any]) -> Swept:
    """What came of running what is left."""
    from attsvm.cli.parts.sweeping import followed
    from attsvm.experiments.sweep import run_sweep

    try:
        with followed() as (watch, say):
            return run_sweep(spec, folder, **how, watch=watch, say=say)
    except KeyboardInterrupt:
        stop(f"stopped: what is finished is kept; `attsvm sweep {folder}` goes on", 130)


def _tell(swept: Swept, written: dict[str, Any], as_json: bool) -> None:
    """Say what came of a sweep, and which files were written of it."""
    state = swept.state
    if as_json:
        print_json(
            {
                "status": "failed" if swept.failures else "done", "folder": str(swept.folder),
                "table": str(swept.table), "instances": state.total, "done": state.done,
                "before": state.before, "failed": state.failed, "seconds": swept.seconds,
                **{key: written[key] for key in ("table", "figure") if key in written},
            }
        )  # fmt: skip
    else:
        print(
            f"{state.done} of {state.total} instances are in {swept.table}, {state.before} of "
            f"them from before; {swept.seconds:.0f} s"
        )
        _print_written(written)
    if swept.failures:
        first = swept.failures[0]
        typer.echo(
            f"attsvm: {len(swept.failures)} tasks failed, the first with {first.error}; all are in "
            f"{swept.folder / 'failures.json'}; run it again to try them again",
            err=True,
        )
        raise typer.Exit(FAILED)


def _read(folder: Path, wanted: Wanted, take: list[Path], as_json: bool) -> None:
    """Copy, write and draw what a folder has."""
    from attsvm.experiments.sweep import take_shards
    from attsvm.experiments.sweep.folder import kept_spec

    report: dict[str, Any] = {"status": "done", "folder": str(folder)}
    spec = kept_spec(folder)
    if take:
        report["taken"] = take_shards(folder, take)
    report |= wanted.write(spec, folder)
    if as_json:
        print_json(report)
    else:
        if take:
            print(f"{report['taken']} results were copied")
        _print_written(report)
    if report.get("missing"):
        typer.echo(
            f"attsvm: {report['missing']} of {spec.instances} instances are not there yet; "
            f"`attsvm sweep {folder}` goes on",
            err=True,
        )
        raise typer.Exit(FAILED)


def _print_written(report: dict[str, Any]) -> None:
    for key in ("table", "figure"):
        if key in report:
            print(f"{report[key]} is written")
