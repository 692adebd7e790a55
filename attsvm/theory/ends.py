"""End: what is judged, the end of one instance's run or a W of one's own, in one form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints, detached
from attsvm._utils.expected import positive
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.problem.weights import Weights, top_tokens, whole_instance
from attsvm.solvers.solve import Certificates
from attsvm.theory.convergence.prove import prover
from attsvm.theory.convergence.prover import Prover
from attsvm.theory.limits.limit import Limit, limit_of, predict_case
from attsvm.theory.limits.premises import Case, reach_of
from attsvm.theory.proofs import prover_of
from attsvm.training.config import pulled_back
from attsvm.training.heads import HEADS, Head, head_of
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import MODELS, Model, SentenceModel
from attsvm.training.models.gradient.attention import attend
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.joint import with_head
from attsvm.training.models.model import evaluate, log_norm
from attsvm.training.optimizers import RuleLike
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.path import Path


class TrainingInfo(NamedTuple):
    """How a given W was trained; optimizer, lr: None where it is not known."""

    optimizer: RuleLike | None = None
    lr: float | None = None
    loss: str | Loss = "logistic"


@dataclass(frozen=True, eq=False)
class FinalState:
    """Where one instance stands.

    W (d, dq); selection (n,) and top_attention: the most attended token of each input, and the
    least attention that one has. head: that of the run (None: not given); joint: it was trained as
    well. changed, log_time: of a run alone, else None and nan. loss, log_gradient: nan without
    labels. limit: what theory names; norm: the one to compare in unless another is asked for.
    solved: the certificates that the limit's premises were checked with. prover: what proves that
    training converges from here, None where no theorem covers it.
    """

    W: Floats
    selection: Ints
    top_attention: float
    head: Head | None
    joint: bool
    changed: int | None
    loss: float
    log_gradient: float
    log_time: float
    limit: Limit
    norm: str | None
    solved: Certificates
    prover: Prover | None = None


def end_of_path(
    path: Path, tokens: Tokens, head: Any, *, instance: int, model: Model | None, told: TrainingInfo
) -> FinalState:
    """The end of one instance of a path."""
    for name in ("optimizer", "lr"):
        if getattr(told, name) is not None:
            raise Unsupported(f"{name} is for a W of one's own: a path knows how it was trained")
    form = path.form(model)
    if isinstance(form, SentenceModel):
        raise BadTokens(
            f"the run of model {form.name!r} is compared with its own data, Sentences: give these"
        )
    b = whole_instance(instance, path.size)
    inputs, places = path.top.shape[2], path.config.get("places", tokens.T)
    if (inputs, places) != (tokens.n, tokens.T):
        size = f"{inputs} inputs of {places} tokens"
        raise BadTokens(f"the run was on {size}, not on {tokens!r}: give those")
    params = path.at(-1)
    read = None if form.trains_head else _reader(head, tokens, b)
    if form.trains_head:
        made = with_head(form, path.config.get("head") or "linear").reads(params)
        read = _scaled(_single(made, b))
    first = path.at(0)
    case = Case(
        tokens,
        read,
        _path_loss(path, told),
        selected=path.selection[b],
        reach=reach_of(first["K"][b], first["Q"][b]) if {"K", "Q"} <= set(first) else None,
        trained=form.trains_head,
        schedule=path.config.get("schedule"),
        decay=pulled_back(path.config),
    )
    limit = _path_limit(path, case)
    return FinalState(
        W=form.matrix(params)[b],
        selection=path.selection[b],
        top_attention=float(path.top_attention[-1, b].min()),
        head=read,
        joint=form.trains_head,
        changed=int(path.changed[b].max()),
        loss=float(path.loss[-1, b]),
        log_gradient=float(path.log_gradient[-1, b]),
        log_time=float(path.clock[-1, b]),
        limit=limit,
        norm=limit.norm,
        solved=case.solved,
        prover=_path_prover(path, form, tokens, read),
    )


def end_of_weights(
    given: Any, tokens: Tokens, head: Any, *, instance: int, told: TrainingInfo
) -> FinalState:
    """A W of one's own as the end of a run of which no more is known than is told."""
    blocks = Weights.of(given, tokens.shape, instance=instance).blocks
    if told.lr is not None:
        positive(told.lr, "lr")
    form = next(m for m in MODELS.values() if set(m.shapes(1, 1, 1, 1)) == set(blocks))
    params = {name: block[None] for name, block in blocks.items()}
    if form.trains_head:
        if head is not None:
            raise Unsupported("the weights hold a decoder v: leave head out")
        read = _reader(blocks["v"], tokens, 0)
    else:
        read = _reader(head, tokens, instance)
    if read is None:
        raise BadTokens("the head is missing: give head=v, the vector that reads the pooled tokens")
    W = form.matrix(params)[0]
    loss = loss_of(told.loss)
    top = top_tokens(tokens, W)
    top_attention, value, slope = _evaluated(form, params, tokens, read, loss, top)
    judged = _scaled(read) if form.trains_head else read
    reach = reach_of(blocks["K"], blocks["Q"]) if "K" in blocks else None
    case = Case(tokens, judged, loss, selected=top, reach=reach, trained=form.trains_head)
    if told.optimizer is None:
        said = "It is not told how this W was trained: give optimizer=…."
        limit = Limit(form.name, "not told", None, "unknown", said, (), ())
    else:
        limit = predict_case(form.name, told.optimizer, case)
    usual = "nuclear" if "K" in blocks else "frobenius"
    return FinalState(
        W=W,
        selection=top,
        top_attention=top_attention,
        head=judged,
        joint=form.trains_head,
        changed=None,
        loss=value,
        log_gradient=slope,
        log_time=float("nan"),
        limit=limit,
        norm=limit.norm or usual,
        solved=case.solved,
        prover=_told_prover(form, tokens, read, told),
    )


