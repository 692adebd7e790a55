"""fit: train a small real network, with checkpoints, curves and results."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attsvm._utils.version import install
from attsvm.cli.options import FAILED, command, read_pairs
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


@command("text --optimizer mirror --p 1.1 --out mirror")
def fit_command(
    task: str,
    optimizer: str | None = None,
    p: float | None = None,
    lr: float | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    config: Path | None = None,
    set_: list[str] | None = None,
    data: str | None = None,
    data_dir: Path | None = None,
    out: Path = Path("attsvm-fit"),
    resume: bool = False,
    quick: bool = False,
    monitor: bool = False,
    threads: int = 1,
    json_: bool = False,
) -> None:
    """Train a small real network on reviews, images or text of your own.

    The folder gets plan.toml, a checkpoint after each record, results.json and curves (SVG, PNG).
    What --set names wins over the other options, these over --config, this over --quick. Exit code
    5: training collapsed (the loss is not finite, or accuracy is at chance).

    Arguments
    ---------
    task : text|images
        What is classified.

    Options
    -------
    optimizer : NAME, default: adamw
        adam, adamw, mirror, nmirror, ngd, sgd, muon, steepest:NORM, or FILE.py:NAME of a torch
        class.
    p : X, default: 1.1
        Exponent of mirror descent.
    lr : X, default: one that suits the optimizer
        Step size.
    epochs : N, default: of the config
        Passes over the data.
    seed : N, default: 0
        Of the initial network and the order of data.
    config : FILE
        TOML file of settings, such as plan.toml.
    set : NAME=VALUE
        A setting, such as width=32; may be repeated.
    data : NAME
        A set by name, or FILE.csv with columns text and label.
    data_dir : FOLDER
        Folder with the files of the set.
    out : FOLDER
        Folder of the run.
    resume
        Go on from the folder's checkpoint.
    quick
        Few inputs, a small network.
    monitor
        Follow every attention head; CSV and figure.
    threads : N, at least 1
        Of torch; with one, runs repeat exactly.
    """
    if find_spec("torch") is None:
        raise Unsupported(f"attsvm fit needs torch: {install('torch')}")
    import torch

    from attsvm._utils.files import read_toml
    from attsvm.torch import config_of, load_data

    given = {"optimizer": optimizer, "p": p, "lr": lr, "epochs": epochs, "seed": seed}
    changes = {name: value for name, value in given.items() if value is not None}
    file = None
    if data is not None:
        changes["data"] = data if data in LABELLED else "own-text"
        file = None if data in LABELLED else Path(data)
    small = QUICK if quick else {}
    read = {} if config is None else read_toml(config)
    changes = small | read | changes | _settings(set_)
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
    _finish(fit, repr(found), out, json_)


def _settings(texts: list[str] | None) -> dict[str, Any]:
    """The values of --set NAME=VALUE: numbers, true, false, none, or words."""
    from attsvm._utils.files import parse_json

    found: dict[str, Any] = {}
    for name, value in read_pairs(texts, "width=32", "--set").items():
        try:
            found[name] = None if value == "none" else parse_json(value)
        except json.JSONDecodeError:
            found[name] = value
        except ValueError as error:
            raise Unsupported(f"--set {name}: {error}") from error
    return found


def _run(plan: TrainConfig, data: Any, out: Path, resume: bool, monitor: bool) -> FitResult:
    """The fit, with a bar for who is watching; with `monitor`, its heads on file."""
    from attsvm._utils.files import write_text
    from attsvm._utils.progress import bar
    from attsvm.errors import BadTokens
    from attsvm.plotting.style import write_figure
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
        write_text(out / "attention.csv", one.to_frame().to_csv(index=False))
        write_figure(one.figure(), out / "attention.svg", out / "attention.png")
    return result


def _finish(fit: FitResult, data: str, out: Path, json_: bool) -> None:
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
        json_,
        rows([f">{head}" for head in heads], body),
        f"{data}; {fit.parameters:,} parameters, {fit.seconds:.0f} s; {ends[fit.stopped]}",
        f"test accuracy {fit.test_accuracy:.3f} at the step that validation chooses",
        f"folder: {out} (results.json, plan.toml, curves.svg, curves.png, checkpoint.pt)",
    )
    if fit.collapsed:
        why = "the loss is not finite" if fit.stopped == "collapse" else "accuracy is at chance"
        say(f"training collapsed: {why}; try another --lr, or more --epochs")
        raise typer.Exit(FAILED)
