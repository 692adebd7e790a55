"""The task of training on Sentences: a decoder, attention, or both at once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints, floats
from attsvm._utils.expected import flag, one_of
from attsvm._utils.memory import require
from attsvm._utils.objects import lazy
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.attention import AttentionKernel, Contexts
from attsvm.next_token.infimum import entropy, finite_part, infima
from attsvm.next_token.order import orders
from attsvm.next_token.realizable import quote
from attsvm.next_token.sentences import Sentences, embedding_of
from attsvm.next_token.training.graded import (
    Terms,
    attention_terms,
    decoder_terms,
    joint_terms,
    with_terms,
)
from attsvm.next_token.training.gradient import (
    READOUTS,
    LossAndGrad,
    attention_loss,
    decoder_loss,
    joint_loss,
    strengths,
)
from attsvm.training.config import OptimizerConfig
from attsvm.training.loop import Ahead, FastSteps, TrainingTask
from attsvm.training.models import SentenceModel, sentence_model_of
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.path import PER_DECADE, Path
from attsvm.training.task import begin

WEIGHTS = ("empirical", "uniform")
# Numbers that the records of a run may hold before they are thinned: half a gigabyte.
_KEPT = 1 << 26
# Tokens looked at in one call of the kernel: well below a second.
_CALL = 1e7


@dataclass(frozen=True, eq=False)
class SentenceObjective:
    """What is learnt: the sentences, their vectors E (N, d), and how attention is read.

    head: the frozen decoder W_ov (N, d), or the path that trained it. readout: "softmax" of the
    decoder's output, or "mass", the attention on tokens that the label follows. weights: of the
    sentences, "empirical" or "uniform". collocations: the decoder's loss is added to that of both.
    """

    sentences: Sentences
    E: Floats
    model: SentenceModel
    head: Any = None
    readout: str = "softmax"
    weights: str = "empirical"
    collocations: bool = False

    @classmethod
    def of(
        cls,
        sentences: Sentences,
        model: str,
        *,
        head: Any = None,
        embedding: Any = "orthonormal",
        readout: str = "softmax",
        weights: str = "empirical",
        collocations: bool = False,
    ) -> SentenceObjective:
        """The objective of these arguments of `train`; raises Unsupported where they do not fit."""
        form = sentence_model_of(model)
        for key, value, known in (("readout", readout, READOUTS), ("weights", weights, WEIGHTS)):
            one_of(value, known, key)
        if not form.attends and head is not None:
            raise Unsupported(f"model {model} trains the decoder: leave head out")
        both = form.attends and form.decodes
        collocations = flag(collocations, "collocations")
        if collocations and not both:
            raise Unsupported(f"collocations is for joint-next-token, not {model}: leave it out")
        if both and head is not None:
            raise Unsupported(f"{model} trains its own decoder: leave head out")
        if both and readout != "softmax":
            raise Unsupported("the readout mass has no decoder to train: take model next-token")
        if form.attends and readout == "mass" and head is not None:
            raise Unsupported("the readout mass has no decoder: leave head out")
        E = embedding_of(sentences.vocabulary, embedding)
        return cls(sentences, E, form, head, readout, weights, collocations)

    @property
    def uniform(self) -> bool:
        """Whether all sentences weigh the same."""
        return self.weights == "uniform"

    @property
    def mass(self) -> bool:
        """Whether attention is read by its mass, without a decoder."""
        return self.readout == "mass"

    @property
    def frozen(self) -> bool:
        """Whether attention alone is trained."""
        return not self.model.decodes

    @lazy
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each block."""
        return self.model.shapes(*self.E.shape)

    @lazy
    def contexts(self) -> Contexts:
        """The sentences with the weights asked for."""
        S = self.sentences.size
        share = np.full(S, 1 / max(S, 1)) if self.uniform else None
        return Contexts.of(self.sentences, self.E, weights=share)

    @lazy
    def V(self) -> Floats:
        """What each token adds to the output's logits, E W_ovᵀ (N, N), of the frozen decoder."""
        return self.E @ decoder_of(self.head, self.E).T

    @lazy
    def pairs(self) -> tuple[Floats, Ints, Ints, Floats]:
        """What `decoder_loss` takes: E, tokens (C,), their followers (C,), weights (C,)."""
        sentences = self.sentences
        tokens = np.flatnonzero(sentences.follows >= 0)
        if not len(tokens):
            raise BadTokens(
                "there are no collocations to train a decoder on: add two-token lines, or give "
                'collocations ("bigrams", "copy" or pairs)'
            )
        seen = np.maximum(sentences.follow_counts[tokens], 1).astype(np.float64)
        weights = np.full(len(tokens), 1 / len(tokens)) if self.uniform else seen / seen.sum()
        return self.E, tokens, sentences.follows[tokens], weights

    @lazy
    def trace(self) -> str:
        """Twelve hex digits that change with the sentences, their vectors or the frozen decoder."""
        s = self.sentences
        parts = [s.words, s.labels, s.counts, s.follows, s.follow_counts, self.E]
        if self.head is not None:
            parts.append(decoder_of(self.head, self.E))
        found = hashlib.sha256()
        for part in parts:
            found.update(str(part.shape).encode())
            found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()[:12]


