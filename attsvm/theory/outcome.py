"""Outcome: where a run is, and how that compares with the limit that theory names.

The states say what is known and no more. *undecided*: some input has no token with nearly all the
attention. *saturated*: every input has, but the selection is not locally optimal; whether the run
leaves it is not claimed. *at a locally optimal selection*: the selection is certified locally
optimal; the run may still leave it, while its norm is moderate and a better token nearly tight.
*converges*: there is a proof that the exact iteration never changes its selection and tends to the
max-margin direction. *unknown*: nothing of this is known. Neither attention of 1.000000 nor a
locally optimal selection is a proof of convergence.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.expected import positive, shown, whole_instance
from attsvm._utils.files import finite
from attsvm._utils.result import Result, Summary, Table, draw
from attsvm.certificate import Certificate
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.problem.weights import WeightBlocks, top_tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_sets import supporting
from attsvm.theory import measures
from attsvm.theory.convergence import ConvergenceProof
from attsvm.theory.convergence.prover import Prover, head_at, prover, prover_of
from attsvm.theory.limits import (
    Limit,
    LimitCase,
    limit_of,
    margins_needed,
    predict_case,
    reach_of,
)
from attsvm.theory.optima import Optimality, verdict_on
from attsvm.training.heads import Head, head_of
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import MODELS, Model, SentenceModel, with_head
from attsvm.training.models.gradient.attention import attend
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import evaluate, log_norm
from attsvm.training.optimizers import RuleLike
from attsvm.training.optimizers.steps import length
from attsvm.training.path import Path, pulled_back

if TYPE_CHECKING:
    from matplotlib.figure import Figure

State = Literal["undecided", "saturated", "at a locally optimal selection", "converges", "unknown"]
# Attention on the top token from which an input counts as decided.
DECIDED = 1 - 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Table):
    """The end of one instance's run, or given weights, against the predicted limit.

    changed and log_time are of a run alone: None and nan for given weights. loss and
    log10_gradient are nan where the tokens have no labels.

    certificate: the max-margin problem of the selected tokens in the predicted norm, or in the one
    asked for (None when there is neither); correlation and margin_share compare the final W with
    it; margin_share is certified: the run's margin is at least that share of the best. proof: that
    training converges from here, or what blocks it; None where no theorem covers the training.

    scored: whether a prediction head is known. For given weights without one the certificate asks
    for the least norm at which every input keeps its own least margin: see `norm_ratio`.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
    >>> path = attsvm.train(tokens, model="prompt", head=[0.2, 0.7], steps=500)
    >>> found = attsvm.outcome(path, tokens, [0.2, 0.7])
    >>> found.state, round(found.correlation, 3), found.limit.norm
    ('converges', 0.998, 'frobenius')
    """

    selection: Ints
    state: State
    top_attention: float
    changed: int | None
    loss: float
    log10_gradient: float
    log_time: float
    W: Floats
    limit: Limit
    certificate: Certificate | None
    optimality: Optimality | None
    correlation: float
    margin_share: float
    proof: ConvergenceProof | None = None
    scored: bool = True

    @property
    def norm_ratio(self) -> float | None:
        """Without a prediction head: the certified share of ‖W‖ that suffices for its margins."""
        return None if self.scored or np.isnan(self.margin_share) else self.margin_share

    @property
    def rank(self) -> int | None:
        """Singular values of W above 1e-4 of the largest; None where W is not finite."""
        return int(measures.rank(self.W)) if np.isfinite(self.W).all() else None

    def columns(self) -> dict[str, Any]:
        """A row per margin of the selection: the run's beside the best possible.

        input, kept and dropped token; share: the run's margin over its norm, in units of the best
        least margin (at least `margin_share` in every row); best: the same of the certified W; and
        the multiplier. Without a certificate: input and kept token alone.
        """
        best = self.certificate
        if best is None or best.W is None:
            return {"input": np.arange(len(self.selection)), "kept": self.selection}
        rows = best.problem.rows
        with np.errstate(all="ignore"):  # nan for a zero W, which has no direction
            own = best.problem.margins(self.W) * (best.lower / np.float64(best.norm.value(self.W)))
            least = best.margins * (best.lower / np.float64(best.upper))
        return {
            "input": rows[:, 0],
            "kept": rows[:, 1],
            "dropped": rows[:, 2],
            "share": own,
            "best": least,
            "multiplier": best.multipliers,
        }

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain data for JSON; infinities and unknown values are None."""
        best = self.certificate
        with np.errstate(over="ignore"):
            norm = float(length(self.W[None])[0])
        found = {
            "status": "optimal" if best is None else best.status,
            "selection": self.selection.tolist(),
            "state": self.state,
            "top_attention": self.top_attention,
            "last_change": self.changed,
            "loss": self.loss,
            "log10_gradient_norm": self.log10_gradient,
            "log_flow_time": self.log_time,
            "limit": self.limit.to_dict(),
            "correlation": self.correlation,
            "margin_share": self.margin_share,
            "W": self.W.tolist(),
            "norm": norm,
            "rank": self.rank,
            "norm_ratio": self.norm_ratio,
            "certificate": None if best is None else best.to_dict(),
            "proof": None if self.proof is None else self.proof.to_dict(),
        }
        return dict(finite(found))

    def plot(self, *, ax: Any = None, style: str = "screen") -> Figure:
        """Every margin of the run beside that of the certified solution, least first.

        ax: axes to draw into, in their own style. style: "screen", or "paper" for a column.
        """
        return draw("outcome", self, ax=ax, style=style)

    def _card(self) -> Summary:
        best = self.certificate
        facts: dict[str, Any] = {
            "selection": self.selection,
            "least attention": f"{self.top_attention:.8f}",
        }
        if not self.scored:
            return self._card_of_margins(facts)
        facts |= {"loss": self.loss, "log10 of gradient": self.log10_gradient}
        if self.changed is not None:
            facts["last change"] = f"step {self.changed:,}"
        norm = self.limit.norm or "no known norm"
        said = f"optimizer {self.limit.optimizer}, model {self.limit.model}"
        facts["limit"] = f"{said}: {norm} ({self.limit.word})"
        if self.limit.model == "factored":
            facts["rank of W"] = self.rank
        if best is not None:
            facts["correlation"] = self.correlation
            facts["margin share"] = f"{self.margin_share:.6g} of the best in {best.norm.name} norm"
            facts["certificate"] = best.message
        if self.optimality is not None:
            facts["optimality"] = f"{self.optimality.kind}: {self.optimality.message}"
        if self.proof is not None:
            facts["convergence"] = f"this run: {self.proof.message}"
        return Summary("Outcome", self.state, facts)

    def _card_of_margins(self, facts: dict[str, Any]) -> Summary:
        """What is shown without a prediction head."""
        best = self.certificate
        if best is not None:
            low, middle, high = np.percentile(best.problem.b, [0, 50, 100])
            facts["margins"] = f"least {low:.4g}, median {middle:.4g}, largest {high:.4g}"
            facts["norm ratio"] = (
                f"{self.margin_share:.4g} of ‖W‖ ({best.norm.name}) suffices for these margins"
            )
            facts["certificate"] = best.message
        note = (
            "no prediction head: with labels and head=v also the loss, its gradient, local "
            "optimality and the limit of training"
        )
        return Summary("Outcome", self.state, facts, note=note)


