"""LayerOutcome: where a run of several heads, or of normalized queries and keys, is.

Such a layer holds several max-margin problems: one for each head, on all inputs, or one for each
input, whose vector W z/‖W z‖ is free to turn as the others do not. Each has an Outcome of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import whole_instance
from attsvm._utils.files import finite
from attsvm._utils.result import Summary
from attsvm.errors import BadTokens
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory import measures
from attsvm.theory.limits import LimitCase, limit_of
from attsvm.theory.optima import verdict_on
from attsvm.theory.outcome import Outcome, State, state_of
from attsvm.training.heads import Head
from attsvm.training.losses import loss_of
from attsvm.training.models import Model
from attsvm.training.models.model import Layer, LayerPart
from attsvm.training.path import Path, pulled_back
from attsvm.training.task import head_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# From what is least known to what is known best.
_STATES: tuple[State, ...] = (
    "undecided", "unknown", "saturated", "at a locally optimal selection",
)  # fmt: skip
_WORTH = ("infeasible", "stalled", "optimal")


@dataclass(frozen=True, eq=False, repr=False)
class LayerOutcome(Outcome):
    """The end of one instance's run of several heads, or of normalized queries and keys.

    kind: "head" or "input", what a part is; parts: the Outcome of each, against the solution for
    its own tokens; loss and gradient in it are those of the run. selection (P, n) has a row per
    part; state, attention, correlation, margin share and certificate are the least of the parts'; W
    is what the model's `matrix` gives. There is no proof: no theorem of convergence covers it.

    >>> import attsvm
    >>> X = [[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]]
    >>> tokens = attsvm.Tokens(X, queries=[[1.0, 0.5]], labels=[1])
    >>> path = attsvm.train(tokens, model="multi-head", head=[[0.2, 0.7], [1.0, 0.1]], steps=500)
    >>> found = attsvm.outcome(path, tokens, [[0.2, 0.7], [1.0, 0.1]])
    >>> found.selection.tolist(), found.state, found.norm_ratios.round(1)
    ([[0], [1]], 'at a locally optimal selection', array([1., 1.]))
    """

    kind: str = "head"
    parts: tuple[Outcome, ...] = ()

    @property
    def norms(self) -> Floats:
        """‖W_h‖ of each head, or τ of each input (P,)."""
        return np.array([np.linalg.norm(part.W) for part in self.parts])

    @property
    def least_norms(self) -> Floats:
        """N, the certified least norm at the part's tokens (P,); nan where none is known."""
        found = [part.certificate for part in self.parts]
        return np.array([np.nan if b is None or b.W is None else b.lower for b in found])

    @property
    def norm_ratios(self) -> Floats:
        """(‖W_h‖/‖W_1‖)/(N_h/N_1) of each head: 1 where heads are normalized together."""
        share = self.norms / self.least_norms
        return np.asarray(share / share[0])

    @property
    def margins(self) -> Floats:
        """The least margin of each part, of its W at norm 1 (P,)."""
        return np.array([part.margin_share for part in self.parts]) / self.least_norms

    @property
    def worst_share(self) -> float:
        """The least margin of all parts as a share of the least of their best margins."""
        return float(self.margins.min() * self.least_norms.max())

    def columns(self) -> dict[str, Any]:
        """A row per part: its number, state and selection, the least attention, correlation and
        certified margin share, norm, least norm, the ratio of these to the first part's, margin."""
        return {
            self.kind: np.arange(len(self.parts)),
            "state": [part.state for part in self.parts],
            "selection": [part.selection.tolist() for part in self.parts],
            "top_attention": [part.top_attention for part in self.parts],
            "correlation": [part.correlation for part in self.parts],
            "margin_share": [part.margin_share for part in self.parts],
            "norm": self.norms,
            "least_norm": self.least_norms,
            "norm_ratio": self.norm_ratios,
            "margin": self.margins,
        }

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain data for JSON; infinities and unknown values are None."""
        own = {
            "kind": self.kind,
            "norms": self.norms.tolist(),
            "least_norms": self.least_norms.tolist(),
            "norm_ratios": self.norm_ratios.tolist(),
            "margins": self.margins.tolist(),
            "worst_share": self.worst_share,
            "parts": [part.to_dict() for part in self.parts],
        }
        return super().to_dict() | dict(finite(own))

    def plot(self, *, ax: Any = None, style: str = "screen", part: int = 0) -> Figure:
        """The picture of one part."""
        return self.parts[whole_instance(part, len(self.parts))].plot(ax=ax, style=style)

    def _card(self) -> Summary:
        limit = self.limit
        facts: dict[str, Any] = {
            "least attention": f"{self.top_attention:.8f}",
            "loss": self.loss,
            "log10 of gradient": self.log10_gradient,
            "limit": f"optimizer {limit.optimizer}, model {limit.model}: "
            f"{limit.norm or 'no known norm'} ({limit.word})",
        }
        if self.kind == "input":
            facts |= {"norm (τ)": self.norms[0], "least margin, share": self.worst_share}
        table = self.columns()
        for name in ("top_attention", "state") + ("norm", "norm_ratio") * (self.kind == "input"):
            del table[name]
        said = f"{self.state}; {len(self.parts)} {self.kind}s, each against its own solution"
        return Summary("LayerOutcome", said, facts, table, note=limit.statement)


def layer_outcome(
    path: Path,
    tokens: Tokens,
    head: Any,
    form: Model,
    *,
    instance: int = 0,
    norm: str | Norm | None = None,
) -> LayerOutcome:
    """The LayerOutcome of one instance of a path; norm: Frobenius unless given."""
    b, config, layer = whole_instance(instance, path.size), path.config, form.layer
    if layer is None:
        raise BadTokens(f"model {form.name!r} is no layer")
    inputs = path.top.shape[2] // layer.heads
    if (inputs, config.get("places", tokens.T)) != (tokens.n, tokens.T):
        raise BadTokens(
            f"the run was on {inputs} inputs of {path.places} tokens, not on {tokens!r}: give those"
        )
    read = None if head is None else head_for(head, form, tokens.d, path.size)
    custom = config.get("outside", ())
    loss = path.objects.get("loss") if "loss" in custom else loss_of(config["loss"])
    case = LimitCase(tokens, read, loss, schedule=config.get("schedule"), decay=pulled_back(config))
    limit = limit_of(
        None if "model" in custom else config["model"],
        config["optimizer"],
        config.get("limit") if "optimizer" in custom else config["optimizer"],
        case,
        name=config["model"],
    )
    params = {name: block[b : b + 1] for name, block in path.at(-1).items()}
    run = Outcome(
        selection=path.selection[b],
        state="unknown",
        top_attention=float(path.top_attention[-1, b].min()),
        changed=int(path.changed[b].max()),
        loss=float(path.loss[-1, b]),
        log10_gradient=float(path.log_gradient[-1, b] / np.log(10)),
        log_time=float(path.clock[-1, b]),
        W=form.matrix(params)[0],
        limit=limit,
        certificate=None,
        optimality=None,
        correlation=np.nan,
        margin_share=np.nan,
    )
    parts = layer.parts(params, layer.prepare(tokens))
    selection, attention, changed = (
        x[b].reshape(len(parts), -1) for x in (path.selection, path.top_attention[-1], path.changed)
    )
    found = [
        _part_outcome(
            replace(
                run,
                selection=selection[k],
                top_attention=float(attention[k].min()),
                changed=int(changed[k].max()),
                W=part.W,
            ),
            part.tokens,
            _vector_of(read, b, layer, part),
            norm or limit.norm or "frobenius",
        )
        for k, part in enumerate(parts)
    ]
    solved = [one.certificate for one in found if one.certificate is not None]
    whole = {f.name: getattr(run, f.name) for f in fields(run)} | {
        "selection": selection,
        "state": min((one.state for one in found), key=_STATES.index),
        "certificate": min(solved, key=lambda best: _WORTH.index(best.status), default=None),
        "correlation": min(one.correlation for one in found),
        "margin_share": min(one.margin_share for one in found),
    }
    return LayerOutcome(**whole, kind=layer.kind, parts=tuple(found))


def _part_outcome(run: Outcome, tokens: Tokens, v: Floats | None, norm: str | Norm) -> Outcome:
    """The Outcome of one part against its solution; v: what reads a head, None where no theory
    says which selections are locally optimal."""
    keep = Selection.of(tokens, run.selection)
    if not (tokens.present() & ~keep.kept).any():
        return replace(run, state=state_of(run.top_attention, None, None))
    certificate = solve(Problem.of(tokens, keep), norm)
    verdict = None if v is None else verdict_on(tokens, keep, v, certificate)
    state = state_of(run.top_attention, verdict, None)
    made = replace(run, state=state, certificate=certificate, optimality=verdict)
    if certificate.W is None or not run.W.any():
        return made
    return replace(
        made,
        correlation=float(measures.correlation(run.W, certificate)),
        margin_share=float(measures.margin_share(run.W, certificate)),
    )


def _vector_of(read: Head | None, b: int, layer: Layer, part: LayerPart) -> Floats | None:
    """What a linear prediction head reads an attention head by (e,); None for any other part."""
    v = None if read is None or layer.kind != "head" else read.vector
    return None if v is None else np.split(v[b % len(v)], layer.heads)[part.head]
