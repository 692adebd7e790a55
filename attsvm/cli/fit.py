"""fit: train a small real network, with checkpoints, curves and results."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attsvm.cli.parts.options import FAILED, Json, app, print_json
from attsvm.datasets import LABELLED
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from attsvm.torch.fitting import Fit, Plan
    from attsvm.torch.fitting.fit import Moment

NEEDED = "attsvm fit needs torch: pip install 'attsvm[torch]'"
# What --quick changes: a run of seconds, in which every optimizer learns at its usual rate.
QUICK: dict[str, Any] = {
    "train_count": 5000,
    "valid_count": 500,
    "test_count": 1000,
    "width": 32,
    "layers": 1,
    "batch": 16,
    "epochs": 6,
}


@app.command("fit", epilog="Example: attsvm fit text --optimizer mirror --p 1.1 --out mirror")
def fit_command(
    task: Annotated[str, typer.Argument(metavar="text|images", help="What is classified.")],
    optimizer: Annotated[
        str | None,
        typer.Option(
            "--optimizer",
            help="adam, adamw (default), mirror, nmirror, ngd, sgd, muon, or steepest:NORM.",
        ),
    ] = None,
    p: Annotated[
        float | None, typer.Option("--p", help="Exponent of mirror descent; 1.1 without.")
    ] = None,
    lr: Annotated[
        float | None, typer.Option("--lr", help="Rate; one that suits the optimizer without.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Rounds over the data.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of the initial network and the order of data.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with the names of a plan.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE of a plan, such as width=32; may be repeated."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="A set by name, or FILE.csv with columns text and label."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder with the files of the set.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the run.")] = Path("attsvm-fit"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the folder's checkpoint.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few inputs, a small network.")] = False,
    monitor: Annotated[
        bool, typer.Option("--monitor", help="Follow every attention head; CSV and figure.")
    ] = False,
    threads: Annotated[
        int, typer.Option("--threads", min=1, help="Of torch; with one, runs repeat exactly.")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Train a small real network on reviews, images or text of your own.

    The folder gets plan.toml, a checkpoint after each record, results.json and curves (SVG, PNG).
    What --set names wins over the other options, these over --config, this over --quick. Exit code
    5: training collapsed (the loss is not finite, or accuracy is at chance).
    """
    if find_spec("torch") is None:
        raise Unsupported(NEEDED)
    import torch

    from attsvm.torch.fitting import data_of

    given = {"optimizer": optimizer, "p": p, "lr": lr, "epochs": epochs, "seed": seed}
    changes = {name: value for name, value in given.items() if value is not None}
    file = None
    if data is not None:
        changes["data"] = data if data in LABELLED else "own-text"
        file = None if data in LABELLED else Path(data)
    plan = _plan(task, config, changes | _settings(settings or []), quick)
    if monitor and resume:
        raise Unsupported("--monitor follows a run from its first step: leave out --resume")
    found = data_of(plan, file=file, data_dir=data_dir)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fit = _run(plan, found, out, resume, monitor)
    finally:
        torch.set_num_threads(before)
    _finish(fit, repr(found), out, as_json)


def _plan(task: str, config: Path | None, changes: dict[str, Any], quick: bool) -> Plan:
    """The plan of a command line."""
    from attsvm.torch.fitting import plan_of, read_settings

    small = QUICK if quick else {}
    read = {} if config is None else read_settings(config)
    return plan_of(task, small | read | changes, where=str(config or "a plan"))


def _settings(given: list[str]) -> dict[str, Any]:
    """The values of --set NAME=VALUE: numbers, true, false, none, or words."""
    from attsvm._utils.files import parse_json

    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise Unsupported(f"--set takes NAME=VALUE, such as width=32; this is {text!r}")
        try:
            found[name] = None if value == "none" else parse_json(value)
        except json.JSONDecodeError:
            found[name] = value
        except ValueError as error:
            raise Unsupported(f"--set {name}: {error}") from error
    return found


