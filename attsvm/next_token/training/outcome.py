"""SentenceOutcome: where a run on sentences has got to, beside the problems that theory names.

Each trained matrix is compared with the least-norm solution of its own problem: W_ov with the
collocations', W_kq with that of the orders that the sentences imply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import expect
from attsvm._utils.lazy import lazy
from attsvm._utils.result import Table, draw
from attsvm._utils.summary import Summary
from attsvm.next_token.contexts import Contexts
from attsvm.next_token.embedding import orthonormal
from attsvm.next_token.finite import FinitePart, finite_part
from attsvm.next_token.infimum import excess, floors
from attsvm.next_token.order import Order, checked_orders, orders
from attsvm.next_token.problems import (
    Columns,
    attention_problem,
    decoder_problem,
    solve_attention,
    solve_decoder,
)
from attsvm.next_token.realizable import Realizability, realizability
from attsvm.next_token.training.proofs import proof_of_run
from attsvm.next_token.training.runs import SentenceRun
from attsvm.norms import Norm, norm_of
from attsvm.solvers.solve import solve
from attsvm.theory.convergence import ConvergenceProof
from attsvm.theory.limits import Limit, LimitCase, limit_of
from attsvm.theory.measures import correlation
from attsvm.training.config import pulled_back
from attsvm.training.optimizers.steps import length
from attsvm.training.path import Path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Numbers in the largest array of one evaluation; sentences are taken in parts of this size.
PART = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class SentenceOutcome(Table):
    """The end of a run on sentences; what is not known is None.

    certificates, norm, correlation, margin_share: of each trained matrix by its name, W_kq and
    W_ov; margin_share is a share of the best margin that is certified. loss: at the end; infimum:
    its infimum; excess: how far the loss is above it. decoder_loss: that of a first stage.
    top_optimal: the share of the sentences whose most attended token is optimal; of a decoder
    alone, the share of collocations whose follower has the largest output.

    >>> from attsvm.next_token import Sentences, two_stages
    >>> data = Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> run = SentenceRun.of(two_stages(data, steps=(200, 300)), data)
    >>> found = sentence_outcome(run)
    >>> found.limit.norm, {name: round(x, 2) for name, x in found.correlation.items()}
    ('frobenius', {'W_kq': 1.0, 'W_ov': 1.0})
    """

    run: SentenceRun
    limit: Limit
    realizability: Realizability
    certificates: dict[str, Columns]
    loss: float
    infimum: float | None
    excess: float | None
    decoder_loss: float | None
    norm: dict[str, float]
    correlation: dict[str, float]
    margin_share: dict[str, float | None]
    top_optimal: float | None

    @property
    def status(self) -> str:
        """The worst status of the certificates."""
        states = {best.status for best in self.certificates.values()}
        return next((s for s in ("infeasible", "stalled") if s in states), "optimal")

    @lazy
    def proof(self) -> ConvergenceProof | None:
        """That attention converges from here, or what blocks it.

        None for what no theorem covers: both matrices trained at once, other optimizers, weight
        decay, steps that shrink; and for more than a few thousand rows.
        """
        return proof_of_run(self.run)

    def columns(self) -> dict[str, Any]:
        """A row per trained matrix: its norm, how near it is to its solution, and the bounds."""
        names = list(self.certificates)
        best = list(self.certificates.values())
        shares = [self.margin_share[name] for name in names]
        return {
            "matrix": names,
            "norm": [self.norm[name] for name in names],
            "correlation": [self.correlation[name] for name in names],
            "margin_share": [np.nan if share is None else share for share in shares],
            "status": [one.status for one in best],
            "lower": [one.lower for one in best],
            "upper": [one.upper for one in best],
            "gap": [one.gap for one in best],
        }

    def plot(self, *, style: str = "screen") -> Figure:
        """Loss, direction and norm, a row of panels for each trained matrix.

        style: "screen", or "paper" for a column.
        """
        return draw("sentences", self, style=style)

    def _card(self) -> Summary:
        norm = self.limit.norm or "no known norm"
        facts: dict[str, Any] = {
            "sentences": f"{self.run.data!r}, {self.realizability.headline}",
            "loss": self.loss,
            "above its infimum": self.excess,
            "limit": f"optimizer {self.limit.optimizer}: {norm} ({self.limit.word})",
        }
        if self.decoder_loss is not None:
            facts["loss of the decoder"] = self.decoder_loss
        if self.top_optimal is not None:
            facts["most attended is optimal"] = f"{100 * self.top_optimal:.4g} %"
        steps = f"{int(self.run.last.steps[-1]):,} steps"
        said = f"{self.run.model}, {self.run.last.config['optimizer']}, {steps}: {self.status}"
        return Summary("SentenceOutcome", said, facts, self.columns())


def sentence_outcome(
    run: SentenceRun, *, norm: str | Norm | None = None, every: Mapping[int, Order] | None = None
) -> SentenceOutcome:
    """The SentenceOutcome of a run.

    norm: the norm to compare in; that of the predicted limit unless given, Frobenius where none is
    known. every: the orders of the sentences, where they are at hand.

    >>> from attsvm.next_token import Sentences, two_stages
    >>> data = Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> run = SentenceRun.of(two_stages(data, steps=(200, 300)), data)
    >>> sentence_outcome(run).top_optimal
    1.0
    """
    expect(run, SentenceRun, "run", make="SentenceRun.of(path, sentences) makes one")
    if every is not None:
        checked_orders(every)
    every = orders(run.data) if every is None else every
    found = realizability(run.data, every)
    limit = _limit(run, found)
    problems = _solved(run, every, (limit.norm or "frobenius") if norm is None else norm)
    known = all(best.status != "infeasible" for best in problems.values())
    finite = _finite(run, every, found)
    with np.errstate(over="ignore", invalid="ignore"):
        loss, infimum, above = _losses(run, found, finite, known=known)
        ends = run.ends
        away = {name: W - finite.W if name == "W_kq" and finite else W for name, W in ends.items()}
        shares = {
            "W_kq": _attention_share(run, problems, every),
            "W_ov": _decoder_share(run, problems),
        }
        return SentenceOutcome(
            run,
            limit,
            found,
            problems,
            loss,
            infimum,
            above,
            _decoder_loss(run),
            {name: float(length(W[None])[0]) for name, W in ends.items()},
            {name: float(correlation(away[name], best.W)) for name, best in problems.items()},
            {name: shares[name] for name in problems},
            _top_optimal(run),
        )


def _limit(run: SentenceRun, found: Realizability) -> Limit:
    """What theory says of the optimizer in both stages, its premises checked on this run."""
    config = run.last.config
    own = "optimizer" in config.get("outside", ())
    stands_for = config.get("limit") if own else config["optimizer"]
    case = LimitCase(
        None,
        None,
        None,
        run.data,
        embedding=run.E,
        realizable=found,
        staged=_staged(run),
        steady=_steady(run),
        schedule=config.get("schedule"),
        decay=pulled_back(config),
    )
    return limit_of("next-token", config["optimizer"], stands_for, case, name="next-token")


def _staged(run: SentenceRun) -> tuple[bool | None, str]:
    """Whether W_ov was trained first and then frozen, and what shows it."""
    if run.joint:
        return False, "both were trained at once"
    if run.mass:
        return False, "the readout is mass: there is no W_ov"
    if run.decoder is None:
        return None, "it is not known how the frozen W_ov was trained"
    return True, "it was trained on the collocations"


def _steady(run: SentenceRun) -> tuple[bool, str]:
    """Whether every stage starts at zero and takes normalized steps of one length, or which not."""
    stages = {"W_ov": run.decoder, "W_kq": run.attention}
    for name, path in stages.items():
        if path is None:
            continue
        config = path.config
        if config["optimizer"] not in (
            "ngd",
            "nmirror:2",
        ):  # names that no other optimizer may have
            return False, f"the optimizer of {name} is {config['optimizer']}"
        if config.get("schedule") != "constant" or pulled_back(config):
            return False, f"the steps of {name} have a schedule, a ridge or decay"
        if path.steps[0] != 0 or path.weights[name][0].any():
            return False, f"{name} does not start at zero"
    return True, "from zero by ngd, with one step size for each stage"


def _solved(run: SentenceRun, every: Mapping[int, Order], norm: str | Norm) -> dict[str, Columns]:
    """The problem of each trained matrix in this norm, by its name."""
    plain, out = norm_of(norm) == norm_of("frobenius"), {}
    if run.attention is not None:
        out["W_kq"] = (
            solve_attention(every, run.E)
            if plain
            else Columns.whole(solve(attention_problem(every, run.E), norm))
        )
    if run.decoder is not None:
        out["W_ov"] = (
            solve_decoder(run.data, run.E)
            if plain
            else Columns.whole(solve(decoder_problem(run.data, run.E), norm))
        )
    return out


def _decoder_loss(run: SentenceRun) -> float | None:
    """L_0 at the end of a first stage of its own."""
    if run.decoder is None or run.attention is None or run.joint:
        return None
    return float(run.decoder.loss[-1, 0])


def _finite(
    run: SentenceRun, every: Mapping[int, Order], found: Realizability
) -> FinitePart | None:
    """The finite part that the run tends to beside its direction, where it is known."""
    known = run.mass and orthonormal(run.E) and not run.uniform
    odd = any(found.counts[kind] for kind in ("no-optimal", "several-optimal"))
    if found.realizable or not known or odd or run.E.shape[0] != run.E.shape[1]:
        return None
    return finite_part(run.data, every)


def _losses(
    run: SentenceRun, found: Realizability, finite: FinitePart | None, *, known: bool
) -> tuple[float, float | None, float | None]:
    """(the loss at the end, its infimum, how far it is above it): None where it is not known.

    Over a frozen decoder the infimum is that of attention alone. known: it is, unless a problem
    has no solution, as where the embedding has too few dimensions to part the tokens.
    """
    loss = float(run.last.loss[-1, 0])
    if not known:
        return loss, None, None
    if run.attention is None:
        return loss, 0.0, loss  # one follower per token: L_0 goes to 0
    if finite is not None:
        return loss, finite.infimum, loss - finite.infimum
    if not found.realizable:
        return loss, None, None
    if run.mass or run.joint:
        return loss, 0.0, loss
    V, W = run.V, run.ends["W_kq"]
    infimum, best = 0.0, True
    for part in _parts(run.contexts):
        least, lowest = floors(part, V)
        infimum += float(part.weights @ least)
        best = best and bool(lowest.all())
    if not best:  # a decoder that mixes tokens: another attention is better than the optimal token
        return loss, None, None
    return loss, infimum, sum(excess(part, V, W) for part in _parts(run.contexts))


def excesses(run: SentenceRun, path: Path, infimum: float) -> Floats:
    """L − L⋆ at every record; by subtraction where exact sums would take long."""
    if infimum == 0 or run.mass or run.data.size * run.data.vocabulary > PART:
        return path.loss[:, 0] - infimum
    V, contexts = run.V, run.contexts
    return np.array([excess(contexts, V, one) for one in path.weights["W_kq"][:, 0]])


def _parts(contexts: Contexts) -> Iterator[Contexts]:
    """The contexts in parts, so that an array (S, K, N) of each is not large."""
    S, K = contexts.tokens.shape
    rows = max(PART // max(K * contexts.vocabulary, 1), 1)
    for start in range(0, S, rows):
        here = slice(start, start + rows)
        names = ("tokens", "log_counts", "queries", "labels", "weights", "slot", "known", "right")
        yield replace(contexts, **{name: getattr(contexts, name)[here] for name in names})


def _top_optimal(run: SentenceRun) -> float | None:
    """How often the most attended token, or the largest output, is the right one."""
    if run.attention is not None:
        contexts, top = Contexts.of(run.data, run.E), run.attention.top[-1, 0]
        return float(contexts.weights @ contexts.right[np.arange(len(top)), top])
    if run.decoder is None:
        return None
    follows = run.data.follows[run.data.follows >= 0]
    return float((run.decoder.top[-1, 0] == follows).mean())


def _attention_share(
    run: SentenceRun, problems: Mapping[str, Columns], every: Mapping[int, Order]
) -> float | None:
    """The least margin of W_kq over its norm, as a share of the best; None with ties."""
    ends = run.ends
    if "W_kq" not in ends or not all(order.acyclic for order in every.values()):
        return None
    U = run.E @ ends["W_kq"] @ run.E.T
    margins = [
        (U[order.tokens[hi], order.query] - U[order.tokens[lo], order.query]).min()
        for order in every.values()
        for hi, lo in [order.covers]
        if len(hi)
    ]
    return _share(problems["W_kq"], ends["W_kq"], margins)


def _decoder_share(run: SentenceRun, problems: Mapping[str, Columns]) -> float | None:
    """The least margin of W_ov over its norm, as a share of the best."""
    ends = run.ends
    if "W_ov" not in ends:
        return None
    tokens = np.flatnonzero(run.data.follows >= 0)
    V, after = run.E[tokens] @ ends["W_ov"].T, run.data.follows[tokens]
    rows = np.arange(len(tokens))
    own = V[rows, after]
    V[rows, after] = -np.inf
    return _share(problems["W_ov"], ends["W_ov"], list(own - V.max(axis=1)))


def _share(best: Columns, W: Floats, margins: list[Any]) -> float | None:
    if best.status == "infeasible" or not best.pieces or not margins or not np.any(W):
        return None
    size = float(best.pieces[0].norm.value(W))
    return float(np.clip(min(margins) * best.lower / size, 0.0, 1.0))
