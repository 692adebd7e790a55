"""train."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from attsvm.cli.parts.options import OUTPUT, Force, Glossary, Json, app, completed
from attsvm.cli.parts.sentence_options import (
    FLAGS,
    SENTENCES_ONLY,
    Both,
    Dimension,
    FirstRate,
    FirstSteps,
    Lines,
    Lower,
    Pairs,
    Prose,
    Readout,
    Shortest,
    Size,
    Strip,
    Ties,
    Unseen,
    Vectors,
    Weights,
)
from attsvm.cli.parts.words import HEADS, LOSSES, MODELS, RULES, SCHEDULES, SENTENCE_MODELS
from attsvm.errors import Unsupported
from attsvm.ground.files import check_out

RUN, STEPS, END = "The run", "Its steps", "Start and end"
SELF = "Self-attention"

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Problem file (.npz with X, y, and z, v, …); for next-token a text of sentences.",
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help=f"{', '.join(MODELS)}; for a text {', '.join(SENTENCE_MODELS)}; or FILE.py:NAME.",
        autocompletion=completed(*MODELS, *SENTENCE_MODELS),
        rich_help_panel=RUN,
    ),
]
RuleName = Annotated[
    str,
    typer.Option(
        "--rule",
        metavar="NAME",
        help=f"{', '.join(RULES)}; or FILE.py:NAME, your own.",
        autocompletion=completed(*RULES),
        rich_help_panel=RUN,
    ),
]
HeadName = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="NAME",
        help=f"{', '.join(HEADS)}: from v, V, penalty of the file, or drawn by the seed; or "
        "FILE.py:NAME.",
        autocompletion=completed(*HEADS),
        rich_help_panel=RUN,
    ),
]
LossName = Annotated[
    str,
    typer.Option(
        "--loss",
        metavar="NAME",
        help=f"{', '.join(LOSSES)}; or FILE.py:NAME.",
        autocompletion=completed(*LOSSES),
        rich_help_panel=RUN,
    ),
]
Start = Annotated[
    str,
    typer.Option(
        "--init",
        metavar="START",
        help="zero, normal:STD, uniform, file (p0, W0, K0, Q0, v0).",
        rich_help_panel=END,
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Option of the rule; may be given several times.",
        rich_help_panel=RUN,
    ),
]


@app.command("train", epilog="Example: attsvm train tokens.npz --model weight --rule ngd --json")
def train_command(
    context: typer.Context,
    file: File,
    model: ModelName = "weight",
    rule: RuleName = "ngd",
    options: Options = None,
    head: HeadName = None,
    lr: Annotated[
        float,
        typer.Option(
            "--lr", metavar="X", help="Step size; 0.05/√N on sentences.", rich_help_panel=STEPS
        ),
    ] = 0.1,
    steps: Annotated[
        int,
        typer.Option(
            "--steps",
            min=0,
            metavar="N",
            help="Number of steps; 4000 on sentences.",
            rich_help_panel=STEPS,
        ),
    ] = 2000,
    loss: LossName = "logistic",
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=0,
            metavar="N",
            help="Seed of the starting point and of a drawn head.",
            rich_help_panel=END,
        ),
    ] = 0,
    init: Start = "default",
    width: Annotated[
        int | None,
        typer.Option(
            "--width", min=1, metavar="N", help="Columns of the factors.", rich_help_panel=RUN
        ),
    ] = None,
    schedule: Annotated[
        str,
        typer.Option(
            "--schedule",
            metavar="NAME",
            help=f"{' or '.join(SCHEDULES)}.",
            autocompletion=completed(*SCHEDULES),
            rich_help_panel=STEPS,
        ),
    ] = "constant",
    decay: Annotated[
        float,
        typer.Option("--decay", metavar="X", help="Decoupled weight decay.", rich_help_panel=STEPS),
    ] = 0.0,
    queries: Annotated[
        str | None,
        typer.Option(
            "--queries",
            metavar="WHICH",
            help="first or last: that token is the query.",
            autocompletion=completed("first", "last"),
            rich_help_panel=SELF,
        ),
    ] = None,
    sequence: Annotated[
        bool,
        typer.Option(
            "--sequence", help="Every position of X (S, L, d) is a query.", rich_help_panel=SELF
        ),
    ] = False,
    causal: Annotated[
        bool | None,
        typer.Option(
            "--causal/--no-causal",
            help="With --sequence: tokens up to the query, or all.",
            rich_help_panel=SELF,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="SHARE",
            help="End at this certified margin share; or proved: at a proof.",
            rich_help_panel=END,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Go on from a saved path, --steps further.",
            rich_help_panel=END,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Save the path (.npz).", rich_help_panel=OUTPUT),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure",
            metavar="FILE",
            help="Draw the run (.svg, .png or .pdf).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    proof: Annotated[
        Path | None,
        typer.Option(
            "--proof",
            metavar="FILE",
            help="Save the proof of convergence (.npz).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    collocations: Pairs = None,
    vocabulary: Size = None,
    limit: Lines = None,
    prose: Prose = False,
    lower: Lower = False,
    strip: Strip = False,
    shortest: Shortest = None,
    decoder_lr: FirstRate = None,
    decoder_steps: FirstSteps = None,
    readout: Readout = "softmax",
    weights: Weights = "empirical",
    embedding: Vectors = "orthonormal",
    dimension: Dimension = None,
    ties: Ties = False,
    add_collocations: Both = False,
    unseen: Unseen = None,
    glossary: Glossary = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train, then solve the predicted limit at the selected tokens and compare.

    Sentences: --model next-token trains the decoder and then attention over it, decoder the first
    stage alone, joint-next-token both matrices at once.
    """
    from attsvm.cli.parts.inputs import own_part

    _check_outputs(out, figure, force=force)
    if proof is not None:
        check_out(proof, force=force)
    if causal is not None and not sequence:
        raise Unsupported("--causal and --no-causal go with --sequence")
    if not 0 < lr < math.inf:
        raise Unsupported(f"--lr is {lr:g}: a step size is positive and finite")
    given = {name for name in context.params if _given(context, name)}
    parts = {"model": own_part(model, "model"), "rule": own_part(rule, "rule")}
    parts["loss"] = own_part(loss, "loss")
    if model in SENTENCE_MODELS:
        from attsvm.cli.parts.train_sentences import run_sentences

        run_sentences({**context.params, "rule": parts["rule"]}, given)
        return
    for name in SENTENCES_ONLY & given:
        flag = FLAGS.get(name, name.replace("_", "-"))
        raise Unsupported(f"--{flag} is for sentences: --model {', '.join(SENTENCE_MODELS)}")
    from attsvm.cli.parts.train_tokens import run_tokens

    run_tokens(context.params, given, parts)


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
