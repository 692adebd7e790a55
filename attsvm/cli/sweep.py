"""sweep: one measurement on many instances, on any engine; its table and its picture."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attsvm.cli.options import FAILED, Jobs, Json, app, option
from attsvm.cli.output import duration, emit, live, many, rows, say, stop
from attsvm.errors import BadTokens, Unsupported

if TYPE_CHECKING:
    from rich.table import Table

    from attsvm.experiments.executors import ExecutorConfig
    from attsvm.experiments.sweep import Spec, Swept
    from attsvm.experiments.sweep.runs import SweepState

# Seconds between two lines where no terminal shows the board.
_QUIET = 60.0


@app.command("sweep", epilog="Example: attsvm sweep separability --quick --out sweep-1 --jobs 2")
def sweep_command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="SPEC", help="A name, a file SPEC.toml, or a sweep's folder; none: the names."
        ),
    ] = None,
    out: Annotated[
        Path | None, option("--out", "FOLDER", "The folder.", show_default="sweep-NAME")
    ] = None,
    quick: Annotated[
        bool,
        option(
            "--quick",
            None,
            "Run it small: the fewer seeds, points or steps of the spec's table quick.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, option("--dry-run", None, "Only say how much it is and how long it may take.")
    ] = False,
    engine: Annotated[str, option("--engine", "NAME", "local, here, dask or slurm.")] = "local",
    jobs: Jobs = 0,
    address: Annotated[
        str | None, option("--address", "URL", "Of a dask scheduler, such as tcp://host:8786.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        option("--option", "KEY=VALUE", "Of slurm, such as slurm_partition=short."),
    ] = None,
    retries: Annotated[
        int, option("--retries", "N", "How often a failed task is tried again.", min=0)
    ] = 2,
    table: Annotated[
        Path | None, option("--table", "FILE", "Write the table: a .csv or .parquet file.")
    ] = None,
    figure: Annotated[
        Path | None, option("--figure", "FILE", "Draw the picture: a .svg, .png or .pdf file.")
    ] = None,
    take: Annotated[
        list[Path] | None, option("--take", "FOLDER", "Copy what another sweep's folder has.")
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
        _list(as_json)
        return
    from attsvm.experiments.executors import ExecutorConfig
    from attsvm.experiments.sweep.folder import is_sweep
    from attsvm.experiments.sweep.pictures import check_picture
    from attsvm.experiments.sweep.table import check_table

    pairs = {}
    for text in settings or []:
        name, _, value = text.partition("=")
        if not (name and value):
            raise Unsupported(f"--option is KEY=VALUE; this is {text!r}")
        pairs[name] = value
    config = ExecutorConfig(jobs, address, options=pairs)
    if take or ((table or figure) and is_sweep(Path(what))):
        folder = out if out is not None and not is_sweep(Path(what)) else Path(what)
        _read(folder, table, figure, take or [], as_json)
        return
    spec, folder = _chosen(what, out, quick)
    if dry_run:
        _dry_run(spec, folder, engine, config, as_json)
        return
    if table is not None:
        check_table(table, folder)
    if figure is not None:
        check_picture(folder, spec, figure)
    swept = _run(spec, folder, {"engine": engine, "asked": config, "retries": retries})
    _finish(swept, _write(spec, folder, table, figure) if swept.state.done else {}, as_json)


def _list(as_json: bool) -> None:
    """The shipped specs."""
    from attsvm.experiments.sweep import SHIPPED, shipped_spec

    specs = {name: shipped_spec(name) for name in SHIPPED}
    report = [
        {"name": name, "title": spec.title, "instances": spec.instances, "claim": spec.claim}
        for name, spec in specs.items()
    ]
    body = [(name, f"{spec.instances:,}", spec.title) for name, spec in specs.items()]
    emit({"sweeps": report}, as_json, rows(("sweep", ">instances", "what it maps"), body))


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


def _dry_run(spec: Spec, folder: Path, engine: str, config: ExecutorConfig, as_json: bool) -> None:
    """Say how much there is to do, and how long a few instances took."""
    from attsvm._utils.progress import working
    from attsvm.experiments.executors.local import cores
    from attsvm.experiments.sweep.calibration import estimate

    with working("trying a few instances"):
        found = estimate(spec)
    workers = cores(config.jobs) if engine != "here" else 1
    seconds, script = found.seconds / workers, None
    if engine == "slurm":
        from attsvm.experiments.executors.slurm import job_script

        script = job_script(folder / "jobs", dict(config.options))
    report = {
        "status": "dry run", "points": found.points, "instances": found.instances,
        "tasks": found.tasks, "seconds": seconds, "workers": workers, "bytes": found.disk,
        "script": script,
    }  # fmt: skip
    lines = [
        f"{many(found.points, 'point')}, {many(found.instances, 'instance')} in "
        f"{many(found.tasks, 'task')}",
        f"about {duration(seconds)} with {many(workers, 'worker')}, from {found.tried} instances "
        f"tried here; {max(found.disk / 1e6, 0.1):.1f} MB on disk",
    ]
    lines += [f"each task is sent by this script:\n{script}"] if script else []
    emit(report, as_json, *lines)


def _run(spec: Spec, folder: Path, how: dict[str, Any]) -> Swept:
    """What came of running what is left."""
    from attsvm.experiments.sweep import run_sweep

    meter = Meter()
    try:
        with live(meter) as above:
            return run_sweep(spec, folder, **how, watch=meter.update, say=above)
    except KeyboardInterrupt:
        stop(f"stopped: what is finished is kept; `attsvm sweep {folder}` goes on", 130)


def _write(spec: Spec, folder: Path, table: Path | None, figure: Path | None) -> dict[str, Any]:
    """Write the table and the figure asked for; what the report says of them."""
    from attsvm._utils.files import writing_to
    from attsvm.experiments.sweep import write_table
    from attsvm.experiments.sweep.pictures import write_figure

    said: dict[str, Any] = {}
    if table is not None:
        with writing_to(table.parent):
            count = write_table(folder, spec, table)
        said = {"table": str(table), "instances": count, "missing": spec.instances - count}
    if figure is not None:
        with writing_to(figure.parent):
            write_figure(folder, spec, figure)
        said["figure"] = str(figure)
    return said


def _written(report: dict[str, Any]) -> list[str]:
    return [f"{report[key]} is written" for key in ("table", "figure") if key in report]


def _finish(swept: Swept, written: dict[str, Any], as_json: bool) -> None:
    """Say what came of a sweep, and which files were written of it."""
    state = swept.state
    report: dict[str, Any] = {
        "status": "failed" if swept.failures else "done", "folder": str(swept.folder),
        "table": str(swept.table), "instances": state.total, "done": state.done,
        "before": state.before, "failed": state.failed, "seconds": swept.seconds,
        **{key: written[key] for key in ("table", "figure") if key in written},
    }  # fmt: skip
    said = (
        f"{state.done} of {many(state.total, 'instance')} are in {swept.table}, {state.before} of "
        f"them from before; {swept.seconds:.0f} s"
    )
    emit(report, as_json, said, *_written(written))
    if swept.failures:
        say(
            f"{many(len(swept.failures), 'task')} failed, the first with "
            f"{swept.failures[0].error}; all are in {swept.folder / 'failures.json'}; run it again "
            "to try them again"
        )
        raise typer.Exit(FAILED)


def _read(
    folder: Path, table: Path | None, figure: Path | None, take: list[Path], as_json: bool
) -> None:
    """Copy, write and draw what a folder has."""
    from attsvm.experiments.sweep import take_shards
    from attsvm.experiments.sweep.folder import kept_spec

    report: dict[str, Any] = {"status": "done", "folder": str(folder)}
    spec = kept_spec(folder)
    lines = []
    if take:
        report["taken"] = take_shards(folder, take)
        lines = [f"{many(report['taken'], 'result')} copied"]
    report |= _write(spec, folder, table, figure)
    emit(report, as_json, *lines, *_written(report))
    if report.get("missing"):
        say(
            f"{report['missing']} of {many(spec.instances, 'instance')} are not there yet; `attsvm "
            f"sweep {folder}` goes on"
        )
        raise typer.Exit(FAILED)


class Meter:
    """How far a sweep is, by the clock: a live table, or a line now and then off a terminal."""

    def __init__(self) -> None:
        self.start = self.last = time.monotonic()
        self.state: SweepState | None = None

    def update(self, state: SweepState) -> None:
        """Note a change."""
        self.state = state
        if not sys.stderr.isatty() and time.monotonic() - self.last >= _QUIET:
            self.last = time.monotonic()
            bad = f", {state.failed} failed" if state.failed else ""
            rate, left = self._pace(state)
            print(f"{state.done} of {state.total} instances, {rate}/s, {left} left{bad}",
                  file=sys.stderr, flush=True)  # fmt: skip

    def _pace(self, state: SweepState) -> tuple[str, str]:
        """Instances per second, of those that were not there before, and the time that is left."""
        rate = (state.done - state.before) / max(time.monotonic() - self.start, 1e-9)
        left = state.total - state.done - state.failed
        return f"{rate:.1f}", duration(left / rate) if rate else "–"

    def __rich__(self) -> Table:
        s = self.state
        body = [] if s is None else [(s.done, s.total, s.before, *self._pace(s), s.failed)]
        return rows(
            (">instances", ">of", ">on file before", ">per second", ">remaining", ">failed"), body
        )
