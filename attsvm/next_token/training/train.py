"""Training on sentences: what is learnt, the task of a run, and training in one stage or in two.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints, floats
from attsvm._utils.expected import expect, file_path, flag, function, one_of, shown, whole
from attsvm._utils.files import write_arrays
from attsvm._utils.memory import require
from attsvm._utils.progress import Progress
from attsvm._utils.result import Result, Summary
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.attention import Contexts, attention_kernel
from attsvm.next_token.infimum import entropy, finite_part, infima
from attsvm.next_token.order import orders
from attsvm.next_token.realizable import quote
from attsvm.next_token.sentences import Sentences, check_sentences, embedding_of
from attsvm.next_token.training.gradient import (
    READOUTS,
    LossAndGrad,
    attention_loss,
    attention_terms,
    decoder_loss,
    decoder_terms,
    joint_loss,
    joint_terms,
    strengths,
    with_terms,
)
from attsvm.training.config import OptimizerConfig
from attsvm.training.loop import Ahead, FastSteps, TrainingTask
from attsvm.training.models import SentenceModel, sentence_model_of
from attsvm.training.optimizers import RuleLike
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.path import PER_DECADE, Path
from attsvm.training.task import begin
from attsvm.training.train import descend

WEIGHTS = ("empirical", "uniform")
# Step sizes times √N and steps, by stage: those of the published experiment.
RATES, STEPS = (0.2, 0.05), (2000, 4000)
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

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each block."""
        return self.model.shapes(*self.E.shape)

    @cached_property
    def contexts(self) -> Contexts:
        """The sentences with the weights asked for."""
        S = self.sentences.size
        share = np.full(S, 1 / max(S, 1)) if self.uniform else None
        return Contexts.of(self.sentences, self.E, weights=share)

    @cached_property
    def V(self) -> Floats:
        """What each token adds to the output's logits, E W_ovᵀ (N, N), of the frozen decoder."""
        return self.E @ decoder_of(self.head, self.E).T

    @cached_property
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

    @cached_property
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
    look, fine = _look(objective, graded=descent.optimizer.graded)
    records = records_of(shapes) if records is None else records
    s = objective.sentences
    return TrainingTask(
        size=1,
        # A decoder's inputs are the collocations.
        inputs=s.size if objective.model.attends else int((s.follows >= 0).sum()),
        shapes=shapes,
        begin=partial(_begin, shapes),
        loss_and_grad=look,
        graded=fine,
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
    known = descent.optimizer.fused in ("gd", "ngd")
    plain = known and not (descent.decay or descent.optimizer.ridge)
    if not objective.frozen or not plain or not objective.contexts.plain:
        return None
    contexts, strength = objective.contexts, None
    if not objective.mass:
        strength = strengths(objective.V, objective.sentences.follows)
        if strength is None:
            return None
    most = max(1, int(_CALL / contexts.tokens.size))
    return FastSteps(
        attention_kernel(contexts, strength),
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


def _look(objective: SentenceObjective, *, graded: bool) -> tuple[LossAndGrad, LossAndGrad | None]:
    """Loss and gradient of what is trained, and the same with its terms where they are needed."""
    if not objective.model.attends:
        look = decoder_loss(*objective.pairs)
        return look, with_terms(look, decoder_terms(*objective.pairs)) if graded else None
    contexts = objective.contexts
    S, K = contexts.tokens.shape
    N = contexts.vocabulary
    outputs = f"a step on {S} sentences of {K} tokens over {N}"
    if objective.model.decodes:
        require(24.0 * S * K * N, outputs)
        pairs = objective.pairs if objective.collocations else None
        first = None if pairs is None else decoder_loss(*pairs)
        look = joint_loss(contexts, first)
        if not graded:
            return look, None
        require(100.0 * S * K * N, f"the terms of {S} sentences of {K} tokens over {N}")
        both = None if pairs is None or first is None else (first, decoder_terms(*pairs))
        return look, with_terms(look, joint_terms(contexts, both))
    V = None if objective.mass else objective.V
    if V is None:
        wrong = np.flatnonzero(~contexts.right.any(axis=1))
        if len(wrong):
            raise BadTokens(
                f"{quote(objective.sentences, int(wrong[0]))} has no token that its label follows: "
                "the readout mass needs one; leave such sentences out, or take the readout softmax"
            )
    elif strengths(V, objective.sentences.follows) is None:
        require(24.0 * S * K * N, outputs)
    look = attention_loss(contexts, V)
    return look, with_terms(look, attention_terms(contexts, V)) if graded else None


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


def train(
    sentences: Sentences,
    *,
    model: str = "next-token",
    head: Any = None,
    embedding: Any = "orthonormal",
    readout: str = "softmax",
    weights: str = "empirical",
    collocations: bool = False,
    start: Path | None = None,
    **how: Any,
) -> Path:
    """The Path of training on sentences: the loss of the next token, exact however far it goes.

    The arguments are those of `attsvm.train`.

    >>> from attsvm.next_token import Sentences
    >>> data = Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> train(data, readout="mass", steps=500).matrices().shape[1:]
    (1, 3, 3)
    """
    check_sentences(sentences)
    kept: dict[str, Any] = {
        "model": model,
        "readout": readout,
        "weights": weights,
        "collocations": collocations,
    }

    def task(config: OptimizerConfig, parts: dict[str, Any]) -> TrainingTask:
        before = {} if start is None else start.config
        own = {name: before.get(name, value) for name, value in kept.items()}
        objective = SentenceObjective.of(sentences, head=head, embedding=embedding, **own)
        return sentence_task(objective, config, before.get("records"))

    return descend(task, {}, start=start, **how)


@dataclass(frozen=True, eq=False, repr=False)
class SentenceRun(Result):
    """What was trained, and on what.

    objective: what was trained on; decoder: the path of W_ov, attention: that of W_kq, one path
    where both were trained at once; None for what was not trained.

    >>> from attsvm.next_token import two_stages
    >>> data = Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> run = two_stages(data, steps=(200, 300))
    >>> run.joint, run.V.shape
    (False, (3, 3))
    """

    objective: SentenceObjective
    decoder: Path | None
    attention: Path | None

    @classmethod
    def of(
        cls,
        path: Path | SentenceRun,
        data: Sentences,
        head: Any = None,
        embedding: Any = "orthonormal",
    ) -> SentenceRun:
        """The run of a path on these sentences; a run as it is, if it was on them.

        head, embedding: as they were given to `train`.
        """
        if isinstance(path, SentenceRun):
            head, embedding, path = path.objective.head, path.E, path.last
        config = expect(path, Path, "run", make="train(sentences, …) gives one").config
        form = sentence_model_of(config["model"])
        asked = {key: config[key] for key in ("model", "readout", "weights", "collocations")}
        objective = SentenceObjective.of(
            check_sentences(data), head=head, embedding=embedding, **asked
        )
        if form.attends and not form.decodes and not objective.mass:
            decoder_of(head, objective.E)  # refuses a missing one
        if config.get("data", objective.trace) != objective.trace:
            raise BadTokens(
                "the run was on other sentences, or with another embedding or decoder: give the "
                "same ones"
            )
        first = head if isinstance(head, Path) else None
        return cls(objective, path if form.decodes else first, path if form.attends else None)

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.objective.model.name

    @property
    def data(self) -> Sentences:
        """The sentences."""
        return self.objective.sentences

    @property
    def E(self) -> Floats:
        """The vectors of the tokens (N, d)."""
        return self.objective.E

    @property
    def last(self) -> Path:
        """The path of the last stage."""
        path = self.decoder if self.attention is None else self.attention
        if path is None:
            raise Unsupported("the run has no path")
        return path

    @property
    def joint(self) -> bool:
        """Whether both matrices were trained at once."""
        return self.decoder is not None and self.decoder is self.attention

    @property
    def paths(self) -> dict[str, Path]:
        """The path of each trained matrix, by its name."""
        both = {"W_kq": self.attention, "W_ov": self.decoder}
        return {name: path for name, path in both.items() if path is not None}

    @property
    def ends(self) -> dict[str, Floats]:
        """The trained matrices at the end, by name."""
        return {name: path.weights[name][-1, 0] for name, path in self.paths.items()}

    @property
    def W_ov(self) -> Floats:
        """The decoder in use, trained or frozen (N, d)."""
        if self.objective.mass:
            raise Unsupported("the readout mass has no decoder")
        return self.ends["W_ov"] if self.decoder else decoder_of(self.objective.head, self.E)

    @property
    def W_kq(self) -> Floats:
        """The trained attention (d, d)."""
        if self.attention is None:
            raise Unsupported("attention was not trained")
        return self.ends["W_kq"]

    @property
    def V(self) -> Floats:
        """What each token adds to the output's logits, E W_ovᵀ (N, N), by the decoder in use."""
        return self.E @ self.W_ov.T

    def save(self, path: str | FilePath, *, force: bool = False) -> None:
        """Write the run as one .npz file: the path of the last stage, which `Path.load` reads, and
        E; after two stages also the arrays of the decoder as decoder.NAME, and its end W_ov."""
        arrays: dict[str, Any] = {"E": self.E} | self.last.arrays()
        if self.decoder is not None and self.decoder is not self.last:
            arrays |= {f"decoder.{key}": array for key, array in self.decoder.arrays().items()}
            arrays["W_ov"] = self.ends["W_ov"]
        write_arrays(file_path(path, "path"), arrays, force=force)

    def _card(self) -> Summary:
        facts = {
            name: "not trained" if path is None else repr(path)
            for name, path in (("decoder", self.decoder), ("attention", self.attention))
        }
        facts["readout, weights"] = f"{self.objective.readout}, {self.objective.weights}"
        return Summary("SentenceRun", f"{self.model} on {self.data!r}", facts)


def two_stages(
    sentences: Sentences,
    *,
    optimizer: RuleLike = "ngd",
    lr: tuple[float | None, float | None] = (None, None),
    steps: tuple[int, int] = STEPS,
    weights: tuple[str, str] = ("empirical", "empirical"),
    embedding: Any = "orthonormal",
    progress: Progress | None = None,
    **options: Any,
) -> SentenceRun:
    """Both stages, from zero: W_ov on the collocations, then W_kq on the sentences over it.

    lr: the step size of each stage, 0.2/√N and 0.05/√N unless given. options: what else `train`
    takes.

    >>> import attsvm
    >>> data = attsvm.Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> run = attsvm.two_stages(data, steps=(200, 300))
    >>> int(run.attention.steps[-1]), run.W_ov.shape, run.W_kq.shape
    (300, (3, 3), (3, 3))
    """
    check_sentences(sentences)
    progress = function(progress, "progress")
    for name, pair in (("lr", lr), ("steps", steps), ("weights", weights)):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise Unsupported(f"{name} is {shown(pair)}: give two, one for each stage")
    for k in steps:
        whole(k, "steps", least=0)
    root = np.sqrt(sentences.vocabulary)
    E = embedding_of(sentences.vocabulary, embedding)
    share = steps[0] / max(sum(steps), 1)
    paths: list[Path] = []
    for k, model in enumerate(("decoder", "next-token")):
        rate = lr[k]
        path = train(
            sentences,
            model=model,
            optimizer=optimizer,
            lr=RATES[k] / root if rate is None else rate,
            steps=steps[k],
            weights=weights[k],
            embedding=E,
            head=paths[0] if paths else None,
            progress=_part(progress, *((0.0, share), (share, 1.0))[k]),
            **options,
        )
        paths.append(path)
    return SentenceRun.of(paths[1], sentences, paths[0], E)


def _part(progress: Progress | None, start: float, end: float) -> Progress | None:
    """Progress over one part of the whole."""
    if progress is None:
        return None
    whole = progress
    return lambda done: whole(start + (end - start) * done)
