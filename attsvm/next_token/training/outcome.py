"""SentenceOutcome: the end of a run on sentences against its predicted limits.

Each trained matrix is compared with the least-norm solution of its own problem: W_ov with the
collocations', W_kq with that of the orders that the sentences imply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import expect, whole
from attsvm._utils.files import finite
from attsvm._utils.result import Summary, Table, draw
from attsvm.errors import Unsupported
from attsvm.next_token.attention import Contexts
from attsvm.next_token.infimum import FinitePart, excess, finite_part, infima
from attsvm.next_token.order import Order, check_orders, orders
from attsvm.next_token.problems import (
    Columns,
    attention_problem,
    decoder_problem,
    solve_attention,
    solve_decoder,
)
from attsvm.next_token.realizable import Realizability, realizability
from attsvm.next_token.sentences import orthonormal
from attsvm.next_token.training.proofs import proof_of_run
from attsvm.next_token.training.train import SentenceRun
from attsvm.next_token.unseen import (
    UnseenAgreement,
    agreement,
    answer_unseen,
    draw_unseen,
    logit_accuracy,
    predict_unseen,
)
from attsvm.norms import Norm, norm_of
from attsvm.solvers.solve import solve
from attsvm.theory.convergence import ConvergenceProof
from attsvm.theory.limits import Limit, LimitCase, limit_of
from attsvm.theory.measures import correlation
from attsvm.training.optimizers.steps import length
from attsvm.training.path import Path, pulled_back

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

    @cached_property
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

    def ask_unseen(self, count: int, *, seed: int = 0) -> UnseenAgreement:
        """How the answers on `count` random unseen sentences agree with the solution's.

        Sentences have the lengths and the queries of the data. Raises Unsupported where there is no
        decoder or no solution.
        """
        count, seed = whole(count, "count", least=1), whole(seed, "seed", least=0)
        data, E = self.run.data, self.run.E
        best = self.certificates.get("W_kq")
        if best is None or self.run.objective.mass or best.status == "infeasible":
            raise Unsupported(
                "unseen sentences need trained attention, a decoder and a solution to compare with"
            )
        lengths = int(data.lengths.min()), int(data.lengths.max())
        words = draw_unseen(data, count, length=lengths, seed=seed)
        accuracy = logit_accuracy(orders(data), best, E)
        asked = predict_unseen(words, best.W, E, data.follows, accuracy=accuracy)
        answered = answer_unseen(words, self.run.W_ov, self.run.W_kq, E)
        return agreement(asked, answered)

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain data for JSON; infinities and unknown values are None."""
        run, paths = self.run, self.run.paths
        found = {
            "status": self.status,
            "model": run.model,
            "realizable": self.realizability.realizable,
            "faults": self.realizability.counts,
            "sentences": run.data.size,
            "vocabulary": run.data.vocabulary,
            "dimension": int(run.E.shape[1]),
            "loss": self.loss,
            "infimum": self.infimum,
            "excess": self.excess,
            "decoder_loss": self.decoder_loss,
            "norm": self.norm,
            "correlation": self.correlation,
            "margin_share": self.margin_share,
            "certificates": {name: best.to_dict() for name, best in self.certificates.items()},
            "top_optimal": self.top_optimal,
            "limit": self.limit.to_dict(),
            "proof": None if self.proof is None else self.proof.to_dict(),
            "steps": {name: int(path.steps[-1]) for name, path in paths.items()},
            "diverged": {name: path.diverged for name, path in paths.items()},
        }
        return dict(finite(found))

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
    >>> run = two_stages(data, steps=(200, 300))
    >>> sentence_outcome(run).top_optimal
    1.0
    """
    expect(run, SentenceRun, "run", make="SentenceRun.of(path, sentences) makes one")
    if every is not None:
        check_orders(every)
    every = orders(run.data) if every is None else every
    found = realizability(run.data, every)
    limit = _limit(run, found)
    problems = _solved(run, every, (limit.norm or "frobenius") if norm is None else norm)
    known = all(best.status != "infeasible" for best in problems.values())
    tied = _finite(run, every, found)
    with np.errstate(over="ignore", invalid="ignore"):
        loss, infimum, above = _losses(run, found, tied, known=known)
        ends = run.ends
        away = {name: W - tied.W if name == "W_kq" and tied else W for name, W in ends.items()}
        margins = {
            name: _attention_margins(run, every) if name == "W_kq" else _decoder_margins(run)
            for name in ends
        }
        return SentenceOutcome(
            run,
            limit,
            found,
            problems,
            loss,
            infimum,
            above,
            None if run.joint or len(ends) < 2 else float(run.paths["W_ov"].loss[-1, 0]),
            {name: float(length(W[None])[0]) for name, W in ends.items()},
            {name: float(correlation(away[name], best.W)) for name, best in problems.items()},
            {name: _share(best, ends[name], margins[name]) for name, best in problems.items()},
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
        readout=run.last.config.get("readout", "softmax"),
        schedule=config.get("schedule"),
        decay=pulled_back(config),
    )
    return limit_of("next-token", config["optimizer"], stands_for, case, name="next-token")


def _staged(run: SentenceRun) -> tuple[bool | None, str]:
    """Whether W_ov was trained first and then frozen, and what shows it."""
    if run.joint:
        return False, "both were trained at once"
    if run.objective.mass:
        return False, "the readout is mass: there is no W_ov"
    if run.decoder is None:
        return None, "it is not known how the frozen W_ov was trained"
    return True, "it was trained on the collocations"


def _steady(run: SentenceRun) -> tuple[bool, str]:
    """Whether every stage starts at zero and takes normalized steps of one length, or which not."""
    for name, path in reversed(run.paths.items()):
        config = path.config
        if config["optimizer"] not in ("ngd", "nmirror:2"):  # no other optimizer has these names
            return False, f"the optimizer of {name} is {config['optimizer']}"
        if config.get("schedule") != "constant" or pulled_back(config):
            return False, f"the steps of {name} have a schedule, a ridge or decay"
        if path.steps[0] != 0 or path.weights[name][0].any():
            return False, f"{name} does not start at zero"
    return True, "from zero by ngd, with one step size for each stage"


def _solved(run: SentenceRun, every: Mapping[int, Order], norm: str | Norm) -> dict[str, Columns]:
    """The problem of each trained matrix in this norm, by its name."""
    if norm_of(norm) == norm_of("frobenius"):
        return {
            name: solve_attention(every, run.E)
            if name == "W_kq"
            else solve_decoder(run.data, run.E)
            for name in run.paths
        }
    problems = {
        name: attention_problem(every, run.E)
        if name == "W_kq"
        else decoder_problem(run.data, run.E)
        for name in run.paths
    }
    return {name: Columns.whole(solve(problem, norm)) for name, problem in problems.items()}


def _finite(
    run: SentenceRun, every: Mapping[int, Order], found: Realizability
) -> FinitePart | None:
    """The finite part that the run tends to beside its direction, where it is known."""
    known = run.objective.mass and orthonormal(run.E) and not run.objective.uniform
    odd = any(found.counts[kind] for kind in ("no-optimal", "several-optimal"))
    if found.realizable or not known or odd or run.E.shape[0] != run.E.shape[1]:
        return None
    return finite_part(run.data, every)


def _losses(
    run: SentenceRun, found: Realizability, tied: FinitePart | None, *, known: bool
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
    if tied is not None:
        return loss, tied.infimum, loss - tied.infimum
    if not found.realizable:
        return loss, None, None
    if run.objective.mass or run.joint:
        return loss, 0.0, loss
    V, W = run.V, run.ends["W_kq"]
    infimum, best = 0.0, True
    for part in _parts(run.objective.contexts):
        least, lowest = infima(part, V)
        infimum += float(part.weights @ least)
        best = best and bool(lowest.all())
    if not best:  # a decoder that mixes tokens: another attention is better than the optimal token
        return loss, None, None
    return loss, infimum, sum(excess(part, V, W) for part in _parts(run.objective.contexts))


def excesses(run: SentenceRun, path: Path, infimum: float) -> Floats:
    """L − L⋆ at every record; by subtraction where exact sums would take long."""
    if infimum == 0 or run.objective.mass or run.data.size * run.data.vocabulary > PART:
        return path.loss[:, 0] - infimum
    V, contexts = run.V, run.objective.contexts
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


def _attention_margins(run: SentenceRun, every: Mapping[int, Order]) -> list[Any]:
    """The least margin of W_kq in each order; none with ties."""
    if not all(order.acyclic for order in every.values()):
        return []
    U = run.E @ run.ends["W_kq"] @ run.E.T
    return [
        (U[order.tokens[hi], order.query] - U[order.tokens[lo], order.query]).min()
        for order in every.values()
        for hi, lo in [order.covers]
        if len(hi)
    ]


def _decoder_margins(run: SentenceRun) -> list[Any]:
    """The least margin of W_ov of each token with a follower."""
    tokens = np.flatnonzero(run.data.follows >= 0)
    V, after = run.E[tokens] @ run.ends["W_ov"].T, run.data.follows[tokens]
    rows = np.arange(len(tokens))
    own = V[rows, after]
    V[rows, after] = -np.inf
    return list(own - V.max(axis=1))


def _share(best: Columns, W: Floats, margins: list[Any]) -> float | None:
    """The least margin over the norm of W, as a share of the best; None where it is not known."""
    if best.status == "infeasible" or not best.pieces or not margins or not np.any(W):
        return None
    size = float(best.pieces[0].norm.value(W))
    return float(np.clip(min(margins) * best.lower / size, 0.0, 1.0))
