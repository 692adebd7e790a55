"""fit: train a small real network, with checkpoints, curves and results."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attsvm._utils.version import install
from attsvm.cli.options import FAILED, Json, app, option
from attsvm.cli.output import emit, rows, say
from attsvm.datasets import LABELLED
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from attsvm.torch import FitResult, TrainConfig
    from attsvm.torch.fitting import Moment

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
        option(
            "--optimizer",
            "NAME",
            "adam, adamw, mirror, nmirror, ngd, sgd, muon, steepest:NORM, or FILE.py:NAME of a "
            "torch optimizer.",
            show_default="adamw",
        ),
    ] = None,
    p: Annotated[
        float | None, option("--p", "X", "Exponent of mirror descent.", show_default="1.1")
    ] = None,
    lr: Annotated[
        float | None, option("--lr", "X", "Step size.", show_default="one that suits the optimizer")
    ] = None,
    epochs: Annotated[
        int | None, option("--epochs", "N", "Passes over the data.", show_default="of the config")
    ] = None,
    seed: Annotated[
        int | None,
        option("--seed", "N", "Of the initial network and the order of data.", show_default="0"),
    ] = None,
    config: Annotated[
        Path | None, option("--config", "FILE", "TOML file of settings, such as plan.toml.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        option("--set", "NAME=VALUE", "A setting, such as width=32; may be repeated."),
    ] = None,
    data: Annotated[
        str | None,
        option("--data", "NAME", "A set by name, or FILE.csv with columns text and label."),
    ] = None,
    data_dir: Annotated[
        Path | None, option("--data-dir", "FOLDER", "Folder with the files of the set.")
    ] = None,
    out: Annotated[Path, option("--out", "FOLDER", "Folder of the run.")] = Path("attsvm-fit"),
    resume: Annotated[
        bool, option("--resume", None, "Go on from the folder's checkpoint.")
    ] = False,
    quick: Annotated[bool, option("--quick", None, "Few inputs, a small network.")] = False,
    monitor: Annotated[
        bool, option("--monitor", None, "Follow every attention head; CSV and figure.")
    ] = False,
    threads: Annotated[
        int, option("--threads", "N", "Of torch; with one, runs repeat exactly.", min=1)
    ] = 1,
    as_json: Json = False,
) -> None:
    """Train a small real network on reviews, images or text of your own.

    The folder gets plan.toml, a checkpoint after each record, results.json and curves (SVG, PNG).
    What --set names wins over the other options, these over --config, this over --quick. Exit code
    5: training collapsed (the loss is not finite, or accuracy is at chance).
    """
    if find_spec("torch") is None:
        raise Unsupported(f"attsvm fit needs torch: {install('torch')}")
    import torch

    from attsvm.torch import load_data
    from attsvm.torch.config import config_of, read_settings

    given = {"optimizer": optimizer, "p": p, "lr": lr, "epochs": epochs, "seed": seed}
    changes = {name: value for name, value in given.items() if value is not None}
    file = None
    if data is not None:
        changes["data"] = data if data in LABELLED else "own-text"
        file = None if data in LABELLED else Path(data)
    small = QUICK if quick else {}
    read = {} if config is None else read_settings(config)
    changes = small | read | changes | _settings(settings or [])
    plan = config_of(task, changes, where=str(config or "a config"))
    if monitor and resume:
        raise Unsupported("--monitor follows a run from its first step: leave out --resume")
    found = load_data(plan, file=file, data_dir=data_dir)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fit = _run(plan, found, out, resume, monitor)
    finally:
        torch.set_num_threads(before)
    _finish(fit, repr(found), out, as_json)


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


def _run(plan: TrainConfig, data: Any, out: Path, resume: bool, monitor: bool) -> FitResult:
    """The fit, with a bar for who is watching; with `monitor`, its heads on file."""
    from attsvm._utils.progress import bar
    from attsvm.errors import BadTokens
    from attsvm.torch import Monitor, fit

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
                    heads.append(Monitor(moment.network))

        result = fit(plan, data, folder=out, resume=resume, watch=watch)
    for one in heads:
        one.close()
        _write_heads(one, out)
    return result


def _write_heads(monitor: Any, out: Path) -> None:
    """attention.csv, and the figure in SVG and PNG."""
    from attsvm.plotting.style import write_figure

    monitor.to_csv(out / "attention.csv")
    write_figure(monitor.figure(), out / "attention.svg", out / "attention.png")


def _finish(fit: FitResult, data: str, out: Path, as_json: bool) -> None:
    """Write plan, results and curves; print what was found; leave with 5 after a collapse."""
    from attsvm._utils.files import write_json, write_text
    from attsvm.plotting.networks import fit_figure
    from attsvm.plotting.style import write_figure

    report = {"status": "collapsed" if fit.collapsed else "done", "data": data, **fit.to_dict()}
    report |= {"folder": str(out)}
    write_text(out / "plan.toml", fit.config.to_toml())
    write_json(out / "results.json", report)
    said = f"{fit.config.task}, {fit.config.optimizer}"
    title = f"{said}: test accuracy {fit.test_accuracy:.3f} at step {fit.best.step}"
    figure = fit_figure(fit.columns(), title=title, chosen=fit.best.step, chance=fit.chance)
    write_figure(figure, out / "curves.svg", out / "curves.png", title=title)
    body = []
    for r in fit.records:
        shares = (f"{x:.3f}" for x in (r.train_accuracy, r.valid_accuracy, r.test_accuracy))
        norms = (f"{x:.3g}" for x in (r.norm_K, r.norm_Q, r.norm_V))
        body.append((f"{r.epoch:g}", r.step, f"{r.loss:.4g}", *shares, *norms))
    heads = "epoch", "step", "loss", "training", "validation", "test", "‖K‖", "‖Q‖", "‖V‖"
    ends = {
        "epochs": "all epochs were run",
        "stop_accuracy": "the training accuracy was reached",
        "collapse": "the loss is not finite",
    }
    emit(
        report,
        as_json,
        rows([f">{head}" for head in heads], body),
        f"{data}; {fit.parameters:,} parameters, {fit.seconds:.0f} s; {ends[fit.stopped]}",
        f"test accuracy {fit.test_accuracy:.3f} at the step that validation chooses",
        f"folder: {out} (results.json, plan.toml, curves.svg, curves.png, checkpoint.pt)",
    )
    if fit.collapsed:
        why = "the loss is not finite" if fit.stopped == "collapse" else "accuracy is at chance"
        say(f"training collapsed: {why}; try another --lr, or more --epochs")
        raise typer.Exit(FAILED)
