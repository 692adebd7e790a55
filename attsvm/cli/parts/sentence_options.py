"""The options of training on sentences, and which of them fit which model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import typer

from attsvm.errors import Unsupported
from attsvm.language.embedding import KINDS
from attsvm.language.training.next_token import READOUTS
from attsvm.language.training.task import WEIGHTS

Pairs = Annotated[
    str | None,
    typer.Option("--collocations", help="Sentences: two-token lines, or bigrams, or copy."),
]
Size = Annotated[
    int | None, typer.Option("--vocabulary", min=1, help="Sentences: how many tokens are kept.")
]
Lines = Annotated[int | None, typer.Option("--limit", min=1, help="Sentences: lines read.")]
Unseen = Annotated[
    int | None,
    typer.Option(
        "--unseen", min=1, max=1_000_000, help="Sentences: ask so many that training did not see."
    ),
]
FirstRate = Annotated[
    float | None, typer.Option("--decoder-lr", help="next-token: step size of the first stage.")
]
FirstSteps = Annotated[
    int | None, typer.Option("--decoder-steps", min=0, help="next-token: steps of the first stage.")
]
Readout = Annotated[
    str, typer.Option("--readout", help=f"next-token: one of {', '.join(READOUTS)}.")
]
Weights = Annotated[str, typer.Option("--weights", help=f"Sentences: {' or '.join(WEIGHTS)}.")]
Vectors = Annotated[str, typer.Option("--embedding", help=f"Sentences: {' or '.join(KINDS)}.")]
Dimension = Annotated[
    int | None, typer.Option("--dimension", min=1, help="Sentences: size of the embedding.")
]
Ties = Annotated[
    bool, typer.Option("--ties", help="Sentences: accept what is not realizable, cycles as ties.")
]
Both = Annotated[
    bool, typer.Option("--add-collocations", help="joint-next-token: add the collocations' loss.")
]
# Options that only sentences have, and those that they do not have.
SENTENCES_ONLY = {
    "collocations",
    "vocabulary",
    "limit",
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
    if rate is not None and not 0 < rate < np.inf:
        raise Unsupported(f"--decoder-lr is {rate:g}: a step size is positive and finite")
