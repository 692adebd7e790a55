"""train, on tokens: one run, its end, and the problem it should tend to."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from attsvm._utils.progress import bar
from attsvm.api import train
from attsvm.cli.parts import summary
from attsvm.cli.parts.archive import Archive
from attsvm.cli.parts.inputs import (
    KEPT,
    check_start,
    read_head,
    read_options,
    read_run,
    read_start,
    refuse_text,
)
from attsvm.cli.parts.options import leave, print_json
from attsvm.errors import BadTokens, Unsupported
from attsvm.theory.convergence.prove import Since, proved_since, until_proved
from attsvm.theory.limits import predict
from attsvm.theory.outcome import Outcome, outcome, until_margin_share
from attsvm.training.heads import Head, head_of
from attsvm.training.models import Model, model_of
from attsvm.training.optimizers.steps import length
from attsvm.training.path import Path


def run_tokens(asked: Mapping[str, Any], given: set[str], parts: dict[str, Any]) -> None:
    """Train on the tokens of a file and report; asked: every option by name, given: those on the
    command line, parts: the model, the optimizer and the loss."""
    file, head, resume, init = (asked[name] for name in ("file", "head", "resume", "init"))
    out, force, seed = asked["out"], asked["force"], asked["seed"]
    refuse_text(file)
    archive = read_run(
        file,
        queries=asked["queries"],
        sequence=asked["sequence"],
        causal=asked["causal"] is not False,
    )
    config: dict[str, Any] = {
        **parts,
        "options": read_options(asked["options"] or []),
        **{name: asked[name] for name in ("lr", "seed", "init", "width", "schedule", "decay")},
    }
    start = None
    if resume is not None:
        config["init"] = "given" if init == "file" else init
        said = {name: config[name] for name in KEPT if name in given}
        start, parts = read_start(resume, said)
        seed = start.config["seed"]
    read = read_head(archive, head, model=parts["model"], seed=seed)
    if start is not None and resume is not None:
        check_start(start, parts, archive.tokens, read, file=resume)
    elif init == "file":
        config["init"] = start_in(archive, parts["model"])
    begin = time.perf_counter()
    with bar("training") as progress:
        path = train(
            archive.tokens,
            head=head if read is None else read,
            steps=asked["steps"],
            start=start,
            progress=progress,
            stop=_until(archive, parts, read, asked, start, config),
            **(config if start is None else parts),
        )
    if out is not None:
        path.save(out, force=force)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is null in the report
        found = outcome(path, archive.tokens, read, norm=asked["norm"])
    proved = None
    if found.proof is not None and found.proof.proved:
        own = parts["model"] if isinstance(parts["model"], Model) else None
        proved = proved_since(path, archive.tokens, read, model=own)
    if asked["proof"] is not None:
        _save_proof(found, asked["proof"], force=force)
    if asked["figure"] is not None:
        from attsvm.plotting.run import draw_run

        draw_run(path, found, asked["figure"], proved=proved, look=asked["style"])
    report = {
        **describe_path(path, found, proved),
        "head": "trained" if read is None else head_of(read, archive.tokens.d).name,
        "seconds": time.perf_counter() - begin,
    }
    if asked["as_json"]:
        print_json(report)
    else:
        title = f"{path.config['model']}, {path.config['optimizer']} on {file.name}"
        Console(markup=False).print(_table(report, title))
    tell_divergence(path, "the run")
    if found.certificate is not None:
        leave(found.certificate)


def tell_divergence(path: Path, name: str) -> None:
    """Say on standard error where a run diverged, if it did."""
    if path.diverged >= 0:
        print(
            f"attsvm: {name} diverged at step {path.diverged} with lr {path.config['lr']:g}, and "
            "its path ends there; try a smaller --lr",
            file=sys.stderr,
        )


def _until(
    archive: Archive,
    parts: dict[str, Any],
    head: Any,
    asked: Mapping[str, Any],
    start: Any,
    config: dict[str, Any],
) -> Any:
    """What ends the run early: a proof that it converges, or a certified locally optimal selection
    with this margin share; None where nothing is asked."""
    until = asked["until"]
    if until is None:
        return None
    if until == "proved":
        if head is None or (isinstance(head, Head) and head.vector is None):
            raise Unsupported("--until proved needs a fixed linear head")
        said = config if start is None else start.config
        form = model_of(parts["model"])
        return until_proved(archive.tokens, head, {**said, "loss": parts["loss"]}, model=form)
    try:
        share = float(until)
    except ValueError as error:
        raise Unsupported(f"--until is {until!r}: it is a margin share, or proved") from error
    limit = predict(parts["model"], parts["optimizer"])
    norm = limit.norm if asked["norm"] is None else asked["norm"]
    if norm is None or head is None:
        said = f"{limit.model}, {limit.optimizer}"
        raise Unsupported(f"--until needs a fixed head and a predicted norm: not {said}")
    if isinstance(head, Head):
        raise Unsupported(f"--until needs a linear head: the limit under {head.name} is not known")
    if not 0 < share < 1:
        raise Unsupported(f"--until is {share:g}: a share lies between 0 and 1")
    own = parts["model"] if isinstance(parts["model"], Model) else None
    return until_margin_share(archive.tokens, head, norm=norm, share=share, model=own)


def _save_proof(found: Outcome, file: FilePath, *, force: bool) -> None:
    """Write the proof of the run's end, or what blocks it."""
    if found.proof is None:
        raise Unsupported(
            "--proof: no theorem of convergence covers this run; one covers weight and prompt "
            "models with a fixed linear head, optimizers gd, ngd, mirror:P, nmirror:P, "
            "no weight decay"
        )
    found.proof.save(file, force=force)


