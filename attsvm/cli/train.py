"""train: a run, several, or one on sentences, and the limit that theory predicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from attsvm._utils.files import check_out
from attsvm.cli.options import READING, SENTENCE_MODELS, TEXT, check_figure, command, read_norm
from attsvm.errors import Unsupported

# Options of tokens alone; of one run; of the models with two stages.
_OF_TOKENS = {
    "head",
    "loss",
    "width",
    "heads",
    "threads",
    "queries",
    "sequence",
    "no_causal",
    "until",
    "resume",
    "proof",
}
_OF_ONE = ("proof", "resume", "until", "norm")
_OF_STAGES = {"decoder_lr", "decoder_steps", "readout"}


@command("tokens.npz --model weight --optimizer ngd --json")
def train_command(
    context: typer.Context,
    file: Path,
    model: list[str] | None = None,
    optimizer: list[str] | None = None,
    option: list[str] | None = None,
    head: str | None = None,
    lr: list[float] | None = None,
    steps: int = 2000,
    loss: str = "logistic",
    seed: int = 0,
    init: str = "default",
    width: int | None = None,
    heads: int | None = None,
    threads: int | None = None,
    schedule: str = "constant",
    decay: float = 0.0,
    queries: str | None = None,
    sequence: bool = False,
    no_causal: bool = False,
    norm: str | None = None,
    until: str | None = None,
    resume: Path | None = None,
    out: Path | None = None,
    figure: Path | None = None,
    style: str = "screen",
    proof: Path | None = None,
    collocations: str | None = None,
    vocabulary: int | None = None,
    limit: int | None = None,
    prose: bool = False,
    lower: bool = False,
    strip_punctuation: bool = False,
    shortest: int | None = None,
    decoder_lr: float | None = None,
    decoder_steps: int | None = None,
    readout: str = "softmax",
    ties: bool = False,
    unseen: int | None = None,
    force: bool = False,
    json_: bool = False,
) -> None:
    """Train, then solve the predicted limit at the selected tokens and compare.

    Several of --model, --optimizer or --lr are trained in all combinations and compared: the margin
    share in every norm, the correlation, and since which step convergence is proved.

    Sentences: --model next-token trains the decoder and then attention over it, decoder the first
    stage alone, joint-next-token both matrices at once.

    Arguments
    ---------
    file : FILE
        Problem file (.npz with X, y, and z, v, …); for next-token a text of sentences.

    The run
    -------
    model : NAME, default: weight
        {models}; for a text {sentence_models}; or FILE.py:NAME.
        Several models, optimizers or step sizes: all are trained and compared.
    optimizer : NAME, default: ngd
        {optimizers}; or FILE.py:NAME of a custom one, or of a torch class. Several: see
        --model.
    option : NAME=VALUE
        Option of the optimizer; may be given several times.
    head : NAME, default: what the file has
        Prediction head: {heads}, of v, V, penalty in the file or drawn; or FILE.py:NAME.
    loss : NAME
        {losses}; or FILE.py:NAME.
    width : N, at least 1, default: min(d, dq)
        Columns of the factors.
    heads : N, at least 1, default: 2
        Attention heads of multi-head and split-heads; v may have a row for each.

    Its steps
    ---------
    lr : X, default: the optimizer's own, or 0.1; 0.05/√N on sentences
        Step size. Several: see --model.
    steps : N, at least 0, default: 2000; 4000 on sentences
        Number of steps.
    schedule : NAME
        {schedules}.
    decay : X
        Decoupled weight decay.
    threads : N, at least 1, default: all cores
        Cores that share the work.

    Start and end
    -------------
    seed : N, at least 0
        Seed of the starting point and of a drawn head.
    init : START, default: zero; normal:0.1 for factors, several heads, qk-norm
        zero, normal:STD, uniform, or file: its arrays p0, W0, K0, Q0, v0.
    norm : NAME, default: that of the limit
        Compare in this norm, a name or FILE.py:NAME.
    until : STATE
        proved: end where convergence is proved.
    resume : FILE
        Go on from a saved path, --steps further.

    Self-attention
    --------------
    queries : WHICH
        first or last: that token is the query.
    sequence
        Every position of X (S, L, d) is a query, of the tokens up to it.
    no_causal
        With --sequence: of all tokens.

    Output
    ------
    out : FILE
        Save the path (.npz); of several runs, a new folder of them.
    figure : FILE
        Draw the run, or the comparison (.svg, .png or .pdf).
    proof : FILE
        Save the proof of convergence (.npz).

    Training on a text
    ------------------
    decoder_lr : X
        next-token: step size of the first stage.
    decoder_steps : N, at least 0
        next-token: steps of the first stage.
    readout : NAME
        next-token: {readouts}.
    ties
        Accept what is not realizable, cycles as ties.
    unseen : N, at least 1
        Ask so many sentences that training did not see.
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
    if no_causal and not sequence:
        raise Unsupported("--no-causal goes with --sequence")
    for name, rates in (
        ("lr", lr or []),
        ("decoder-lr", [0.1 if decoder_lr is None else decoder_lr]),
    ):
        for rate in rates:
            if not 0 < rate < math.inf:
                raise Unsupported(f"--{name} is {rate:g}: a step size is positive and finite")
    given = {
        name
        for name in context.params
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    asked = context.params | {name: values[0] for name, values in chosen.items()}
    asked["norm"] = None if norm is None else read_norm(norm)
    of_text = [name for name in chosen["model"] if name in SENTENCE_MODELS]
    if several:
        for name in _OF_ONE:
            if asked[name] is not None:
                raise Unsupported(
                    f"--{name} is for one run: give one --model, one --optimizer and one --lr"
                )
        if of_text:
            raise Unsupported(
                f"--model {of_text[0]} trains on sentences: several runs are compared on tokens "
                "alone, so give one --model, one --optimizer and one --lr"
            )
    for param in [] if of_text else context.command.params:
        panel = getattr(param, "rich_help_panel", None)
        if param.name in given and panel in (READING, TEXT):
            raise Unsupported(
                f"{param.opts[0]} is for sentences: --model {', '.join(SENTENCE_MODELS)}"
            )
    if of_text:
        _check_of_text(asked, given)
        training.run_sentences(asked, given)
    elif several:
        training.run_several(asked, chosen)
    else:
        training.run_tokens(asked, given)


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
    model, with_mass = asked["model"], asked["readout"] == "mass"
    unfit = set(_OF_TOKENS)
    if model != "next-token":
        unfit |= _OF_STAGES
    if model == "decoder":
        unfit.add("unseen")
    if with_mass:
        unfit |= {"decoder_lr", "decoder_steps", "unseen"}
    for name in sorted(unfit & given):
        said = " with --readout mass" if with_mass and model == "next-token" else ""
        raise Unsupported(f"--{name.replace('_', '-')} does not fit --model {model}{said}")
    if asked["init"] == "file":
        raise Unsupported("--init file needs a problem file: sentences start from zero or normal")
    for kind in ("out", "figure"):  # even --force does not replace what is being read
        if asked[kind] is not None and asked[kind].resolve() == asked["file"].resolve():
            raise Unsupported(f"--{kind} names {asked['file']}, the file of the sentences")
