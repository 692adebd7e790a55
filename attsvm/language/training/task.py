"""The task of training on Sentences: a decoder, attention, or both at once."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attsvm.errors import BadTokens, Unsupported
from attsvm.ground.arrays import Floats, Ints, floats
from attsvm.ground.memory import require
from attsvm.language.contexts import Contexts
from attsvm.language.embedding import embedding_of
from attsvm.language.finite import entropy, finite_part
from attsvm.language.floor import floors
from attsvm.language.order import orders
from attsvm.language.realizable import quoted
from attsvm.language.sentences import Sentences
from attsvm.language.training.descent import Descent
from attsvm.language.training.graded import (
    Terms,
    attention_terms,
    decoder_terms,
    graded_look,
    joint_terms,
)
from attsvm.language.training.next_token import (
    READOUTS,
    Look,
    attention_look,
    decoder_look,
    joint_look,
    lifts_of,
    strengths,
)
from attsvm.models.next_token import SENTENCE_MODELS
from attsvm.rules import rule_of
from attsvm.rules.rule import Blocks
from attsvm.training.ahead import go_ahead
from attsvm.training.loop import Ahead, Task
from attsvm.training.path import PER_DECADE, Path
from attsvm.training.start import begin

WEIGHTS = ("empirical", "uniform")
# Numbers that the records of a run may hold before they are thinned: half a gigabyte.
_KEPT = 1 << 26
# Tokens looked at in one call of the kernel: well below a second.
_CALL = 1e7


def sentence_task(
    sentences: Sentences, config: dict[str, Any], *, head: Any, embedding: Any
) -> tuple[Task, dict[str, tuple[int, ...]]]:
    """(the task, the shape of each block) of a run on sentences.

    head: the frozen decoder W_ov (N, d), or the path that trained it; embedding: as in
    `embedding_of`. config has model, readout and weights.
    """
    if config["model"] not in SENTENCE_MODELS:
        raise Unsupported(
            f"model {config['model']!r} trains on Tokens: known for sentences are "
            f"{', '.join(SENTENCE_MODELS)}"
        )
    for key, known in (("readout", READOUTS), ("weights", WEIGHTS)):
        if config[key] not in known:
            raise Unsupported(f"unknown {key} {config[key]!r}: known are {', '.join(known)}")
    _check_fit(config, head)
    E = embedding_of(sentences.vocabulary, embedding)
    N, d = E.shape
    model = SENTENCE_MODELS[config["model"]]
    shapes = model.shapes(d, d, d, N)
    # The first ten steps are always kept, and a step takes a few arrays of that size.
    size = sum(int(np.prod(shape)) for shape in shapes.values())
    require(8.0 * size * (16 + 5 * records_of(shapes)), f"the run of {N} tokens in {d} dimensions")
    look = _look(sentences, config, E, head)
    graded = None
    if rule_of(config["rule"], **config.get("options", {})).graded:
        graded = graded_look(look, _terms(sentences, config, E, head))
    least = _floor(sentences, config, E, head) if config["rule"] == "polyak" else 0.0
    ahead = _ahead(sentences, config, E, head)
    # A decoder's inputs are the collocations.
    inputs = int((sentences.follows >= 0).sum()) if model.name == "decoder" else sentences.size
    return Task(1, look, np.array([least]), ahead, inputs, graded), shapes


def _check_fit(config: dict[str, Any], head: Any) -> None:
    """Nothing; an error for what these models would not look at."""
    name = config["model"]
    if config["loss"] != "logistic" or config["width"] is not None:
        raise Unsupported(f"model {name} has a loss and a width of its own: leave them out")
    if name == "decoder" and head is not None:
        raise Unsupported("model decoder trains the decoder: leave head out")
    if config.get("collocations") and name != "joint-next-token":
        raise Unsupported(f"collocations is for joint-next-token, not {name}: leave it out")


def trace_of(sentences: Sentences, E: Any, head: Any) -> str:
    """Twelve hex digits that change with the sentences, their embedding or the frozen decoder."""
    E = embedding_of(sentences.vocabulary, E)
    parts = [sentences.words, sentences.labels, sentences.counts, sentences.follows,
             sentences.follow_counts, E]  # fmt: skip
    if head is not None:
        parts.append(decoder_of(head, E))
    found = hashlib.sha256()
    for part in parts:
        found.update(str(part.shape).encode())
        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()[:12]


def _contexts(sentences: Sentences, config: dict[str, Any], E: Floats) -> Contexts:
    """The sentences with the weights asked for."""
    uniform = config["weights"] == "uniform"
    share = np.full(sentences.size, 1 / max(sentences.size, 1)) if uniform else None
    return Contexts.of(sentences, E, weights=share)


def _ahead(sentences: Sentences, config: dict[str, Any], E: Floats, head: Any) -> Ahead | None:
    """The kernel for plain or normalized descent of attention on orthonormal tokens, or None."""
    plain = config["rule"] in ("gd", "ngd") and not config["decay"] and not config.get("options")
    if config["model"] != "next-token" or not plain:
        return None
    contexts = _contexts(sentences, config, E)
    if not contexts.plain:
        return None
    lifts = None
    if config["readout"] == "softmax":
        strength = strengths(E @ decoder_of(head, E).T, sentences.follows)
        if strength is None:
            return None
        lifts = lifts_of(contexts, strength)
    kernel = Descent(contexts, lifts).descend
    most = max(1, int(_CALL / contexts.tokens.size))
    return partial(go_ahead, kernel, most, sentences.size, config)


def _floor(sentences: Sentences, config: dict[str, Any], E: Floats, head: Any) -> float:
    """The infimum of the loss of attention over a frozen decoder, or of the readout mass.

    Of both matrices together: the entropy of the labels, which no model is below.
    """
    if config["model"] == "decoder":
        return 0.0
    if config["weights"] == "uniform":
        sentences = replace(sentences, counts=np.ones_like(sentences.counts))
    if config["model"] != "next-token":
        return entropy(sentences)
    if config["readout"] == "mass":
        return finite_part(sentences, orders(sentences)).floor
    contexts = Contexts.of(sentences, E)
    several = np.flatnonzero(contexts.right.sum(axis=1) != 1)
    if len(several):
        raise BadTokens(
            f"{quoted(sentences, int(several[0]))} does not have exactly one token that its label "
            "follows: rule polyak needs the infimum of the loss, which is not known there"
        )
    loss, least = floors(contexts, E @ decoder_of(head, E).T)
    if not least.all():
        s = int(np.flatnonzero(~least)[0])
        raise Unsupported(
            f"rule polyak needs the infimum of the loss, which is not known in "
            f"{sentences.where(s)}: this decoder is better off its optimal token"
        )
    return float(contexts.weights @ loss)


def _look(sentences: Sentences, config: dict[str, Any], E: Floats, head: Any) -> Look:
    name, uniform = config["model"], config["weights"] == "uniform"
    if name == "decoder":
        return _first(sentences, E, uniform=uniform)
    contexts = _contexts(sentences, config, E)
    if name == "joint-next-token":
        if head is not None:
            raise Unsupported("joint-next-token trains its own decoder: leave head out")
        both = config["readout"] == "softmax" and bool(config.get("collocations"))
        if config["readout"] != "softmax":
            raise Unsupported("the readout mass has no decoder to train: take model next-token")
        _require_outputs(contexts)
        return joint_look(contexts, _first(sentences, E, uniform=uniform) if both else None)
    if config["readout"] == "mass":
        if head is not None:
            raise Unsupported("the readout mass has no decoder: leave head out")
        wrong = np.flatnonzero(~contexts.right.any(axis=1))
        if len(wrong):
            raise BadTokens(
                f"{quoted(sentences, int(wrong[0]))} has no token that its label follows: the "
                "readout mass needs one; leave such sentences out, or take the readout softmax"
            )
        return attention_look(contexts, None)
    V = E @ decoder_of(head, E).T
    if strengths(V, sentences.follows) is None:
        _require_outputs(contexts)
    return attention_look(contexts, V)


def _require_outputs(contexts: Contexts) -> None:
    """Nothing; an error when the outputs of all tokens (S, K, N), three times, do not fit."""
    S, K = contexts.tokens.shape
    need = 24.0 * S * K * contexts.vocabulary
    require(need, f"a step on {S} sentences of {K} tokens over {contexts.vocabulary}")


def _terms(sentences: Sentences, config: dict[str, Any], E: Floats, head: Any) -> Terms:
    """The graded form of what `_look` looks at, which has seen that all is well."""
    uniform = config["weights"] == "uniform"
    if config["model"] == "decoder":
        return decoder_terms(*_collocations(sentences, E, uniform=uniform))
    contexts = _contexts(sentences, config, E)
    if config["model"] == "next-token":
        mass = config["readout"] == "mass"
        V = None if mass else np.ascontiguousarray(E @ decoder_of(head, E).T)
        return attention_terms(contexts, V)
    S, K = contexts.tokens.shape
    N = contexts.vocabulary
    require(100.0 * S * K * N, f"the terms of {S} sentences of {K} tokens over {N}")
    if not config.get("collocations"):
        return joint_terms(contexts, None)
    given = _collocations(sentences, E, uniform=uniform)
    return joint_terms(contexts, (decoder_look(*given), decoder_terms(*given)))


def _first(sentences: Sentences, E: Floats, *, uniform: bool) -> Look:
    """The first stage on the collocations of these sentences."""
    return decoder_look(*_collocations(sentences, E, uniform=uniform))


def _collocations(
    sentences: Sentences, E: Floats, *, uniform: bool
) -> tuple[Floats, Ints, Ints, Floats]:
    """What `decoder_look` takes: E, tokens (C,), their followers (C,), weights (C,)."""
    tokens = np.flatnonzero(sentences.follows >= 0)
    if not len(tokens):
        raise BadTokens(
            "there are no collocations to train a decoder on: add two-token lines, or give "
            'collocations ("bigrams", "copy" or pairs)'
        )
    seen = np.maximum(sentences.follow_counts[tokens], 1).astype(np.float64)
    weights = np.full(len(tokens), 1 / len(tokens)) if uniform else seen / seen.sum()
    return E, tokens, sentences.follows[tokens], weights


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


def first_blocks(
    shapes: dict[str, tuple[int, ...]], init: str | dict[str, Any], seed: int
) -> Blocks:
    """The first parameters: zero unless asked otherwise."""
    return begin(shapes, 1, "zero" if init == "default" else init, seed=seed)


def records_of(shapes: dict[str, tuple[int, ...]]) -> int:
    """Records a decade: as many as half a gigabyte holds of five decades, at least two."""
    size = sum(int(np.prod(shape)) for shape in shapes.values())
    return int(np.clip(_KEPT // (5 * size), 2, PER_DECADE))