def start_in(archive: Archive, model: str | Model) -> dict[str, Any]:
    """The starting point in the file, by block."""
    form = model_of(model)
    names = form.shapes(1, 1, 1, 1)
    missing = [f"{name}0" for name in names if f"{name}0" not in archive.arrays]
    if missing:
        raise BadTokens(f"the file has no array {missing[0]} to start {form.name} from")
    return {name: archive.arrays[f"{name}0"] for name in names}


def describe_path(path: Path, found: Outcome, proved: Since | None) -> dict[str, Any]:
    """What a report of a path and its end holds."""
    return {
        **describe_run(found),
        "proved_since": None if proved is None else proved.step,
        "steps": int(path.steps[-1]),
        "diverged": path.diverged,
        "fails": [premise.name for premise in found.limit.failing],
    }


def describe_run(found: Outcome) -> dict[str, Any]:
    """What a report of a run holds."""
    best = found.certificate
    with np.errstate(over="ignore"):
        norm = length(found.W[None])[0]
    return {
        "status": "optimal" if best is None else best.status,
        "selection": found.selection.tolist(),
        "state": found.state,
        "top_attention": summary.number(found.top_attention),
        "last_change": found.changed,
        "loss": summary.number(found.loss),
        "log10_gradient_norm": summary.number(found.log10_gradient),
        "log_flow_time": summary.number(found.log_time),
        "limit": summary.describe_limit(found.limit),
        "correlation": summary.number(found.correlation),
        "margin_share": summary.number(found.margin_share),
        "W": found.W.tolist(),
        "norm": summary.number(norm),
        "rank": found.rank,
        "certificate": None if best is None else summary.describe(best),
        "proof": None if found.proof is None else found.proof.to_dict(),
    }


def _table(report: dict[str, Any], title: str) -> Table:
    """The report for a reader."""
    table = Table(title=title, show_header=False)
    for key in (
        "selection",
        "state",
        "top_attention",
        "last_change",
        "steps",
        "loss",
        "log10_gradient_norm",
        "correlation",
        "margin_share",
        "seconds",
    ):
        value = report[key]
        if value is not None:
            table.add_row(key, f"{value:.8g}" if isinstance(value, float) else str(value))
    summary.limit_rows(table, report["limit"])
    if report["limit"]["model"] == "factored":
        table.add_row("rank of W", str(report["rank"]))
    best = report["certificate"]
    if best is not None:
        table.add_row("certificate", best["message"])
    proof = report["proof"]
    if proof is not None:
        table.add_row("convergence", f"this run: {proof['message']}")
        if report["proved_since"] is not None:
            table.add_row("proved since step", str(report["proved_since"]))
    return table
