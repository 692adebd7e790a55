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
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attsvm.certificate import Certificate
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.ground.arrays import Floats, Ints
from attsvm.heads import Head
from attsvm.models import MODELS, Model, SentenceModel
from attsvm.models.joint import with_head
from attsvm.models.model import Evaluation
from attsvm.norms import Norm, norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.rules.rule import Blocks
from attsvm.solvers.front import solve
from attsvm.solvers.sets import relaxed
from attsvm.theory import measures
from attsvm.theory.limits.limit import Limit, limit_of
from attsvm.theory.optima import Optimality, optimality
from attsvm.training.path import Path, recorded

State = Literal["undecided", "saturated", "at a locally optimal selection", "converges", "unknown"]
# Attention on the top token from which an input counts as decided.
DECIDED = 1 - 1e-3


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of one instance's run against its predicted limit.

    certificate: the max-margin problem of the selected tokens in the predicted norm, or in the one
    asked for (None when there is neither); correlation and margin_share compare the final W with
    it; margin_share is certified: the run's margin is at least that share of the best. proof: an
    object with `proved` and `message` on whether the run converges, None where none was sought.
    """

    selection: Ints
    state: State
    sureness: float
    changed: int
    loss: float
    log10_gradient: float
    log_time: float
    W: Floats
    limit: Limit
    certificate: Certificate | None
    optimality: Optimality | None
    correlation: float
    margin_share: float
    proof: Any = None


def outcome(
    path: Path,
    tokens: Tokens,
    head: Any = None,
    *,
    instance: int = 0,
    norm: str | Norm | None = None,
    model: Model | None = None,
) -> Outcome:
    """The Outcome of one instance of a path.

    norm: the norm to compare with; that of the predicted limit unless given. model: that of the
    run, for a saved run whose model was an object of one's own.
    """
    form = path.form(model)
    if isinstance(form, SentenceModel) or not isinstance(tokens, Tokens):
        raise BadTokens(
            f"the run of model {form.name!r} is compared with its own data, "
            f"{'Sentences' if isinstance(form, SentenceModel) else 'Tokens'}: give these"
        )
    alpha = path.selection[instance]
    W = form.matrix(path.at(-1))[instance]
    limit = _limit(path)
    keep = Selection.of(tokens, alpha)
    joint = form.trains_head
    if joint:
        # A trained decoder may be of any size; its scores are only compared with each other.
        read = with_head(form, path.config.get("head") or "linear").reads(path.at(-1))
        head = read.vector
        head = None if head is None else head / max(float(np.abs(head).max()), 1e-300)
    v = _vector(head, instance)
    sureness = float(path.sureness[-1, instance].min())
    certificate: Certificate | None = None
    verdict: Optimality | None = None
    correlation = share = float("nan")
    norm = limit.norm if norm is None else norm
    if norm is not None and tokens.T > 1:
        certificate = solve(_problem(tokens, keep, joint=joint), norm)
        if certificate.W is not None and W.any():
            correlation = float(measures.correlation(W, certificate))
            share = float(measures.margin_share(W, certificate))
        if v is not None:
            verdict = optimality(tokens, keep, v, norm_of(norm))
    return Outcome(
        alpha,
        _state(sureness, verdict, None),
        sureness,
        int(path.changed[instance].max()),
        float(path.loss[-1, instance]),
        float(path.log_gradient[-1, instance] / np.log(10)),
        float(path.clock[-1, instance]),
        W,
        limit,
        certificate,
        verdict,
        correlation,
        share,
    )


def _limit(path: Path) -> Limit:
    """The limit that theory names for a run, from its config: its objects need not be at hand."""
    config = path.config
    own = config.get("outside", ())
    stands_for = config.get("limit") if "rule" in own else config["rule"]
    model = None if "model" in own else config["model"]
    return limit_of(model, config["rule"], stands_for, name=config["model"])


def _vector(head: Any, instance: int) -> Floats | None:
    """The linear head of one instance (d,), from one vector or a stack; None for other heads."""
    if isinstance(head, Head):
        head = head.vector
    if head is None:
        return None
    v = np.asarray(head, dtype=np.float64)
    if v.ndim == 2:
        v = v[instance if len(v) > 1 else 0]
    return v if v.ndim == 1 else None


def _state(sureness: float, verdict: Optimality | None, proof: Any) -> State:
    """The state of a run; only a proof that has succeeded makes one that converges."""
    if proof is not None and proof.proved:
        return "converges"
    if sureness < DECIDED:
        return "undecided"
    if verdict is None or (verdict.locally is None and verdict.kind == "undecided"):
        return "unknown"
    return "at a locally optimal selection" if verdict.locally else "saturated"


def _problem(tokens: Tokens, keep: Selection, *, joint: bool) -> Problem:
    """The problem of the selection: relaxed when a trained decoder leaves inputs unsupported."""
    if joint:
        try:
            return relaxed(tokens, keep)
        except (Unsupported, AttsvmError):
            return Problem.of(tokens, keep)
    return Problem.of(tokens, keep)


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
