"""train, with several models, optimizers or step sizes: all are trained, and set side by side."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from attsvm._utils.progress import bar
from attsvm.cli.parts import summary
from attsvm.cli.parts.inputs import own_part, read_head, read_options, read_run, refuse_text
from attsvm.cli.parts.options import FAILED, leave, print_json
from attsvm.cli.parts.train_tokens import describe_path, start_in, tell_divergence
from attsvm.errors import Unsupported
from attsvm.theory.comparison import (
    ComparedRun,
    Comparison,
    RunConfig,
    check_optimizers,
    compare_runs,
)
from attsvm.training.models import model_of

# What belongs to one run: the flag, and what it is.
_ONE = {
    "proof": "--proof saves one proof",
    "resume": "--resume goes on with one run",
    "until": "--until ends one run",
    "norm": "--norm is for one run, several are compared in every norm",
}


def run_several(asked: Mapping[str, Any], chosen: Mapping[str, Sequence[Any]], loss: Any) -> None:
    """Train every combination of what was chosen and report; asked: every option by name."""
    for name, said in _ONE.items():
        if asked[name] is not None:
            raise Unsupported(f"{said}: give one --model, one --optimizer and one --lr with it")
    for name, words in chosen.items():
        twice = [word for k, word in enumerate(words) if word in words[:k]]
        if twice:
            raise Unsupported(f"--{name} {twice[0]} is given twice: give each once")
    file = asked["file"]
    refuse_text(file)
    options = read_options(asked["options"] or [])
    optimizers = [own_part(word, "optimizer") for word in chosen["optimizer"]]
    models = [own_part(word, "model") for word in chosen["model"]]
    check_optimizers(optimizers, options)
    for model in models:
        model_of(model)
    tokens, runs = _asked(asked, models, optimizers, chosen["lr"], loss, options)
    begin = time.perf_counter()
    with bar("training") as progress:
        found = compare_runs(tokens, runs, steps=asked["steps"], progress=progress)
    if asked["out"] is not None:
        found.save(asked["out"], force=asked["force"])
    if asked["figure"] is not None:
        from attsvm.plotting.comparison import draw_comparison

        draw_comparison(found, asked["figure"], look=asked["style"])
    report = {
        "status": _status(found),
        "norms": list(found.norms),
        "runs": [describe_compared(run) for run in found.runs],
        "out": None if asked["out"] is None else str(asked["out"]),
        "figure": None if asked["figure"] is None else str(asked["figure"]),
        "seconds": time.perf_counter() - begin,
    }
    if asked["as_json"]:
        print_json(report)
    else:
        console = Console(markup=False)
        title = f"{len(found.trained)} runs of {asked['steps']:,} steps on {file.name}"
        for table in _tables(found, title):
            console.print(table)
    _leave(found)


def _asked(
    asked: Mapping[str, Any],
    models: Sequence[Any],
    optimizers: Sequence[Any],
    rates: Sequence[float],
    loss: Any,
    options: dict[str, Any],
) -> tuple[Any, list[RunConfig]]:
    """The tokens of the file, and every run to train on them."""
    archive = read_run(
        asked["file"],
        queries=asked["queries"],
        sequence=asked["sequence"],
        causal=asked["causal"] is not False,
    )
    shared = {name: asked[name] for name in ("seed", "init", "width", "schedule", "decay")}
    shared |= {"loss": loss, "options": options}
    own = []
    for model in models:
        read = read_head(archive, asked["head"], model=model, seed=asked["seed"])
        more = dict(shared)
        if asked["init"] == "file":
            more["init"] = start_in(archive, model)
        own.append((model, asked["head"] if read is None else read, more))
    return archive.tokens, [
        RunConfig(model, optimizer, rate, head, more)
        for (model, head, more), optimizer, rate in product(own, optimizers, rates)
    ]


def describe_compared(run: ComparedRun) -> dict[str, Any]:
    """What the report holds of one run: that of a single one, and its shares in every norm."""
    named = {"model": run.model, "optimizer": run.optimizer, "lr": run.lr}
    if run.path is None or run.outcome is None:
        return {**named, "refused": run.refused}
    return {
        **named,
        "refused": None,
        **describe_path(run.path, run.outcome, run.proved),
        "shares": {norm: summary.number(share) for norm, share in run.last.items()},
    }


def _status(found: Comparison) -> str:
    """The worst status of the runs' own certificates."""
    states = {
        run.outcome.certificate.status
        for run in found.trained
        if run.outcome is not None and run.outcome.certificate is not None
    }
    return next((word for word in ("infeasible", "stalled") if word in states), "optimal")


def _leave(found: Comparison) -> None:
    """Say what went wrong, and leave with the code of the worst."""
    for run in found.trained:
        if run.path is not None:
            tell_divergence(run.path, run.name)
    for run in found.refused:
        print(f"attsvm: {run.name} was not trained: {run.refused}", file=sys.stderr)
    if found.refused:
        raise typer.Exit(FAILED)
    worst = _status(found)
    for run in found.trained:
        best = None if run.outcome is None else run.outcome.certificate
        if best is not None and best.status == worst:
            leave(best)


def _tables(found: Comparison, title: str) -> list[Table]:
    """The comparison for a reader: where each run ended, and its margin share in every norm."""
    rows = found.columns()
    names = [name for name in ("model", "optimizer", "lr") if len(set(rows[name])) > 1]
    ends = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    shares = Table(
        title="certified share of the best margin (*: in the norm that theory names)",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    for table, columns in (
        (ends, ("state", "limit", "correlation", "proved since")),
        (shares, found.norms),
    ):
        for name in [*names, *columns]:
            left = name in ("model", "optimizer", "state", "limit")
            table.add_column(name, justify="left" if left else "right", overflow="fold")
    for k, run in enumerate(found.runs):
        words = [f"{rows[name][k]:g}" if name == "lr" else rows[name][k] for name in names]
        proved = "" if run.proved is None else f"step {run.proved.step:,}"
        correlation = "" if run.outcome is None else _digits(run.outcome.correlation, 6)
        ends.add_row(*words, rows["state"][k], run.norm or "", correlation, proved)
        if run.path is not None:
            shares.add_row(*words, *(_share(run, norm) for norm in found.norms))
    return [ends, shares]


def _share(run: ComparedRun, norm: str) -> str:
    mark = "*" if run.norm == norm else "\N{NO-BREAK SPACE}"  # keeps digits below digits
    return _digits(run.last[norm], 4) + mark


def _digits(value: float, count: int) -> str:
    return "" if math.isnan(value) else f"{value:.{count}f}"
