"""The models, by name.

weight: W itself as one block. prompt: a vector p with logits k_t·p, the weight model with the query
1. factored: W = K Qᵀ with K (d, m) and Q (dq, m). joint-prompt, joint-weight: the prediction head
is trained as well. multi-head, split-heads: several heads, normalized together or each by itself.
qk-norm: normalized queries and keys. Models of sentences: a decoder W_ov (N, d), attention W_kq
(d, d), or both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakSet

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import shown, whole
from attsvm.errors import Unsupported
from attsvm.training.heads import Head, Linear, Relu
from attsvm.training.models.model import Factors, Layer, Model, check_model
from attsvm.training.models.multi_head import multi_head, split_heads
from attsvm.training.models.qk_norm import QK_NORM
from attsvm.training.optimizers.optimizer import Blocks


def _weight_shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {"W": (d, dq)}


def _weight_factors(params: Blocks, D: Floats, z: Floats) -> Factors:
    """W = Σ x D zᵀ."""
    return {"W": (D, z)}


WEIGHT = Model(
    "weight",
    _weight_shapes,
    lambda params: params["W"],
    lambda params, G: {"W": G},
    factors=_weight_factors,
    fused=True,
)


def _prompt_shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {"p": (d,)}


def _prompt_factors(params: Blocks, D: Floats, z: Floats) -> Factors:
    """p = Σ x D, the query being 1."""
    return {"p": (D, z)}


PROMPT = Model(
    "prompt",
    _prompt_shapes,
    lambda params: params["p"][:, :, None],
    lambda params, G: {"p": G[:, :, 0]},
    prompt=True,
    factors=_prompt_factors,
    fused=True,
)


def _factored_shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    """K (d, m) and Q (dq, m)."""
    return {"K": (d, width), "Q": (dq, width)}


def _factored_matrix(params: Blocks) -> Floats:
    """K Qᵀ."""
    return np.matmul(params["K"], params["Q"].transpose(0, 2, 1))


def _factored_chain(params: Blocks, G: Floats) -> Blocks:
    """∇_K = G Q and ∇_Q = Gᵀ K."""
    return {"K": np.matmul(G, params["Q"]), "Q": np.matmul(G.transpose(0, 2, 1), params["K"])}


def _factored_factors(params: Blocks, D: Floats, z: Floats) -> Factors:
    """∇_K = Σ x D (Qᵀz)ᵀ and ∇_Q = Σ x z (KᵀD)ᵀ."""
    return {"K": (D, np.matmul(z, params["Q"])), "Q": (z, np.matmul(D, params["K"]))}


FACTORED = Model(
    "factored",
    _factored_shapes,
    _factored_matrix,
    _factored_chain,
    factors=_factored_factors,
    start="normal:0.1",
    paired=True,
)


def _joint(model: Model) -> Model:
    """The model with a linear head v (e,) trained as well."""

    def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
        return {**model.shapes(d, dq, width, e), "v": (e,)}

    name = f"joint-{model.name}"
    return replace(model, name=name, shapes=shapes, trains_head=True, fused=False)


JOINT_PROMPT, JOINT_WEIGHT = _joint(PROMPT), _joint(WEIGHT)


# The heads that a joint model trains, each under the name of its own block.
TRAINED: dict[str, type[Linear | Relu]] = {"linear": Linear, "relu": Relu}


def with_head(model: Model, head: str) -> Model:
    """The joint model that trains this head: "linear" (block v) or "relu" (block V, d × width)."""
    if not model.trains_head:
        raise Unsupported(f"model {model.name!r} trains no prediction head: pass head=v")
    if head not in TRAINED:
        raise Unsupported(
            f"prediction head {head!r} cannot be trained: known are {', '.join(TRAINED)}"
        )
    made = TRAINED[head]
    if made is Linear:  # the model as it stands
        return model

    def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
        plain = model.shapes(d, dq, width, e)
        plain = {name: own for name, own in plain.items() if name != Linear.block}
        return {**plain, made.block: (e, width)}

    def reads(params: Blocks) -> Head:
        return made(params[made.block])

    return replace(model, shapes=shapes, reads=reads)


def with_heads(model: Model, heads: int | None) -> Model:
    """The model with so many attention heads; None: as it is."""
    if heads is None:
        return model
    if model.layer is None or model.layer.resized is None:
        raise Unsupported(f"model {model.name!r} has one attention head: leave heads out")
    return model.layer.resized(whole(heads, "heads", least=1))


@dataclass(frozen=True)
class SentenceModel:
    """Which of the matrices W_ov and W_kq is trained on sentences."""

    name: str
    blocks: tuple[str, ...]

    @property
    def attends(self) -> bool:
        """Whether attention is trained."""
        return "W_kq" in self.blocks

    @property
    def decodes(self) -> bool:
        """Whether the decoder is trained."""
        return "W_ov" in self.blocks

    def shapes(self, vocabulary: int, dimension: int) -> dict[str, tuple[int, ...]]:
        """The shape of each block, without the stack axis."""
        known = {"W_ov": (vocabulary, dimension), "W_kq": (dimension, dimension)}
        return {name: known[name] for name in self.blocks}

    def matrix(self, params: Blocks) -> Floats:
        """W_kq, or W_ov of a decoder alone."""
        return params["W_kq" if self.attends else "W_ov"]


SENTENCE_MODELS: dict[str, SentenceModel] = {
    "next-token": SentenceModel("next-token", ("W_kq",)),
    "decoder": SentenceModel("decoder", ("W_ov",)),
    "joint-next-token": SentenceModel("joint-next-token", ("W_ov", "W_kq")),
}


# Heads of a model of several heads, unless it is said how many.
HEADS = 2

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        *(PROMPT, WEIGHT, FACTORED, JOINT_PROMPT, JOINT_WEIGHT),
        *(multi_head(HEADS), split_heads(HEADS), QK_NORM),
    )
}
# Models that are known to keep the contract.
_FINE: WeakSet[Model] = WeakSet(MODELS.values())

__all__ = [
    "MODELS",
    "SENTENCE_MODELS",
    "Layer",
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
