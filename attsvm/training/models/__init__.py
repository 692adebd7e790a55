"""The models, by name."""

from __future__ import annotations

from weakref import WeakSet

from attsvm._utils.expected import shown
from attsvm.errors import Unsupported
from attsvm.training.models.factored import MODEL as FACTORED
from attsvm.training.models.joint import JOINT_PROMPT, JOINT_WEIGHT
from attsvm.training.models.model import Model, check_model
from attsvm.training.models.next_token import SENTENCE_MODELS, SentenceModel
from attsvm.training.models.weight import PROMPT, WEIGHT

MODELS: dict[str, Model] = {
    model.name: model for model in (PROMPT, WEIGHT, FACTORED, JOINT_PROMPT, JOINT_WEIGHT)
}
# Models that are known to keep the contract.
_FINE: WeakSet[Model] = WeakSet(MODELS.values())

__all__ = [
    "MODELS",
    "SENTENCE_MODELS",
    "Model",
    "SentenceModel",
    "check_model",
    "model_of",
    "sentence_model_of",
]


def model_of(model: str | Model) -> Model:
    """The model of this name; a custom Model is checked once and returned."""
    if isinstance(model, Model):
        if model not in _FINE:
            check_model(model)
            _FINE.add(model)
        return model
    if not isinstance(model, str):
        raise Unsupported(f"a model is given by name, or as a Model; this is {shown(model)}")
    if model in SENTENCE_MODELS:
        raise Unsupported(f"model {model!r} trains on Sentences, not on Tokens")
    if model not in MODELS:
        raise Unsupported(f"unknown model {shown(model)}: known are {', '.join(MODELS)}")
    return MODELS[model]


def sentence_model_of(model: str) -> SentenceModel:
    """The model of sentences of this name."""
    if not isinstance(model, str | Model):
        raise Unsupported(f"a model of sentences is given by name; this is {shown(model)}")
    if model not in SENTENCE_MODELS:
        name = model.name if isinstance(model, Model) else model
        raise Unsupported(
            f"model {shown(name)} trains on Tokens: "
            f"known for sentences are {', '.join(SENTENCE_MODELS)}"
        )
    return SENTENCE_MODELS[model]