def sentence_task(
    objective: SentenceObjective, descent: OptimizerConfig, records: int | None = None
) -> TrainingTask:
    """The task of a run on sentences; records: per decade of steps, those of the earlier run."""
    N, d = objective.E.shape
    shapes = objective.shapes
    # The first ten steps are always kept, and a step takes a few arrays of that size.
    size = sum(int(np.prod(shape)) for shape in shapes.values())
    require(8.0 * size * (16 + 5 * records_of(shapes)), f"the run of {N} tokens in {d} dimensions")
    look = _look(objective)
    records = records_of(shapes) if records is None else records
    s = objective.sentences
    return TrainingTask(
        size=1,
        # A decoder's inputs are the collocations.
        inputs=s.size if objective.model.attends else int((s.follows >= 0).sum()),
        shapes=shapes,
        begin=partial(_begin, shapes),
        loss_and_grad=look,
        graded=with_terms(look, _terms(objective)) if descent.optimizer.graded else None,
        infimum=lambda: np.array([_infimum(objective, descent.optimizer.name)]),
        ahead=_ahead(objective, descent, records),
        facts={
            "model": objective.model.name,
            "readout": objective.readout,
            "weights": objective.weights,
            "collocations": objective.collocations,
            "loss": "logistic",
            "head": None,
            "width": None,
            "records": records,
            "places": int(s.distinct[0].shape[1]),
        },
        trace=objective.trace,
    )


def _begin(shapes: dict[str, tuple[int, ...]], init: str | dict[str, Any], seed: int) -> Blocks:
    """The first parameters: zero unless asked otherwise."""
    return begin(shapes, 1, "zero" if init == "default" else init, seed=seed)


def _ahead(objective: SentenceObjective, descent: OptimizerConfig, records: int) -> Ahead | None:
    """The kernel for plain or normalized descent of attention on orthonormal tokens, or None."""
    plain = descent.optimizer.fused is not None and not (descent.decay or descent.optimizer.ridge)
    if not objective.frozen or not plain or not objective.contexts.plain:
        return None
    contexts, strength = objective.contexts, None
    if not objective.mass:
        strength = strengths(objective.V, objective.sentences.follows)
        if strength is None:
            return None
    kernel = AttentionKernel(contexts, strength).descend
    most = max(1, int(_CALL / contexts.tokens.size))
    return FastSteps(
        kernel,
        most,
        objective.sentences.size,
        lr=descent.lr,
        normalized=descent.optimizer.fused == "ngd",
        records=records,
    )