def outcome(
    run: Any,
    tokens: Tokens,
    head: Any = None,
    *,
    instance: int = 0,
    norm: str | Norm | None = None,
    model: Model | None = None,
    optimizer: RuleLike | None = None,
    lr: float | None = None,
    loss: str | Loss = "logistic",
) -> Outcome:
    """The Outcome of one instance of a path, or of given weights; a LayerOutcome of a layer's path.

    run: a Path, or weights as `WeightBlocks.of` takes them. norm: the norm to compare with; that of
    the predicted limit unless given. model: that of the run, for a saved run with a custom model.
    optimizer, lr, loss: how given weights were trained, where that is known.
    """
    if not isinstance(tokens, Tokens):
        raise BadTokens("an outcome is of Tokens, or of Sentences: give the data of the run")
    if isinstance(run, Path):
        for name, given in (("optimizer", optimizer), ("lr", lr)):
            if given is not None:
                raise Unsupported(f"{name} is for given weights: a path knows how it was trained")
        form = run.form(model)
        if isinstance(form, Model) and form.layer is not None:
            from attsvm.theory.layer_outcome import layer_outcome

            return layer_outcome(run, tokens, head, form, instance=instance, norm=norm)
        case, known, prover = _read_path(run, tokens, head, instance, model, loss)
        usual = None
    elif isinstance(run, Result):
        raise BadTokens(
            f"run is {shown(run)}: give a Path or weights; a run on sentences goes with Sentences"
        )
    elif model is not None:
        raise Unsupported("model is for a saved run: given weights are read by their shape")
    else:
        case, known, prover = _read_weights(run, tokens, head, instance, optimizer, lr, loss)
        usual = "nuclear" if case.reach is not None else "frobenius"
    norm = known["limit"].norm or usual if norm is None else norm
    scored = isinstance(run, Path) or case.head is not None
    v = None if case.head is None or case.head.vector is None else case.head.vector[0]
    keep = Selection.of(tokens, known["selection"])
    certificate: Certificate | None = None
    verdict: Optimality | None = None
    correlation = share = float("nan")
    if norm is not None and not scored and (tokens.present() & ~keep.kept).any():
        certificate = solve(_keeping_margins(tokens, keep, known["W"]), norm)
        share = float(measures.margin_share(known["W"], certificate))
    elif norm is not None and (tokens.present() & ~keep.kept).any():
        relaxed = _solve_relaxed(tokens, case, keep, norm)
        certificate = case.solved.of(keep, norm) if relaxed is None else relaxed
        if certificate.W is not None and known["W"].any():
            correlation = float(measures.correlation(known["W"], certificate))
            share = float(measures.margin_share(known["W"], certificate))
        if v is not None:
            plain = certificate if relaxed is None else case.solved.of(keep, norm)
            verdict = verdict_on(tokens, keep, v, plain)
    proof = None if prover is None else replace(prover, solved=case.solved).prove(known["W"])
    return Outcome(
        **known,
        state=state_of(known["top_attention"], verdict, proof),
        certificate=certificate,
        optimality=verdict,
        correlation=correlation,
        margin_share=share,
        proof=proof,
        scored=scored,
    )


