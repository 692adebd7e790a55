"""train."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from attsvm.cli.parts import summary
from attsvm.cli.parts.archive import Archive
from attsvm.cli.parts.inputs import (
    KEPT,
    check_start,
    own_part,
    read_head,
    read_options,
    read_run,
    read_start,
)
from attsvm.cli.parts.options import Force, Json, app, leave, print_json
from attsvm.cli.parts.sentence_options import (
    SENTENCES_ONLY,
    Both,
    Dimension,
    FirstRate,
    FirstSteps,
    Lines,
    Pairs,
    Readout,
    Size,
    Ties,
    Unseen,
    Vectors,
    Weights,
)
from attsvm.cli.parts.train_sentences import run_sentences
from attsvm.doors import train
from attsvm.errors import BadTokens, Unsupported
from attsvm.ground.files import check_out
from attsvm.ground.progress import bar
from attsvm.heads import HEADS, Head, head_of
from attsvm.losses import LOSSES
from attsvm.models import MODELS, SENTENCE_MODELS, Model, model_of
from attsvm.rules import RULES
from attsvm.rules.steps.scaled import length
from attsvm.rules.steps.schedules import SCHEDULES
from attsvm.theory.limits.limit import predict
from attsvm.theory.outcomes import Outcome, outcome, settled
from attsvm.theory.proofs import proved_since, until_proved

File = Annotated[
    Path,
    typer.Argument(
        help="Problem file (.npz with X, and z, y, v, …); for next-token a text of sentences."
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        help=f"One of {', '.join(MODELS)}; of sentences: "
        f"{', '.join(SENTENCE_MODELS)}; or FILE.py:NAME.",
    ),
]
RuleName = Annotated[
    str, typer.Option("--rule", help=f"One of {', '.join(RULES)}; or FILE.py:NAME, your own.")
]
HeadName = Annotated[
    str | None,
    typer.Option(
        "--head",
        help=f"One of {', '.join(HEADS)}: from v, V, penalty of the file, or drawn by the seed; "
        "or FILE.py:NAME.",
    ),
]
Start = Annotated[
    str, typer.Option("--init", help="zero, normal:STD, uniform, file (p0, W0, K0, Q0, v0).")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", help="Option of the rule, NAME=VALUE; may be given several times."),
]


@app.command("train", epilog="Example: attsvm train tokens.npz --model weight --rule ngd --json")
def train_command(
    context: typer.Context,
    file: File,
    model: ModelName = "weight",
    rule: RuleName = "ngd",
    options: Options = None,
    head: HeadName = None,
    lr: Annotated[float, typer.Option("--lr", help="Step size; 0.05/√N on sentences.")] = 0.1,
    steps: Annotated[
        int, typer.Option("--steps", min=0, help="Number of steps; 4000 on sentences.")
    ] = 2000,
    loss: Annotated[
        str, typer.Option("--loss", help=f"One of {', '.join(LOSSES)}; or FILE.py:NAME.")
    ] = "logistic",
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the starting point and of a drawn head.")
    ] = 0,
    init: Start = "default",
    width: Annotated[
        int | None, typer.Option("--width", min=1, help="Columns of the factors.")
    ] = None,
    schedule: Annotated[
        str, typer.Option("--schedule", help=f"One of {', '.join(SCHEDULES)}.")
    ] = "constant",
    decay: Annotated[float, typer.Option("--decay", help="Decoupled weight decay.")] = 0.0,
    queries: Annotated[
        str | None,
        typer.Option("--queries", help="Self-attention: first or last, that token is the query."),
    ] = None,
    sequence: Annotated[
        bool, typer.Option("--sequence", help="Self-attention: every position of X (S, L, d).")
    ] = False,
    causal: Annotated[
        bool | None,
        typer.Option(
            "--causal/--no-causal", help="With --sequence: tokens up to the query, or all."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help="End at this certified margin share; or proved: at a proof."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Go on from a saved path, --steps further.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Save the path (.npz).")] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the run (.svg, .png or .pdf).")
    ] = None,
    proof: Annotated[
        Path | None, typer.Option("--proof", help="Save the proof of convergence (.npz).")
    ] = None,
    collocations: Pairs = None,
    vocabulary: Size = None,
    limit: Lines = None,
    decoder_lr: FirstRate = None,
    decoder_steps: FirstSteps = None,
    readout: Readout = "softmax",
    weights: Weights = "empirical",
    embedding: Vectors = "orthonormal",
    dimension: Dimension = None,
    ties: Ties = False,
    add_collocations: Both = False,
    unseen: Unseen = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train, then solve the predicted limit at the selected tokens and compare.

    Sentences: --model next-token trains the decoder and then attention over it, decoder the first
    stage alone, joint-next-token both matrices at once.
    """
    _check_outputs(out, figure, force=force)
    if proof is not None:
        check_out(proof, force=force)
    if causal is not None and not sequence:
        raise Unsupported("--causal and --no-causal go with --sequence")
    if not 0 < lr < np.inf:
        raise Unsupported(f"--lr is {lr:g}: a step size is positive and finite")
    given = {name for name in context.params if _given(context, name)}
    parts = {"model": own_part(model, "model"), "rule": own_part(rule, "rule")}
    parts["loss"] = own_part(loss, "loss")
    if model in SENTENCE_MODELS:
        run_sentences({**context.params, "rule": parts["rule"]}, given)
        return
    for name in SENTENCES_ONLY & given:
        flag = name.replace("_", "-")
        raise Unsupported(f"--{flag} is for sentences: --model {', '.join(SENTENCE_MODELS)}")
    archive = read_run(file, queries=queries, sequence=sequence, causal=causal is not False)
    config: dict[str, Any] = {
        **parts,
        "options": read_options(options or []),
        "lr": lr,
        "seed": seed,
        "init": init,
        "width": width,
        "schedule": schedule,
        "decay": decay,
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
        config["init"] = _start(archive, parts["model"])
    begin = time.perf_counter()
    with bar("training") as progress:
        path = train(
            archive.tokens,
            head=head if read is None else read,
            steps=steps,
            start=start,
            progress=progress,
            stop=None if until is None else _until(archive, parts, read, until, start, config),
            **(config if start is None else parts),
        )
    if out is not None:
        path.save(out, force=force)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is null in the report
        found = outcome(path, archive.tokens, read)
    proved = None
    if found.proof is not None and found.proof.proved:
        own = parts["model"] if isinstance(parts["model"], Model) else None
        proved = proved_since(path, archive.tokens, read, model=own)
    if proof is not None:
        _save_proof(found, proof, force=force)
    if figure is not None:
        from attsvm.figures.run import draw_run

        draw_run(path, found, figure, proved=proved)
    report = {
        **describe_run(found),
        "proved_since": None if proved is None else proved.step,
        "steps": int(path.steps[-1]),
        "diverged": path.diverged,
        "head": "trained" if read is None else head_of(read, archive.tokens.d).name,
        "fails": [premise.name for premise in found.limit.failing],
        "seconds": time.perf_counter() - begin,
    }
    if as_json:
        print_json(report)
    else:
        title = f"{path.config['model']}, {path.config['rule']} on {file.name}"
        Console(markup=False).print(_table(report, title))
    if path.diverged >= 0:
        print(
            f"attsvm: the run diverged at step {path.diverged} with lr {path.config['lr']:g}, and "
            "its path ends there; try a smaller --lr",
            file=sys.stderr,
        )
    if found.certificate is not None:
        leave(found.certificate)


def _check_outputs(out: Path | None, figure: Path | None, *, force: bool) -> None:
    """Raises an error unless the path and the figure can be written."""
    for target in (out, figure):
        if target is not None:
            check_out(target, force=force)
    if figure is not None:
        from attsvm.figures.run import check_format

        check_format(figure)
    if out is not None and figure is not None and out.resolve() == figure.resolve():
        raise Unsupported(f"--out and --figure both name {out}: give two names")


def _given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _until(
    archive: Archive,
    parts: dict[str, Any],
    head: Any,
    until: str,
    start: Any,
    config: dict[str, Any],
) -> Any:
    """What ends the run early: a proof that it converges, or a certified locally optimal selection
    with this margin share."""
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
    limit = predict(parts["model"], parts["rule"])
    norm = limit.norm
    if norm is None or head is None:
        said = f"{limit.model}, {limit.rule}"
        raise Unsupported(f"--until needs a fixed head and a predicted norm: not {said}")
    if isinstance(head, Head):
        raise Unsupported(f"--until needs a linear head: the limit under {head.name} is not known")
    if not 0 < share < 1:
        raise Unsupported(f"--until is {share:g}: a share lies between 0 and 1")
    own = parts["model"] if isinstance(parts["model"], Model) else None
    return settled(archive.tokens, head, norm=norm, share=share, model=own)


def _save_proof(found: Outcome, file: Path, *, force: bool) -> None:
    """Write the proof of the run's end, or what blocks it."""
    if found.proof is None:
        raise Unsupported(
            "--proof: no theorem of convergence covers this run; one covers weight and prompt "
            "models with a fixed linear head, rules gd, ngd, mirror:P, nmirror:P, no weight decay"
        )
    found.proof.save(file, force=force)


def _start(archive: Archive, model: str | Model) -> dict[str, Any]:
    """The starting point in the file, by block."""
    form = model_of(model)
    names = form.shapes(1, 1, 1, 1)
    missing = [f"{name}0" for name in names if f"{name}0" not in archive.arrays]
    if missing:
        raise BadTokens(f"the file has no array {missing[0]} to start {form.name} from")
    return {name: archive.arrays[f"{name}0"] for name in names}


def describe_run(found: Outcome) -> dict[str, Any]:
    """What a report of a run holds."""
    best = found.certificate
    with np.errstate(over="ignore"):
        norm = length(found.W[None])[0]
    return {
        "status": "optimal" if best is None else best.status,
        "selection": found.selection.tolist(),
        "state": found.state,
        "sureness": summary.number(found.sureness),
        "last_change": found.changed,
        "loss": summary.number(found.loss),
        "log10_gradient_norm": summary.number(found.log10_gradient),
        "log_flow_time": summary.number(found.log_time),
        "limit": summary.describe_limit(found.limit),
        "correlation": summary.number(found.correlation),
        "margin_share": summary.number(found.margin_share),
        "W": found.W.tolist(),
        "norm": summary.number(norm),
        "certificate": None if best is None else summary.describe(best),
        "proof": None if found.proof is None else found.proof.to_dict(),
    }


def _table(report: dict[str, Any], title: str) -> Table:
    """The report for a reader."""
    table = Table(title=title, show_header=False)
    for key in (
        "selection",
        "state",
        "sureness",
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
    best = report["certificate"]
    if best is not None:
        table.add_row("certificate", best["message"])
    proof = report["proof"]
    if proof is not None:
        table.add_row("convergence", proof["message"])
        if report["proved_since"] is not None:
            table.add_row("proved since step", str(report["proved_since"]))
    return table