def _infimum(objective: SentenceObjective, optimizer: str) -> float:
    """The infimum of the loss of attention over a frozen decoder, or of the readout mass.

    Of both matrices together: the entropy of the labels, which no model is below. optimizer: for
    the error.
    """
    if not objective.model.attends:
        return 0.0
    sentences = objective.sentences
    if objective.uniform:
        sentences = replace(sentences, counts=np.ones_like(sentences.counts))
    if not objective.frozen:
        return entropy(sentences)
    if objective.mass:
        return finite_part(sentences, orders(sentences)).infimum
    contexts = Contexts.of(sentences, objective.E)
    several = np.flatnonzero(contexts.right.sum(axis=1) != 1)
    if len(several):
        raise BadTokens(
            f"{quote(sentences, int(several[0]))} does not have exactly one token that its label "
            f"follows: optimizer {optimizer} needs the infimum of the loss, which is unknown there"
        )
    loss, least = infima(contexts, objective.V)
    if not least.all():
        s = int(np.flatnonzero(~least)[0])
        raise Unsupported(
            f"optimizer {optimizer} needs the infimum of the loss, which is not known in "
            f"{sentences.where(s)}: this decoder is better off its optimal token"
        )
    return float(contexts.weights @ loss)


def _look(objective: SentenceObjective) -> LossAndGrad:
    """Loss and gradient of what is trained."""
    if not objective.model.attends:
        return decoder_loss(*objective.pairs)
    contexts = objective.contexts
    if objective.model.decodes:
        _require_outputs(contexts)
        return joint_loss(
            contexts, decoder_loss(*objective.pairs) if objective.collocations else None
        )
    if objective.mass:
        wrong = np.flatnonzero(~contexts.right.any(axis=1))
        if len(wrong):
            raise BadTokens(
                f"{quote(objective.sentences, int(wrong[0]))} has no token that its label follows: "
                "the readout mass needs one; leave such sentences out, or take the readout softmax"
            )
        return attention_loss(contexts, None)
    if strengths(objective.V, objective.sentences.follows) is None:
        _require_outputs(contexts)
    return attention_loss(contexts, objective.V)


def _require_outputs(contexts: Contexts) -> None:
    """Raises TooLarge unless the outputs of all tokens (S, K, N) fit in memory three times."""
    S, K = contexts.tokens.shape
    need = 24.0 * S * K * contexts.vocabulary
    require(need, f"a step on {S} sentences of {K} tokens over {contexts.vocabulary}")


def _terms(objective: SentenceObjective) -> Terms:
    """The graded form of what `_look` looks at, which has seen that all is well."""
    if not objective.model.attends:
        return decoder_terms(*objective.pairs)
    contexts = objective.contexts
    if objective.frozen:
        return attention_terms(
            contexts, None if objective.mass else np.ascontiguousarray(objective.V)
        )
    S, K = contexts.tokens.shape
    N = contexts.vocabulary
    require(100.0 * S * K * N, f"the terms of {S} sentences of {K} tokens over {N}")
    if not objective.collocations:
        return joint_terms(contexts, None)
    return joint_terms(contexts, (decoder_loss(*objective.pairs), decoder_terms(*objective.pairs)))


def decoder_of(head: Any, E: Floats) -> Floats:
    """The frozen decoder W_ov (N, d): an array, or the end of the path that trained it."""
    if head is None:
        raise BadTokens(
            "model next-token needs a decoder: give head=W_ov or the path that trained it, or run "
            "attsvm.two_stages"
        )
    if isinstance(head, Path):
        if "W_ov" not in head.weights:
            raise BadTokens(f"the path of model {head.config['model']!r} holds no W_ov")
        head = head.weights["W_ov"][-1, 0]
    W = floats(head, "W_ov").astype(np.float64)
    if W.shape != E.shape:
        raise BadTokens(f"W_ov has shape {W.shape}; it must be {E.shape}: vocabulary × dimension")
    if not np.isfinite(W).all():
        raise BadTokens("W_ov holds a number that is not finite")
    return W


def records_of(shapes: dict[str, tuple[int, ...]]) -> int:
    """Records per decade: as many as half a gigabyte holds of five decades, at least two."""
    size = sum(int(np.prod(shape)) for shape in shapes.values())
    return int(np.clip(_KEPT // (5 * size), 2, PER_DECADE))
