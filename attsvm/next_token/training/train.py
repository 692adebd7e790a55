"""train(): gradient training of a decoder, of attention, or of both, on Sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attsvm._utils.expected import function, whole
from attsvm._utils.progress import Progress
from attsvm.next_token.sentences import Sentences, checked_sentences
from attsvm.next_token.training.task import Lesson, sentence_task
from attsvm.training.config import OptimizerConfig, chosen
from attsvm.training.loop import Stop, run
from attsvm.training.optimizers import RuleLike
from attsvm.training.path import Path
from attsvm.training.train import ending


def train(
    sentences: Sentences,
    *,
    model: str = "next-token",
    optimizer: RuleLike = "ngd",
    head: Any = None,
    lr: float = 0.1,
    steps: int = 1000,
    seed: int = 0,
    init: str | dict[str, Any] = "default",
    schedule: str | Callable[[int], float] = "constant",
    decay: float = 0.0,
    options: dict[str, Any] | None = None,
    embedding: Any = "orthonormal",
    readout: str = "softmax",
    weights: str = "empirical",
    collocations: bool = False,
    start: Path | None = None,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> Path:
    """The Path of training on sentences: the loss of the next token, exact however far it goes.

    model: "next-token", attention W_kq over a frozen decoder (head: W_ov, or the path that trained
    it); "decoder", W_ov on the collocations; "joint-next-token", both. embedding: as in
    `embedding_of`. readout: "softmax" of the decoder's output, or "mass", the attention on tokens
    that the label follows. weights: "empirical" or "uniform". collocations: add the decoder's loss
    to the joint one's. The other arguments are those of `attsvm.train`.

    >>> from attsvm.next_token import Sentences
    >>> data = Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> train(data, readout="mass", steps=500).matrices().shape[1:]
    (1, 3, 3)
    """
    checked_sentences(sentences)
    steps = whole(steps, "steps", least=0)
    stop, progress = function(stop, "stop"), function(progress, "progress")
    parts = chosen({"optimizer": optimizer}, start)
    asked: dict[str, Any] = {
        "model": model,
        "readout": readout,
        "weights": weights,
        "collocations": collocations,
    }
    if start is None:
        descent = OptimizerConfig.asked(
            parts["optimizer"],
            lr=lr,
            schedule=schedule,
            decay=decay,
            options=options,
            seed=seed,
            init=init,
        )
    else:
        descent = OptimizerConfig.again(start.config, parts["optimizer"], schedule)
        asked |= {name: start.config[name] for name in asked if name in start.config}
    lesson = Lesson.of(sentences, head=head, embedding=embedding, **asked)
    task = sentence_task(lesson, descent, None if start is None else start.config.get("records"))
    first = task.begin(init, descent.seed) if start is None else ending(start, task)
    return run(task, descent, first, steps, start=start, stop=stop, progress=progress)