def _keeping_margins(tokens: Tokens, keep: Selection, W: Floats) -> Problem:
    """The problem that asks of every input the least margin that W gives it."""
    plain = Problem.of(tokens, keep)
    least = np.full(tokens.n, np.inf)
    np.minimum.at(least, plain.rows[:, 0], plain.margins(W))
    return Problem.of(tokens, keep, b=np.where(np.isfinite(least), np.maximum(least, 0.0), 0.0))


# What the limit's premises are checked on, the fields of an Outcome that need no solve, and what
# proves that training converges from here (None where no theorem covers it).
_Read = tuple[LimitCase, dict[str, Any], Prover | None]


def _read_path(
    path: Path, tokens: Tokens, head: Any, instance: int, model: Model | None, loss: str | Loss
) -> _Read:
    """The end of one instance of a path."""
    form, config = path.form(model), path.config
    if isinstance(form, SentenceModel):
        raise BadTokens(
            f"the run of model {form.name!r} is compared with its own data, Sentences: give these"
        )
    b = whole_instance(instance, path.size)
    inputs, places = path.top.shape[2], config.get("places", tokens.T)
    if (inputs, places) != (tokens.n, tokens.T):
        size = f"{inputs} inputs of {places} tokens"
        raise BadTokens(f"the run was on {size}, not on {tokens!r}: give those")
    params, first = path.at(-1), path.at(0)
    if form.trains_head:
        made = with_head(form, config.get("head") or "linear").reads(params)
        read = _unit_head(head_at(made, tokens, b))
    else:
        read = head_at(head, tokens, b)
    custom = config.get("outside", ())
    if loss_of(loss).name not in ("logistic", config["loss"]):
        raise Unsupported(f"this run's loss is {config['loss']!r}: leave loss out")
    if "loss" not in custom:
        trained: Loss | None = loss_of(config["loss"])
    else:
        trained = loss if isinstance(loss, Loss) else path.objects.get("loss")
    case = LimitCase(
        tokens,
        read,
        trained,
        selected=path.selection[b],
        reach=reach_of(first["K"][b], first["Q"][b]) if {"K", "Q"} <= set(first) else None,
        trained=form.trains_head,
        schedule=config.get("schedule"),
        decay=pulled_back(config),
    )
    limit = limit_of(
        None if "model" in custom else config["model"],
        config["optimizer"],
        config.get("limit") if "optimizer" in custom else config["optimizer"],
        case,
        name=config["model"],
    )
    known = {
        "selection": path.selection[b],
        "top_attention": float(path.top_attention[-1, b].min()),
        "changed": int(path.changed[b].max()),
        "loss": float(path.loss[-1, b]),
        "log10_gradient": float(float(path.log_gradient[-1, b]) / np.log(10)),
        "log_time": float(path.clock[-1, b]),
        "W": form.matrix(params)[b],
        "limit": limit,
    }
    found: Prover | None = None
    if read is not None and path.diverged < 0:
        with suppress(Unsupported):
            found = prover_of(config, form, tokens, read, int(path.steps[-1]))
    return case, known, found


