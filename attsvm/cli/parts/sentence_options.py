"""The options of training on sentences, and which of them fit which model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from attsvm.cli.options import EMBEDDINGS, READOUTS, WEIGHTS, completed
from attsvm.errors import Unsupported

READING, TEXT = "Reading a text", "Training on a text"

Pairs = Annotated[
    str | None,
    typer.Option(
        "--collocations",
        metavar="FILE",
        help="Who follows whom: a file of two-token lines, or bigrams, or copy.",
        autocompletion=completed("bigrams", "copy"),
        rich_help_panel=READING,
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        "--vocabulary",
        min=1,
        metavar="N",
        help="Number of tokens; of words the most frequent.",
        rich_help_panel=READING,
    ),
]
Lines = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=1,
        metavar="N",
        help="Read only so many lines, or sentences of prose.",
        rich_help_panel=READING,
    ),
]
Prose = Annotated[
    bool,
    typer.Option(
        "--prose",
        help="A running text: read it by its sentences, not by lines; bigrams unless said.",
        rich_help_panel=READING,
    ),
]
Lower = Annotated[
    bool, typer.Option("--lower", help="Put all words in lower case.", rich_help_panel=READING)
]
Strip = Annotated[
    bool,
    typer.Option(
        "--strip-punctuation",
        help="Take punctuation off both ends of each word.",
        rich_help_panel=READING,
    ),
]
Shortest = Annotated[
    int | None,
    typer.Option(
        "--shortest",
        min=1,
        metavar="N",
        help="Skip lines, or sentences of prose, of fewer tokens.",
        rich_help_panel=READING,
    ),
]
Unseen = Annotated[
    int | None,
    typer.Option(
        "--unseen",
        min=1,
        max=1_000_000,
        metavar="N",
        help="Ask so many sentences that training did not see.",
        rich_help_panel=TEXT,
    ),
]
FirstRate = Annotated[
    float | None,
    typer.Option(
        "--decoder-lr",
        metavar="X",
        help="next-token: step size of the first stage.",
        rich_help_panel=TEXT,
    ),
]
FirstSteps = Annotated[
    int | None,
    typer.Option(
        "--decoder-steps",
        min=0,
        metavar="N",
        help="next-token: steps of the first stage.",
        rich_help_panel=TEXT,
    ),
]
Readout = Annotated[
    str,
    typer.Option(
        "--readout",
        metavar="NAME",
        help=f"next-token: {' or '.join(READOUTS)}.",
        autocompletion=completed(*READOUTS),
        rich_help_panel=TEXT,
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="NAME",
        help=f"Of the sentences: {' or '.join(WEIGHTS)}.",
        autocompletion=completed(*WEIGHTS),
        rich_help_panel=TEXT,
    ),
]
Vectors = Annotated[
    str,
    typer.Option(
        "--embedding",
        metavar="NAME",
        help=f"Of the tokens: {' or '.join(EMBEDDINGS)}.",
        autocompletion=completed(*EMBEDDINGS),
        rich_help_panel=TEXT,
    ),
]
Dimension = Annotated[
    int | None,
    typer.Option(
        "--dimension", min=1, metavar="N", help="Size of the embedding.", rich_help_panel=TEXT
    ),
]
Ties = Annotated[
    bool,
    typer.Option(
        "--ties",
        help="Accept what is not realizable, cycles as ties.",
        rich_help_panel=TEXT,
    ),
]
Both = Annotated[
    bool,
    typer.Option(
        "--add-collocations",
        help="joint-next-token: add the collocations' loss.",
        rich_help_panel=TEXT,
    ),
]
# Options that only sentences have, and those that they do not have.
SENTENCES_ONLY = {
    "collocations",
    "vocabulary",
    "limit",
    "prose",
    "lower",
    "strip",
    "shortest",
    "decoder_lr",
    "decoder_steps",
    "readout",
    "weights",
    "embedding",
    "dimension",
    "ties",
    "add_collocations",
    "unseen",
}
_TOKENS_ONLY = {
    "head",
    "loss",
    "width",
    "queries",
    "sequence",
    "causal",
    "until",
    "resume",
    "proof",
}
# Options whose parameter has another name.
FLAGS = {"strip": "strip-punctuation", "options": "option", "as_json": "json"}
# Which options the models of sentences do not share.
_OF_STAGES = {"decoder_lr", "decoder_steps", "readout"}


def check_options(asked: Mapping[str, Any], given: set[str]) -> None:
    """Raises Unsupported when an option does not fit the model."""
    model = asked["model"]
    unfit = set(_TOKENS_ONLY)
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
