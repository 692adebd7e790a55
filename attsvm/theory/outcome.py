"""Outcome: where a run has got to, and how that compares with the limit the theory names.

The states say what is known and no more. *undecided*: some input has no token with nearly all the
attention. *saturated*: every input has, but the selection is not locally optimal; whether the run
leaves it is not claimed. *at a locally optimal selection*: the selection is certified locally
optimal; the run may still leave it, while its norm is moderate and a better token nearly tight.
*converges*: there is a proof that the exact iteration never changes its selection and tends to the
max-margin direction. *unknown*: nothing of this is known. Neither attention of 1.000000 nor a
locally optimal selection is a proof of convergence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.files import finite
from attsvm._utils.result import Table, draw
from attsvm._utils.summary import Summary
from attsvm.certificate import Certificate
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_sets import supporting
from attsvm.theory import measures
from attsvm.theory.convergence import ConvergenceProof
from attsvm.theory.ends import FinalState, TrainingInfo, end_of_path, end_of_weights
from attsvm.theory.limits.limit import Limit
from attsvm.theory.optima import Optimality, optimality, verdict_on
from attsvm.training.models import MODELS, Model
from attsvm.training.models.model import Evaluation
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.optimizers.steps.scaled import length
from attsvm.training.path import Path, recorded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

State = Literal["undecided", "saturated", "at a locally optimal selection", "converges", "unknown"]
# Attention on the top token from which an input counts as decided.
DECIDED = 1 - 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Table):
    """The end of one instance's run, or a W of one's own, against its predicted limit.

    changed and log_time are of a run alone: None and nan for a W of one's own. loss and
    log10_gradient are nan where the tokens have no labels.

    certificate: the max-margin problem of the selected tokens in the predicted norm, or in the one
    asked for (None when there is neither); correlation and margin_share compare the final W with
    it; margin_share is certified: the run's margin is at least that share of the best. proof: that
    training converges from here, or what blocks it; None where no theorem covers the training.

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
            "loss": self.loss,
            "log10 of gradient": self.log10_gradient,
        }
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


def outcome(
    run: Any,
    tokens: Tokens,
    head: Any = None,
    *,
    instance: int = 0,
    norm: str | Norm | None = None,
    model: Model | None = None,
    told: TrainingInfo | None = None,
) -> Outcome:
    """The Outcome of one instance of a path, or of a W of one's own.

    run: a Path, or weights as `Weights.of` takes them. norm: the norm to compare with; that of the
    predicted limit unless given. model: that of the run, for a saved run whose model was an object
    of one's own. told: how a W of one's own was trained.
    """
    if not isinstance(tokens, Tokens):
        raise BadTokens("an outcome is of Tokens, or of Sentences: give the data of the run")
    known = TrainingInfo() if told is None else told
    if isinstance(run, Path):
        end = end_of_path(run, tokens, head, instance=instance, model=model, told=known)
    elif model is not None:
        raise Unsupported("model is for a saved run: a W of one's own is read by its shape")
    else:
        end = end_of_weights(run, tokens, head, instance=instance, told=known)
    return _judged(end, tokens, end.norm if norm is None else norm)


def _judged(end: FinalState, tokens: Tokens, norm: str | Norm | None) -> Outcome:
    """What is known of an end, compared in this norm."""
    v = None if end.head is None or end.head.vector is None else end.head.vector[0]
    keep = Selection.of(tokens, end.selection)
    certificate: Certificate | None = None
    verdict: Optimality | None = None
    correlation = share = float("nan")
    if norm is not None and (tokens.present() & ~keep.kept).any():
        relaxed = _relaxed(end, tokens, keep, norm)
        certificate = end.solved.of(keep, norm) if relaxed is None else relaxed
        if certificate.W is not None and end.W.any():
            correlation = float(measures.correlation(end.W, certificate))
            share = float(measures.margin_share(end.W, certificate))
        if v is not None:
            plain = certificate if relaxed is None else end.solved.of(keep, norm)
            verdict = verdict_on(tokens, keep, v, plain)
    proof: ConvergenceProof | None = None
    if end.prover is not None:
        proof = replace(end.prover, solved=end.solved).prove(end.W)
    return Outcome(
        end.selection,
        _state(end.top_attention, verdict, proof),
        end.top_attention,
        end.changed,
        end.loss,
        float(end.log_gradient / np.log(10)),
        end.log_time,
        end.W,
        end.limit,
        certificate,
        verdict,
        correlation,
        share,
        proof,
    )


def _state(
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


def _relaxed(
    end: FinalState, tokens: Tokens, keep: Selection, norm: str | Norm
) -> Certificate | None:
    """That of the relaxed problem, where a trained decoder leaves inputs unsupported; else None."""
    support: Bools | None = None
    if end.joint:
        with suppress(AttsvmError):
            support = supporting(end.solved.of(keep, labels=True))
    if support is None or support.all():
        return None
    return solve(Problem.of(tokens, keep, b=support.astype(float)), norm)


def settled(
    tokens: Tokens | Sequence[Tokens],
    head: Any,
    *,
    norm: str | Norm = "frobenius",
    share: float = 0.99,
    model: Model | None = None,
) -> Callable[[int, Blocks, Evaluation], bool]:
    """A `stop` for `train`: every selection is certified locally optimal, every W has the share.

    share: the certified margin share in `norm` at which a run may end; that a longer run would keep
    its selection is not shown by it. Looked at on the grid of
    records only, so it costs little. For models with a fixed linear head; model: one's own.
    """
    listed = [tokens] if isinstance(tokens, Tokens) else list(tokens)
    heads = np.broadcast_to(np.atleast_2d(head), (len(listed), listed[0].d))
    known: dict[tuple[int, ...], Optimality] = {}

    def stop(step: int, params: Blocks, found: Evaluation) -> bool:
        least = np.take_along_axis(found.logs, found.top[:, :, None], 2).min()
        if not recorded(step) or least < np.log(DECIDED):
            return False
        W = (_listed(params) if model is None else model).matrix(params)
        for b, instance in enumerate(listed):
            key = (b, *(int(t) for t in found.top[b]))
            if key not in known:
                keep = Selection.of(instance, found.top[b])
                known[key] = optimality(instance, keep, heads[b], norm)
            verdict = known[key]
            if not verdict.locally or measures.margin_share(W[b], verdict.certificate) < share:
                return False
        return True

    return stop


def _listed(params: Blocks) -> Model:
    """The listed model with a fixed head that has these blocks."""
    for model in MODELS.values():
        if not model.trains_head and set(model.shapes(1, 1, 1, 1)) == set(params):
            return model
    raise Unsupported(f"no listed model has the blocks {', '.join(params)}: give model=…")
