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


def model_of(name: str) -> Model:
    """The model of this name."""
    known = MODELS | SENTENCE_MODELS
    if name not in known:
        raise Unsupported(f"unknown model {name!r}: known are {', '.join(known)}")
    return known[name]
