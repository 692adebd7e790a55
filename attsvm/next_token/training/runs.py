"""SentenceRun: what was trained on sentences, and on what, from a path or from both stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import expect
from attsvm._utils.result import Result, Summary
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.contexts import Contexts
from attsvm.next_token.embedding import embedding_of
from attsvm.next_token.sentences import Sentences, checked_sentences
from attsvm.next_token.training.stages import Stages
from attsvm.next_token.training.task import Lesson, decoder_of
from attsvm.training.models import sentence_model_of
from attsvm.training.path import Path


@dataclass(frozen=True, eq=False, repr=False)
class SentenceRun(Result):
    """What was trained, and on what.

    decoder: the path of W_ov, attention: that of W_kq, one path where both were trained at once;
    None for what was not trained. frozen: the decoder W_ov (N, d) under a run of attention alone.

    >>> from attsvm.next_token import two_stages
    >>> data = Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> run = SentenceRun.of(two_stages(data, steps=(200, 300)), data)
    >>> run.joint, run.V.shape
    (False, (3, 3))
    """

    data: Sentences
    E: Floats
    model: str
    decoder: Path | None
    attention: Path | None
    uniform: bool = False
    mass: bool = False
    frozen: Floats | None = None

    @classmethod
    def of(
        cls, path: Path | Stages, data: Sentences, head: Any = None, embedding: Any = "orthonormal"
    ) -> SentenceRun:
        """The run of a path, or of both stages, on these sentences.

        head, embedding: as they were given to `train`.
        """
        if isinstance(path, Stages):
            head, embedding, path = path.decoder, path.E, path.attention
        config = expect(path, Path, "path", make="train(sentences, …) gives one").config
        checked_sentences(data)
        form = sentence_model_of(config["model"])
        asked = {key: config[key] for key in ("model", "readout", "weights", "collocations")}
        E = embedding_of(data.vocabulary, embedding)
        lesson = Lesson.of(data, head=head, embedding=E, **asked)
        alone = form.attends and not form.decodes and not lesson.mass
        frozen = decoder_of(head, E) if alone else None
        if config.get("data", lesson.trace) != lesson.trace:
            raise BadTokens(
                "the run was on other sentences, or with another embedding or decoder: give the "
                "same ones"
            )
        decoder = path if form.decodes else head if isinstance(head, Path) else None
        return cls(
            data,
            E,
            form.name,
            decoder,
            path if form.attends else None,
            lesson.uniform,
            lesson.mass,
            frozen,
        )

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
    def contexts(self) -> Contexts:
        """The arrays of the sentences, with the weights of the run."""
        share = np.full(self.data.size, 1 / max(self.data.size, 1)) if self.uniform else None
        return Contexts.of(self.data, self.E, weights=share)

    @property
    def ends(self) -> dict[str, Floats]:
        """The trained matrices at the end, by name."""
        out = {}
        if self.attention is not None:
            out["W_kq"] = self.attention.weights["W_kq"][-1, 0]
        if self.decoder is not None:
            out["W_ov"] = self.decoder.weights["W_ov"][-1, 0]
        return out

    @property
    def V(self) -> Floats:
        """What each token adds to the output's logits, E W_ovᵀ (N, N), by the decoder in use."""
        W_ov = self.ends.get("W_ov", self.frozen)
        if W_ov is None:
            raise Unsupported("the readout mass has no decoder")
        return self.E @ W_ov.T

    def _card(self) -> Summary:
        facts = {
            name: "not trained" if path is None else repr(path)
            for name, path in (("decoder", self.decoder), ("attention", self.attention))
        }
        readout = "mass" if self.mass else "softmax"
        weights = "uniform" if self.uniform else "empirical"
        facts["readout, weights"] = f"{readout}, {weights}"
        return Summary("SentenceRun", f"{self.model} on {self.data!r}", facts)
