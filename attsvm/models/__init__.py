"""The models, by name."""

from __future__ import annotations

from attsvm.errors import Unsupported
from attsvm.models import factored, joint, prompt, weight
from attsvm.models.model import Model

MODELS: dict[str, Model] = {
    "prompt": prompt.MODEL,
    "weight": weight.MODEL,
    "factored": factored.MODEL,
    "joint-prompt": joint.PROMPT,
    "joint-weight": joint.WEIGHT,
}

# Modules of this folder that are not models themselves.
SUPPORT = ("attention", "batch", "fused", "model", "one_input", "one_look", "sums", "twin")


def model_of(name: str) -> Model:
    """The model of this name."""
    if name not in MODELS:
        raise Unsupported(f"unknown model {name!r}: known are {', '.join(MODELS)}")
    return MODELS[name]
