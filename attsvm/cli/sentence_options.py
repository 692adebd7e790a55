"""The options of sentences and of training on them, and which of them fit which model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from attsvm.cli.options import EMBEDDINGS, READOUTS, WEIGHTS, option
from attsvm.errors import Unsupported

READING, TEXT = "Reading a text", "Training on a text"

Collocations = Annotated[
    str | None,
    option(
        "--collocations",
        "FILE",
        "Who follows whom: a file of two-token lines, or bigrams, or copy.",
        READING,
        ("bigrams", "copy"),
    ),
]
Vocabulary = Annotated[
    int | None,
    option("--vocabulary", "N", "Number of tokens; of words the most frequent.", READING, min=1),
]
Limit = Annotated[
    int | None,
    option("--limit", "N", "Read only so many lines, or sentences of prose.", READING, min=1),
]
Prose = Annotated[
    bool,
    option(
        "--prose",
        None,
        "A running text: read it by its sentences, not by lines; bigrams by default.",
        READING,
    ),
]
Lower = Annotated[bool, option("--lower", None, "Put all words in lower case.", READING)]
Strip = Annotated[
    bool,
    option("--strip-punctuation", None, "Take punctuation off both ends of each word.", READING),
]
Shortest = Annotated[
    int | None,
    option("--shortest", "N", "Skip lines or sentences of prose of fewer tokens.", READING, min=1),
]
Unseen = Annotated[
    int | None,
    option(
        "--unseen",
        "N",
        "Ask so many sentences that training did not see.",
        TEXT,
        min=1,
        max=1_000_000,
    ),
]
DecoderLr = Annotated[
    float | None, option("--decoder-lr", "X", "next-token: step size of the first stage.", TEXT)
]
DecoderSteps = Annotated[
    int | None, option("--decoder-steps", "N", "next-token: steps of the first stage.", TEXT, min=0)
]
Readout = Annotated[
    str, option("--readout", "NAME", f"next-token: {' or '.join(READOUTS)}.", TEXT, READOUTS)
]
Weights = Annotated[
    str, option("--weights", "NAME", f"Of the sentences: {' or '.join(WEIGHTS)}.", TEXT, WEIGHTS)
]
Embedding = Annotated[
    str,
    option("--embedding", "NAME", f"Of the tokens: {' or '.join(EMBEDDINGS)}.", TEXT, EMBEDDINGS),
]
Dimension = Annotated[int | None, option("--dimension", "N", "Size of the embedding.", TEXT, min=1)]
Ties = Annotated[
    bool, option("--ties", None, "Accept what is not realizable, cycles as ties.", TEXT)
]
AddCollocations = Annotated[
    bool,
    option("--add-collocations", None, "joint-next-token: add the collocations' loss.", TEXT),
]
# Options that only sentences have: of texts, of the models that have two stages, of all.
_OF_TEXTS = {"collocations", "vocabulary", "limit", "prose", "lower", "strip", "shortest"}
_OF_STAGES = {"decoder_lr", "decoder_steps", "readout"}
_OF_TRAINING = {"weights", "embedding", "dimension", "ties", "add_collocations", "unseen"}
SENTENCES_ONLY = _OF_TEXTS | _OF_STAGES | _OF_TRAINING
# Options that only tokens have: of the problem, of the run.
_OF_PROBLEMS = {"head", "loss", "width", "queries", "sequence", "causal"}
_OF_RUNS = {"until", "resume", "proof"}
# Options whose parameter has another name.
FLAGS = {"strip": "strip-punctuation", "options": "option", "as_json": "json"}


def check_options(asked: Mapping[str, Any], given: set[str]) -> None:
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
