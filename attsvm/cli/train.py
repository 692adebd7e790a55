"""train: a run, several, or one on sentences, and the limit that theory predicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from attsvm._utils.files import check_out
from attsvm.cli import options as shared
from attsvm.cli.options import (
    HEADS,
    LOSSES,
    MODELS,
    NORMS,
    OPTIMIZERS,
    OUTPUT,
    SCHEDULES,
    SENTENCE_MODELS,
    app,
    check_figure,
    option,
    read_norm,
)
from attsvm.errors import Unsupported

RUN, STEPS, END = "The run", "Its steps", "Start and end"
SELF = "Self-attention"
# Options that only the models with two stages have.
_OF_STAGES = {"decoder_lr", "decoder_steps", "readout"}
# Options that only tokens have: of the problem, of the run.
_OF_PROBLEMS = {"head", "loss", "width", "queries", "sequence", "causal"}
_OF_RUNS = {"until", "resume", "proof"}

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Problem file (.npz with X, y, and z, v, …); for next-token a text of sentences.",
    ),
]
Models = Annotated[
    list[str] | None,
    option(
        "--model",
        "NAME",
        f"{', '.join(MODELS)}; for a text {', '.join(SENTENCE_MODELS)}; or FILE.py:NAME. "
        "Several models, optimizers or step sizes: all are trained and compared.",
        RUN,
        (*MODELS, *SENTENCE_MODELS),
        show_default="weight",
    ),
]
Optimizers = Annotated[
    list[str] | None,
    option(
        "--optimizer",
        "NAME",
        f"{', '.join(OPTIMIZERS)}; or FILE.py:NAME of a custom one or a torch class. "
        "Several: see --model.",
        RUN,
        OPTIMIZERS,
        show_default="ngd",
    ),
]
Settings = Annotated[
    list[str] | None,
    option("--option", "NAME=VALUE", "Option of the optimizer; may be given several times.", RUN),
]
HeadName = Annotated[
    str | None,
    option(
        "--head",
        "NAME",
        f"Prediction head: {', '.join(HEADS)}, of v, V, penalty in the file or drawn; or "
        "FILE.py:NAME.",
        RUN,
        HEADS,
        show_default="what the file has",
    ),
]
Rates = Annotated[
    list[float] | None,
    option(
        "--lr",
        "X",
        "Step size. Several: see --model.",
        STEPS,
        show_default="the optimizer's own, or 0.1; 0.05/√N on sentences",
    ),
]
Steps = Annotated[
    int,
    option(
        "--steps", "N", "Number of steps.", STEPS, min=0, show_default="2000; 4000 on sentences"
    ),
]
LossName = Annotated[
    str, option("--loss", "NAME", f"{', '.join(LOSSES)}; or FILE.py:NAME.", RUN, LOSSES)
]
Seed = Annotated[
    int, option("--seed", "N", "Seed of the starting point and of a drawn head.", END, min=0)
]
Init = Annotated[
    str,
    option(
        "--init",
        "START",
        "zero, normal:STD, uniform, or file: its arrays p0, W0, K0, Q0, v0.",
        END,
        show_default="zero; normal:0.1 for factors",
    ),
]
Width = Annotated[
    int | None,
    option("--width", "N", "Columns of the factors.", RUN, min=1, show_default="min(d, dq)"),
]
Schedule = Annotated[
    str, option("--schedule", "NAME", f"{' or '.join(SCHEDULES)}.", STEPS, SCHEDULES)
]
Queries = Annotated[
    str | None,
    option(
        "--queries", "WHICH", "first or last: that token is the query.", SELF, ("first", "last")
    ),
]
Causal = Annotated[
    bool | None,
    option(
        "--causal/--no-causal",
        None,
        "With --sequence: tokens up to the query, or all.",
        SELF,
        show_default="causal",
    ),
]
Norm = Annotated[
    str | None,
    option(
        "--norm",
        "NAME",
        "Compare in this norm, a name or FILE.py:NAME.",
        END,
        NORMS,
        show_default="that of the limit",
    ),
]
Until = Annotated[
    str | None,
    option("--until", "SHARE", "End at this certified margin share; or proved: at a proof.", END),
]
Resume = Annotated[
    Path | None, option("--resume", "FILE", "Go on from a saved path, --steps further.", END)
]
Out = Annotated[
    Path | None,
    option("--out", "FILE", "Save the path (.npz); of several runs, a new folder of them.", OUTPUT),
]
Figure = Annotated[
    Path | None,
    option("--figure", "FILE", "Draw the run, or the comparison (.svg, .png or .pdf).", OUTPUT),
]
Proof = Annotated[
    Path | None, option("--proof", "FILE", "Save the proof of convergence (.npz).", OUTPUT)
]


@app.command(
    "train", epilog="Example: attsvm train tokens.npz --model weight --optimizer ngd --json"
)
def train_command(
    context: typer.Context,
    file: File,
    model: Models = None,
    optimizer: Optimizers = None,
    options: Settings = None,
    head: HeadName = None,
    lr: Rates = None,
    steps: Steps = 2000,
    loss: LossName = "logistic",
    seed: Seed = 0,
    init: Init = "default",
    width: Width = None,
    schedule: Schedule = "constant",
    decay: Annotated[float, option("--decay", "X", "Decoupled weight decay.", STEPS)] = 0.0,
    queries: Queries = None,
    sequence: Annotated[
        bool, option("--sequence", None, "Every position of X (S, L, d) is a query.", SELF)
    ] = False,
    causal: Causal = None,
    norm: Norm = None,
    until: Until = None,
    resume: Resume = None,
    out: Out = None,
    figure: Figure = None,
    style: shared.Style = "screen",
    proof: Proof = None,
    collocations: shared.Collocations = None,
    vocabulary: shared.Vocabulary = None,
    limit: shared.Limit = None,
    prose: shared.Prose = False,
    lower: shared.Lower = False,
    strip: shared.Strip = False,
    shortest: shared.Shortest = None,
    decoder_lr: shared.DecoderLr = None,
    decoder_steps: shared.DecoderSteps = None,
    readout: shared.Readout = "softmax",
    weights: shared.Weights = "empirical",
    embedding: shared.Embedding = "orthonormal",
    dimension: shared.Dimension = None,
    ties: shared.Ties = False,
    add_collocations: shared.AddCollocations = False,
    unseen: shared.Unseen = None,
    force: shared.Force = False,
    as_json: shared.Json = False,
) -> None:
    """Train, then solve the predicted limit at the selected tokens and compare.

    Several of --model, --optimizer or --lr are trained in all combinations and compared: the margin
    share in every norm, the correlation, and since which step convergence is proved.

    Sentences: --model next-token trains the decoder and then attention over it, decoder the first
    stage alone, joint-next-token both matrices at once.
    """
    from attsvm.cli import training

    chosen: dict[str, list[Any]] = {
        "model": model or ["weight"],
        "optimizer": optimizer or ["ngd"],
        "lr": lr or [None],
    }
    several = max(map(len, chosen.values())) > 1
    _check_outputs(out, figure, several=several, force=force)
    check_figure(figure, style, force=force)
    if proof is not None:
        check_out(proof, force=force)
    if causal is not None and not sequence:
        raise Unsupported("--causal and --no-causal go with --sequence")
    for rate in lr or []:
        if not 0 < rate < math.inf:
            raise Unsupported(f"--lr is {rate:g}: a step size is positive and finite")
    given = {
        name
        for name in context.params
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    asked = context.params | {name: values[0] for name, values in chosen.items()}
    asked["norm"] = None if norm is None else read_norm(norm)
    parts = {name: training.read_part(asked[name], name) for name in training.PARTS}
    of_text = [name for name in chosen["model"] if name in SENTENCE_MODELS]
    if of_text and several:
        raise Unsupported(
            f"--model {of_text[0]} trains on sentences: several runs are compared on tokens alone, "
            "so give one --model, one --optimizer and one --lr"
        )
    for param in [] if of_text else context.command.params:
        panel = getattr(param, "rich_help_panel", None)
        if param.name in given and panel in (shared.READING, shared.TEXT):
            raise Unsupported(
                f"{param.opts[0]} is for sentences: --model {', '.join(SENTENCE_MODELS)}"
            )
    if of_text:
        _check_of_text(asked, given)
        training.run_sentences({**asked, "optimizer": parts["optimizer"]}, given)
    elif several:
        training.run_several(asked, chosen, parts["loss"])
    else:
        training.run_tokens(asked, given, parts)


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


def _check_of_text(asked: Mapping[str, Any], given: set[str]) -> None:
    """Raises Unsupported when an option does not fit the model."""
    model = asked["model"]
    unfit = _OF_PROBLEMS | _OF_RUNS
    if model != "next-token":
        unfit |= _OF_STAGES
    if model != "joint-next-token":
        unfit.add("add_collocations")
    if model == "decoder":
        unfit.add("unseen")
    if asked["unseen"] is not None and asked["readout"] == "mass":
        raise Unsupported("--unseen asks the decoder, which the readout mass does not have")
    if asked["readout"] == "mass":
        unfit |= {"decoder_lr", "decoder_steps"}
    for name in sorted(unfit & given):
        with_mass = " with --readout mass" if name in _OF_STAGES and model == "next-token" else ""
        raise Unsupported(f"--{name.replace('_', '-')} does not fit --model {model}{with_mass}")
    if asked["init"] == "file":
        raise Unsupported("--init file needs a problem file: sentences start from zero or normal")
    rate = asked["decoder_lr"]
    if rate is not None and not 0 < rate < math.inf:
        raise Unsupported(f"--decoder-lr is {rate:g}: a step size is positive and finite")
