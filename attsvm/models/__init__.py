"""The models, by name."""

from __future__ import annotations

from attsvm.errors import Unsupported
from attsvm.models import factored, joint, prompt, weight
from attsvm.models.model import Model
from attsvm.models.next_token import SENTENCE_MODELS

MODELS: dict[str, Model] = {
    "prompt": prompt.MODEL,
    "weight": weight.MODEL,
    "factored": factored.MODEL,
    "joint-prompt": joint.PROMPT,
    "joint-weight": joint.WEIGHT,
}

# Modules of this folder that are not models of tokens themselves. Those of sentences, which see
# token numbers and have their own contract, are in SENTENCE_MODELS.
SUPPORT = (
    "attention",
    "batch",
    "choices",
    "choices_twin",
    "contexts",
    "fused",
    "model",
    "next_token",
    "one_input",
    "one_look",
    "sentence_descent",
    "sentence_graded",
    "sentence_terms",
    "sentence_terms_twin",
    "sums",
    "terms",
    "twin",
)


def model_of(name: str) -> Model:
    """The model of this name."""
    known = MODELS | SENTENCE_MODELS
    if name not in known:
        raise Unsupported(f"unknown model {name!r}: known are {', '.join(known)}")
    return known[name]
