"""Training on sentences: a decoder, attention, or both at once, in one stage or in two.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import function, shown, whole
from attsvm._utils.progress import Progress
from attsvm._utils.result import Summary, Table, draw
from attsvm.errors import Unsupported
from attsvm.next_token.sentences import Sentences, check_sentences, embedding_of
from attsvm.next_token.training.task import SentenceObjective, sentence_task
from attsvm.training.config import OptimizerConfig
from attsvm.training.loop import TrainingTask
from attsvm.training.optimizers import RuleLike
from attsvm.training.path import Path
from attsvm.training.train import descend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
class Stages(Table):
    """The two runs: `decoder` the path of W_ov, `attention` that of W_kq over its end; E (N, d).

    >>> data = Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> run = two_stages(data, steps=(200, 300))
    >>> run.W_ov.shape, run.W_kq.shape, [int(x) for x in run.V.argmax(axis=1)]
    ((3, 3), (3, 3), [1, 2, 0])
    """

    sentences: Sentences
    E: Floats
    decoder: Path
    attention: Path

    @property
    def W_ov(self) -> Floats:
        """The decoder at the end (N, d)."""
        return self.decoder.weights["W_ov"][-1, 0]

    @property
    def W_kq(self) -> Floats:
        """The attention at the end (d, d)."""
        return self.attention.weights["W_kq"][-1, 0]

    @property
    def V(self) -> Floats:
        """What each token adds to the output's logits, E W_ovᵀ (N, N)."""
        return self.E @ self.W_ov.T

    def columns(self) -> dict[str, Any]:
        """A row per record, the decoder's first: stage, step, loss, log10 of the gradient's norm,
        the least attention (largest output of the decoder), and the norm of the trained matrix."""
        both = (("decoder", "W_ov", self.decoder), ("attention", "W_kq", self.attention))
        parts = []
        for stage, name, path in both:
            own = path.columns()
            parts.append(
                {
                    "stage": np.repeat(stage, len(own["step"])),
                    **{key: own[key] for key in ("step", "loss", "log10_gradient")},
                    "least_attention": own["least_attention"],
                    "norm": own[f"norm_{name}"],
                }
            )
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    def plot(self, *, style: str = "screen") -> Figure:
        """Loss, direction and norm of each matrix, a row a stage; both problems are solved for it.

        style: "screen", or "paper" for a column.
        """
        return draw("stages", self, style=style)

    def _card(self) -> Summary:
        paths = {"decoder": self.decoder, "attention": self.attention}
        facts = {
            name: f"{int(path.steps[-1]):,} steps of {path.config['optimizer']} with lr "
            f"{path.config['lr']:.4g}, loss {path.loss[-1, 0]:.6g}"
            for name, path in paths.items()
        }
        facts["W_ov"], facts["W_kq"] = f"{self.W_ov.shape}", f"{self.W_kq.shape}"
        return Summary("Stages", f"both stages on {self.sentences!r}", facts)


def two_stages(
    sentences: Sentences,
    *,
    optimizer: RuleLike = "ngd",
    lr: tuple[float | None, float | None] = (None, None),
    steps: tuple[int, int] = (2000, 4000),
    weights: tuple[str, str] = ("empirical", "empirical"),
    embedding: Any = "orthonormal",
    progress: Progress | None = None,
    **options: Any,
) -> Stages:
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
    first = train(
        sentences,
        model="decoder",
        optimizer=optimizer,
        lr=0.2 / root if lr[0] is None else lr[0],
        steps=steps[0],
        weights=weights[0],
        embedding=E,
        progress=_part(progress, 0.0, share),
        **options,
    )
    second = train(
        sentences,
        model="next-token",
        optimizer=optimizer,
        lr=0.05 / root if lr[1] is None else lr[1],
        steps=steps[1],
        weights=weights[1],
        embedding=E,
        head=first,
        progress=_part(progress, share, 1.0),
        **options,
    )
    return Stages(sentences, E, first, second)


def _part(progress: Progress | None, start: float, end: float) -> Progress | None:
    """Progress over one part of the whole."""
    if progress is None:
        return None
    whole = progress
    return lambda done: whole(start + (end - start) * done)
