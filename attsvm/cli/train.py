"""train."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from attsvm._utils.files import check_out
from attsvm.cli.parts.options import (
    OUTPUT,
    Force,
    Glossary,
    Json,
    Style,
    app,
    check_figure,
    completed,
    read_norm,
)
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
from attsvm.cli.parts.words import (
    HEADS,
    LOSSES,
    MODELS,
    NORMS,
    OPTIMIZERS,
    SCHEDULES,
    SENTENCE_MODELS,
)
from attsvm.errors import Unsupported

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
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help=f"{', '.join(MODELS)}; for a text {', '.join(SENTENCE_MODELS)}; or FILE.py:NAME. "
        "Several models, optimizers or step sizes: all are trained and compared.",
        show_default="weight",
        autocompletion=completed(*MODELS, *SENTENCE_MODELS),
        rich_help_panel=RUN,
    ),
]
RuleName = Annotated[
    list[str] | None,
    typer.Option(
        "--optimizer",
        metavar="NAME",
        help=f"{', '.join(OPTIMIZERS)}; or FILE.py:NAME, your own. Several: see --model.",
        show_default="ngd",
        autocompletion=completed(*OPTIMIZERS),
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
        help="Option of the optimizer; may be given several times.",
        rich_help_panel=RUN,
    ),
]


@app.command(
    "train", epilog="Example: attsvm train tokens.npz --model weight --optimizer ngd --json"
)
def train_command(
    context: typer.Context,
    file: File,
    model: ModelName = None,
    optimizer: RuleName = None,
    options: Options = None,
    head: HeadName = None,
    lr: Annotated[
        list[float] | None,
        typer.Option(
            "--lr",
            metavar="X",
            help="Step size; 0.05/√N on sentences. Several: see --model.",
            show_default="0.1",
            rich_help_panel=STEPS,
        ),
    ] = None,
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
    norm: Annotated[
        str | None,
        typer.Option(
            "--norm",
            metavar="NAME",
            help="Compare in this norm, a name or FILE.py:NAME; else in that of the limit.",
            autocompletion=completed(*NORMS),
            rich_help_panel=END,
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
        typer.Option(
            "--out",
            metavar="FILE",
            help="Save the path (.npz); of several runs, a new folder of them.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure",
            metavar="FILE",
            help="Draw the run, or the comparison (.svg, .png or .pdf).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    style: Style = "screen",
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

    Several of --model, --optimizer or --lr are trained in all combinations and set side by side:
    the margin share in every norm, the correlation, and since which step convergence is proved.

    Sentences: --model next-token trains the decoder and then attention over it, decoder the first
    stage alone, joint-next-token both matrices at once.
    """
    from attsvm.cli.parts.inputs import own_part

    chosen: dict[str, list[Any]] = {
        "model": model or ["weight"],
        "optimizer": optimizer or ["ngd"],
        "lr": lr or [0.1],
    }
    several = max(map(len, chosen.values())) > 1
    _check_outputs(out, figure, several=several, force=force)
    check_figure(figure, style, force=force)
    if proof is not None:
        check_out(proof, force=force)
    if causal is not None and not sequence:
        raise Unsupported("--causal and --no-causal go with --sequence")
    for rate in chosen["lr"]:
        if not 0 < rate < math.inf:
            raise Unsupported(f"--lr is {rate:g}: a step size is positive and finite")
    given = {name for name in context.params if _given(context, name)}
    asked = context.params | {name: words[0] for name, words in chosen.items()}
    asked["norm"] = None if norm is None else read_norm(norm)
    parts = {name: own_part(asked[name], name) for name in ("model", "optimizer", "loss")}
    of_text = [name for name in chosen["model"] if name in SENTENCE_MODELS]
    if of_text and several:
        raise Unsupported(
            f"--model {of_text[0]} trains on sentences: several runs are compared on tokens alone, "
            "so give one --model, one --optimizer and one --lr"
        )
    if of_text:
        from attsvm.cli.parts.train_sentences import run_sentences

        run_sentences({**asked, "optimizer": parts["optimizer"]}, given)
        return
    for name in SENTENCES_ONLY & given:
        flag = FLAGS.get(name, name.replace("_", "-"))
        raise Unsupported(f"--{flag} is for sentences: --model {', '.join(SENTENCE_MODELS)}")
    if several:
        from attsvm.cli.parts.train_several import run_several

        run_several(asked, chosen, parts["loss"])
        return
    from attsvm.cli.parts.train_tokens import run_tokens

    run_tokens(asked, given, parts)


def _check_outputs(out: Path | None, figure: Path | None, *, several: bool, force: bool) -> None:
    """Raises an error unless the path, or the folder of several, can be written."""
    if out is None:
        return
    if several:
        from attsvm._utils.run_folder import RunFolder

        if out.suffix == ".npz":
            raise Unsupported(f"--out is {out}: several runs are saved as a folder, not as .npz")
        RunFolder(out, "comparison").check_replaceable(force=force)
    else:
        check_out(out, force=force)
    if figure is not None and out.resolve() == figure.resolve():
        raise Unsupported(f"--out and --figure both name {out}: give two names")


def _given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