def _evaluated(
    form: Model, params: Blocks, tokens: Tokens, head: Head, loss: Loss, top: Ints
) -> tuple[float, float, float]:
    """(least attention on a top token, loss, log of the gradient's norm): nan without labels."""
    labelled = tokens if tokens.labels is not None else _labelled(tokens)
    batch = Batch.of(labelled)
    arrays = batch.keys, batch.values, batch.queries, batch.present
    logs = attend(*arrays, np.ascontiguousarray(form.matrix(params))).logs[0]
    top_attention = float(np.exp(logs[np.arange(tokens.n), top]).min())
    if tokens.labels is None:
        return top_attention, float("nan"), float("nan")
    fixed = None if form.trains_head else head
    found = evaluate(form, params, batch, fixed, loss)
    return top_attention, float(found.loss[0]), float(log_norm(found.gradient)[0])


def _labelled(tokens: Tokens) -> Tokens:
    """The same tokens with labels that stand for none."""
    return Tokens(
        tokens.X,
        queries=tokens.queries,
        labels=np.ones(tokens.n),
        keys=tokens.keys,
        mask=tokens.mask,
        source=tokens.source,
    )


def _path_prover(path: Path, form: Model, tokens: Tokens, head: Head | None) -> Prover | None:
    """The prover of a run, None for one without a theorem."""
    if head is None or path.diverged >= 0:
        return None
    try:
        return prover_of(path.config, form, tokens, head, int(path.steps[-1]))
    except Unsupported:
        return None


def _told_prover(form: Model, tokens: Tokens, head: Head, told: TrainingInfo) -> Prover | None:
    """The prover of a W of one's own, None unless optimizer and lr are told and have a theorem."""
    if told.optimizer is None or told.lr is None or not form.fused:
        return None
    try:
        return prover(tokens, head=head, optimizer=told.optimizer, lr=told.lr, loss=told.loss)
    except Unsupported:
        return None


def _path_loss(path: Path, told: TrainingInfo) -> Loss | None:
    """The loss of a run; None where it is an object that is not at hand."""
    name = path.config["loss"]
    if loss_of(told.loss).name not in ("logistic", name):
        raise Unsupported(f"this run's loss is {name!r}: leave loss out")
    if "loss" not in path.config.get("outside", ()):
        return loss_of(name)
    return told.loss if isinstance(told.loss, Loss) else path.objects.get("loss")


def _path_limit(path: Path, case: Case) -> Limit:
    """The limit that theory names for a run, from its config: its objects need not be at hand."""
    config = path.config
    own = config.get("outside", ())
    stands_for = config.get("limit") if "optimizer" in own else config["optimizer"]
    model = None if "model" in own else config["model"]
    return limit_of(model, config["optimizer"], stands_for, case, name=config["model"])


def _reader(head: Any, tokens: Tokens, instance: int) -> Head | None:
    """The head of one instance, from a vector, a stack of them, a tensor or a Head."""
    if head is None:
        return None
    made = head_of(detached(head), tokens.d)
    return _single(made, instance)


def _single(head: Head, instance: int) -> Head:
    """The head of one instance of a stack; a head of one's own is for all of them."""
    if type(head) not in HEADS.values():
        return head
    block = getattr(head, head.block)
    if len(block) == 1:
        return head
    b = whole_instance(instance, len(block))
    fields: dict[str, Any] = {head.block: block[b : b + 1]}
    return replace(head, **fields)  # type: ignore[type-var]


def _scaled(head: Head) -> Head:
    """A trained linear head at size one: it may be of any, and its scores are only compared."""
    v = head.vector
    if v is None:
        return head
    return head_of(v / max(float(np.abs(v).max()), 1e-300), v.shape[1])
