"""train(): gradient training of a decoder, of attention, or of both, on Sentences."""

from __future__ import annotations

from typing import Any

from attsvm.next_token.sentences import Sentences, checked_sentences
from attsvm.next_token.training.task import Lesson, sentence_task
from attsvm.training.config import OptimizerConfig
from attsvm.training.loop import TrainingTask
from attsvm.training.path import Path
from attsvm.training.train import descend


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
    checked_sentences(sentences)
    kept: dict[str, Any] = {
        "model": model,
        "readout": readout,
        "weights": weights,
        "collocations": collocations,
    }

    def task(config: OptimizerConfig, parts: dict[str, Any]) -> TrainingTask:
        before = {} if start is None else start.config
        own = {name: before.get(name, value) for name, value in kept.items()}
        lesson = Lesson.of(sentences, head=head, embedding=embedding, **own)
        return sentence_task(lesson, config, before.get("records"))

    return descend(task, {}, start=start, **how)