def _run(plan: Plan, data: Any, out: Path, resume: bool, monitor: bool) -> Fit:
    """The fit, with a bar for who is watching; with `monitor`, its heads on file."""
    from attsvm._utils.progress import bar
    from attsvm.errors import BadTokens
    from attsvm.torch import Monitor
    from attsvm.torch.fitting import fitted

    if out.exists() and not out.is_dir():
        raise BadTokens(f"{out} is no folder; give another name")
    heads: list[Monitor] = []
    with bar(f"{plan.task}, {plan.optimizer}") as tell:

        def watch(moment: Moment) -> None:
            if tell is not None:
                tell(moment.step / moment.steps)
            if monitor and moment.record is None:
                if moment.step:
                    heads[0].step()
                else:
                    heads.append(Monitor(moment.network, moment.optimizers[0]))

        fit = fitted(plan, data, folder=out, resume=resume, watch=watch)
    for one in heads:
        one.close()
        _write_heads(one, out)
    return fit


def _write_heads(monitor: Any, out: Path) -> None:
    """attention.csv, and the figure in SVG and PNG."""
    from attsvm.plotting.run import write_figure
    from attsvm.plotting.style import styled

    monitor.to_csv(out / "attention.csv")
    with styled():
        for ending in (".svg", ".png"):
            write_figure(monitor.figure(), out / f"attention{ending}")


def _finish(fit: Fit, data: str, out: Path, as_json: bool) -> None:
    """Write plan, results and curves; print what was found; leave with 5 after a collapse."""
    from attsvm._utils.files import beside
    from attsvm.cli.parts.summary import finite
    from attsvm.plotting.fit import draw_fit

    report = {"status": "collapsed" if fit.collapsed else "done", "data": data, **fit.to_dict()}
    report |= {"folder": str(out)}
    with beside(out / "plan.toml") as target:
        target.write_text(fit.plan.to_toml(), "utf-8")
    with beside(out / "results.json") as target:
        target.write_text(json.dumps(finite(report), indent=1, allow_nan=False) + "\n", "utf-8")
    said = f"{fit.plan.task}, {fit.plan.optimizer}"
    title = f"{said}: test accuracy {fit.test_accuracy:.3f} at step {fit.best.step}"
    columns = {name: fit[name] for name in fit.last._fields}
    draw_fit(columns, out, title=title, chosen=fit.best.step, chance=fit.chance)
    if as_json:
        print_json(report)
    else:
        _print(fit, data, out)
    if fit.collapsed:
        why = "the loss is not finite" if fit.stopped == "collapse" else "accuracy is at chance"
        print(
            f"attsvm: training collapsed: {why}; try another --lr, or more --epochs",
            file=sys.stderr,
        )
        raise typer.Exit(FAILED)


def _print(fit: Fit, data: str, out: Path) -> None:
    """The records as a table, and what came of them."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("epoch", "step", "loss", "training", "validation", "test", "‖K‖", "‖Q‖", "‖V‖"):
        table.add_column(head, justify="right", no_wrap=True)
    for r in fit.records:
        shares = (f"{x:.3f}" for x in (r.train_accuracy, r.valid_accuracy, r.test_accuracy))
        norms = (f"{x:.3g}" for x in (r.norm_K, r.norm_Q, r.norm_V))
        table.add_row(f"{r.epoch:g}", str(r.step), f"{r.loss:.4g}", *shares, *norms)
    Console(markup=False).print(table)
    ends = {
        "epochs": "all epochs were run",
        "stop_accuracy": "the training accuracy was reached",
        "patience": "validation got no better",
        "collapse": "the loss is not finite",
    }
    print(f"{data}; {fit.parameters:,} parameters, {fit.seconds:.0f} s; {ends[fit.stopped]}")
    print(f"test accuracy {fit.test_accuracy:.3f} at the step that validation chooses")
    print(f"folder: {out} (results.json, plan.toml, curves.svg, curves.png, checkpoint.pt)")
