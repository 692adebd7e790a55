"""train."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from attsvm import summary
from attsvm.archive import Archive, check_out, read_problem
from attsvm.cli.options import File, Force, Json, app, leave, print_json
from attsvm.errors import BadTokens, Unsupported
from attsvm.limits import predict
from attsvm.models import MODELS, model_of
from attsvm.outcome import Outcome, outcome, settled
from attsvm.progress import bar
from attsvm.rules import RULES
from attsvm.training import train

ModelName = Annotated[str, typer.Option("--model", help=f"One of {', '.join(MODELS)}.")]
RuleName = Annotated[str, typer.Option("--rule", help=f"One of {', '.join(RULES)}.")]
Start = Annotated[
    str, typer.Option("--init", help="zero, normal:STD, uniform, file (p0, W0, K0, Q0, v0).")
]


@app.command("train", epilog="Example: attsvm train tokens.npz --model weight --rule ngd --json")
def train_command(
    file: File,
    model: ModelName = "weight",
    rule: RuleName = "ngd",
    lr: Annotated[float, typer.Option("--lr", help="Step size.")] = 0.1,
    steps: Annotated[int, typer.Option("--steps", help="Number of steps.")] = 2000,
    loss: Annotated[str, typer.Option("--loss", help="Loss by name.")] = "logistic",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the starting point.")] = 0,
    init: Start = "default",
    width: Annotated[int | None, typer.Option("--width", help="Columns of the factors.")] = None,
    schedule: Annotated[str, typer.Option("--schedule", help="constant or sqrt.")] = "constant",
    decay: Annotated[float, typer.Option("--decay", help="Decoupled weight decay.")] = 0.0,
    until: Annotated[
        float | None, typer.Option("--until", help="End at this certified margin share.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Save the path (.npz).")] = None,
    figure: Annotated[Path | None, typer.Option("--figure", help="Draw the run (.svg).")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train, then solve the predicted limit at the selected tokens and compare."""
    for target in (out, figure):
        if target is not None:
            check_out(target, force=force)
    archive = read_problem(file)
    head = None if model_of(model).trains_head else archive.arrays.get("v")
    begin = time.perf_counter()
    with bar("training") as progress:
        path = train(
            archive.tokens, model=model, rule=rule, head=head, loss=loss, lr=lr, steps=steps,
            seed=seed, init=_start(archive, model) if init == "file" else init, width=width,
            schedule=schedule, decay=decay, progress=progress,
            stop=None if until is None else _until(archive, model, rule, until),
        )  # fmt: skip
    found = outcome(path, archive.tokens, head)
    if out is not None:
        path.save(out, force=force)
    if figure is not None:
        from attsvm.report.run import draw_run

        draw_run(path, found, figure)
    report = {**describe_run(found), "steps": int(path.steps[-1]), "diverged": path.diverged,
              "seconds": time.perf_counter() - begin}  # fmt: skip
    if as_json:
        print_json(report)
    else:
        Console(markup=False).print(_table(report, f"{model}, {rule} on {file.name}"))
    if found.certificate is not None:
        leave(found.certificate)


def _until(archive: Archive, model: str, rule: str, share: float) -> Any:
    """What ends the run early: a certified local optimum with this share of the best margin."""
    norm = predict(model, rule).norm
    if norm is None or model_of(model).trains_head:
        raise Unsupported(f"--until needs a fixed head and a predicted norm: not {model}, {rule}")
    if not 0 < share < 1:
        raise Unsupported(f"--until is {share:g}: a share lies between 0 and 1")
    return settled(archive.tokens, archive.arrays.get("v"), norm=norm, share=share)


def _start(archive: Archive, model: str) -> dict[str, Any]:
    """The starting point in the file, by block."""
    names = model_of(model).shapes(1, 1, 1, 1)
    missing = [f"{name}0" for name in names if f"{name}0" not in archive.arrays]
    if missing:
        raise BadTokens(f"the file has no array {missing[0]} to start {model} from")
    return {name: archive.arrays[f"{name}0"] for name in names}


def describe_run(found: Outcome) -> dict[str, Any]:
    """What a report of a run holds."""
    best = found.certificate
    return {
        "status": "optimal" if best is None else best.status,
        "selection": found.selection.tolist(),
        "state": found.state,
        "sureness": summary.number(found.sureness),
        "last_change": found.changed,
        "loss": summary.number(found.loss),
        "log10_gradient_norm": summary.number(found.log10_gradient),
        "log_flow_time": summary.number(found.log_time),
        "limit": {"norm": found.limit.norm, "status": found.limit.status},
        "correlation": summary.number(found.correlation),
        "margin_share": summary.number(found.margin_share),
        "W": found.W.tolist(),
        "norm": float(np.linalg.norm(found.W)),
        "certificate": None if best is None else summary.describe(best),
    }


def _table(report: dict[str, Any], title: str) -> Table:
    """The report for a reader."""
    table = Table(title=title, show_header=False)
    for key in ("selection", "state", "sureness", "last_change", "steps", "loss",
                "log10_gradient_norm", "correlation", "margin_share", "seconds"):  # fmt: skip
        value = report[key]
        if value is not None:
            table.add_row(key, f"{value:.8g}" if isinstance(value, float) else str(value))
    limit = report["limit"]
    table.add_row("predicted limit", f"{limit['norm']} norm ({limit['status']})")
    best = report["certificate"]
    if best is not None:
        table.add_row("certificate", best["message"])
    return table