def _read_weights(
    given: Any,
    tokens: Tokens,
    head: Any,
    instance: int,
    optimizer: RuleLike | None,
    lr: float | None,
    loss: str | Loss,
) -> _Read:
    """Given weights as the end of a run of which no more is known."""
    blocks = WeightBlocks.of(given, tokens.shape, instance=instance).blocks
    if lr is not None:
        positive(lr, "lr")
    form = next(m for m in MODELS.values() if set(m.shapes(1, 1, 1, 1)) == set(blocks))
    if form.trains_head:
        if head is not None:
            raise Unsupported("the weights hold a decoder v: leave head out")
        read = head_at(blocks["v"], tokens, 0)
    else:
        read = head_at(head, tokens, instance)
    if read is None and optimizer is not None:
        raise BadTokens("the head is missing: give head=v, the vector that reads the pooled tokens")
    params = {name: block[None] for name, block in blocks.items()}
    W, made = form.matrix(params)[0], loss_of(loss)
    top = top_tokens(tokens, W)
    labels = np.ones(tokens.n) if tokens.labels is None else tokens.labels
    parts = {name: getattr(tokens, name) for name in ("queries", "keys", "mask", "source")}
    batch = Batch.of(Tokens(tokens.X, labels=labels, **parts))
    arrays = batch.keys, batch.values, batch.queries, batch.present
    logs = attend(*arrays, np.ascontiguousarray(form.matrix(params))).logs[0]
    value = slope = float("nan")
    if tokens.labels is not None and read is not None:
        there = evaluate(form, params, batch, None if form.trains_head else read, made)
        value, slope = float(there.loss[0]), float(log_norm(there.gradient)[0])
    case = LimitCase(
        tokens,
        _unit_head(read) if form.trains_head else read,
        made,
        selected=top,
        reach=reach_of(blocks["K"], blocks["Q"]) if "K" in blocks else None,
        trained=form.trains_head,
    )
    if optimizer is None:
        said = "It is not known how this W was trained: give optimizer=…."
        limit = Limit(form.name, "not given", None, "unknown", said, (), ())
    else:
        limit = predict_case(form.name, optimizer, case)
    known = {
        "selection": top,
        "top_attention": float(np.exp(logs[np.arange(tokens.n), top]).min()),
        "changed": None,
        "loss": value,
        "log10_gradient": float(slope / np.log(10)),
        "log_time": float("nan"),
        "W": W,
        "limit": limit,
    }
    found: Prover | None = None
    if optimizer is not None and lr is not None and form.fused:
        with suppress(Unsupported):
            found = prover(tokens, head=read, optimizer=optimizer, lr=lr, loss=loss)
    return case, known, found


def _unit_head(head: Head | None) -> Head | None:
    """A trained linear head at size one: it may be of any, and its scores are only compared."""
    v = None if head is None else head.vector
    return head if v is None else head_of(v / max(float(np.abs(v).max()), 1e-300), v.shape[1])


def state_of(
    top_attention: float, verdict: Optimality | None, proof: ConvergenceProof | None
) -> State:
    """The state of a run; only a proof that has succeeded makes one that converges."""
    if proof is not None and proof.proved:
        return "converges"
    if top_attention < DECIDED:
        return "undecided"
    if verdict is None or (verdict.locally is None and verdict.kind == "undecided"):
        return "unknown"
    return "at a locally optimal selection" if verdict.locally else "saturated"


def _solve_relaxed(
    tokens: Tokens, case: LimitCase, keep: Selection, norm: str | Norm
) -> Certificate | None:
    """That of the problem with other margins than 1: 0 where a trained decoder leaves inputs
    unsupported, ½ where the loss attains its target; else None."""
    need = margins_needed(case, keep)
    if need is not None and (need < 1).any():
        return solve(Problem.of(tokens, keep, b=need), norm)
    support: Bools | None = None
    if case.trained:
        with suppress(AttsvmError):
            support = supporting(case.solved.of(keep, labels=True))
    if support is None or support.all():
        return None
    return solve(Problem.of(tokens, keep, b=support.astype(float)), norm)
