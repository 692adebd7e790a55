"""train(): gradient training of one instance, of a stack of them, or of sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attsvm.errors import BadTokens, Unsupported
from attsvm.heads import Head, head_of
from attsvm.language.sentences import Sentences
from attsvm.language.training.task import first_blocks, records_of, sentence_task, trace_of
from attsvm.models import SENTENCE_MODELS, model_of
from attsvm.models.gradient.batch import Batch
from attsvm.models.joint import with_head
from attsvm.models.model import Model
from attsvm.problem.tokens import Tokens
from attsvm.rules.rule import Blocks
from attsvm.training.arguments import instances, setting, whole
from attsvm.training.loop import Progress, Stop, run
from attsvm.training.path import Path
from attsvm.training.start import initial
from attsvm.training.task import token_task


def train(
    tokens: Tokens | Sequence[Tokens] | Sentences,
    *,
    model: str = "weight",
    rule: str = "ngd",
    head: Any = None,
    loss: str = "logistic",
    lr: float = 0.1,
    steps: int = 1000,
    seed: int = 0,
    init: str | dict[str, Any] = "default",
    width: int | None = None,
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
    """The Path of gradient training on (1/n) Σ ℓ(y_i h(o_i)), exact however far it goes.

    tokens: one instance or several of one size, with labels. head: a vector v, a stack (B, d), or
    a Head; the joint models train it, a linear one, or a ReLU network of `width` units with
    head="relu". init: "zero", "normal:STD", "uniform"
    (±1/√rows), or arrays by block name; the default is zero, and normal:0.1 for factors, where
    zero is a stationary point. width: columns of the factors (min(d, dq) without it). schedule:
    "constant", "sqrt" (1/√(t+1)) or a function of the step. options: those of the rule, such as
    {"momentum": 0.9} for muon or {"eps": 1e-8} for adam. start: a saved Path to go on from,
    with its own model, rule and step size. stop(step, params, evaluation): ends the run.

    Sentences take the models "next-token" (head: the decoder W_ov, or the path that trained it),
    "decoder" and "joint-next-token". Of these alone: embedding, as in `embedding_of`; readout:
    "softmax" of the decoder's output, or "mass", the attention on tokens that the label follows;
    weights: "empirical" or "uniform"; collocations: add the decoder's loss to the joint one's.

    >>> import attsvm
    >>> from attsvm.data import EXAMPLES
    >>> a = EXAMPLES["single-input-global"]()
    >>> tokens = attsvm.Tokens(a["X"], keys=a["keys"], labels=a["y"])
    >>> path = attsvm.train(tokens, model="prompt", head=a["v"], steps=2000)
    >>> path.selection
    array([[0]])
    """
    steps = whole(steps, "steps", least=0)
    if start is not None:
        config = dict(start.config)
    else:
        config = setting(
            model=model, rule=rule, head=head, loss=loss, lr=lr, seed=seed, init=init, width=width,
            schedule=schedule, decay=decay, options=options,
        )  # fmt: skip
    if isinstance(tokens, Sentences):
        if start is None:
            config |= {"readout": readout, "weights": weights, "collocations": collocations}
        task, shapes = sentence_task(tokens, config, head=head, embedding=embedding)
        trace = trace_of(tokens, embedding, head)
        if config.setdefault("data", trace) != trace:
            raise BadTokens(
                "the path to go on from was trained on other sentences, or with another embedding "
                "or decoder: give the same ones"
            )
        config.setdefault("records", records_of(shapes))
        config.setdefault("places", int(tokens.distinct[0].shape[1]))
        first = first_blocks(shapes, init, config["seed"]) if start is None else _fit(start, shapes)
        return run(
            task, config, first, steps, schedule=schedule, start=start, stop=stop,
            progress=progress,
        )  # fmt: skip
    if config["model"] in SENTENCE_MODELS:
        raise Unsupported(f"model {config['model']!r} trains on Sentences, not on Tokens")
    batch = Batch.of(instances(tokens))
    if start is None:
        config["places"] = int(batch.keys.shape[2])
    shape = model_of(config["model"])
    read = _head(head, shape, batch)
    if shape.trains_head:
        shape = with_head(shape, config.get("head") or "linear")
    if start is None:
        params = initial(shape, batch, init, seed=config["seed"], width=config["width"])
    else:
        params = _ending(start, shape, batch)
    return run(
        token_task(batch, shape, read, config), config, params, steps, schedule=schedule,
        start=start, stop=stop, progress=progress,
    )  # fmt: skip


def _head(head: Any, model: Model, batch: Batch) -> Head | None:
    """The fixed head, None for models that train their own; an error when it is missing."""
    if model.prompt and batch.shape[1] != 1:
        raise Unsupported("a prompt model needs tokens without queries; use a weight model")
    if model.trains_head:
        if head is not None and not isinstance(head, str):
            raise Unsupported(
                f"model {model.name!r} trains its own head: leave head out, or name it (relu)"
            )
        return None
    if head is None:
        raise BadTokens(f"model {model.name!r} needs a head: give the vector v")
    return head_of(head, batch.values.shape[3], size=batch.size)


def _ending(start: Path, model: Model, batch: Batch) -> Blocks:
    """The parameters at the end of a path; an error when they do not fit the tokens."""
    params = start.at(len(start.steps) - 1)
    d, dq = batch.shape
    width = next((params[name].shape[2] for name in ("K", "V") if name in params), 0)
    shapes = model.shapes(d, dq, width, batch.values.shape[3])
    if start.top.shape[1:] != batch.keys.shape[:2]:
        raise BadTokens("the path to go on from is of tokens of another size")
    return _fit(start, shapes, size=batch.size)


def _fit(start: Path, shapes: dict[str, tuple[int, ...]], *, size: int = 1) -> Blocks:
    """The parameters at the end of a path; an error when they are not of these shapes."""
    if start.diverged >= 0:
        raise BadTokens(
            f"the path to go on from diverged at step {start.diverged}: start again with a smaller "
            "step size"
        )
    params = start.at(len(start.steps) - 1)
    if not all(
        name in params and params[name].shape == (size, *shape) for name, shape in shapes.items()
    ):
        raise BadTokens("the path to go on from is of tokens of another size")
    return params
