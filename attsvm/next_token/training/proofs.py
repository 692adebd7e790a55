"""Proofs that training of attention on sentences has converged: tube, cone and power cone.

A sentence X of weight π with tokens t of multiplicity m_t, query q, label y and kept token α has
rows (E_α − E_t) E_qᵀ. With V_t = W_ov E_t, s the attention and z = Σ s_t V_t the outputs,

    −∇L = Σ_k q_k e^−m_k a_k,    q_k = π (m_t/m_α) ⟨e_y − softmax(z), z − V_t⟩ / (1 + o)

for the readout "softmax", and q_k = π (m_t/m_α)/(1 + o) for "mass", where o = Σ (m_t/m_α) e^−m_t:
the same form as with a linear head. So the same theorems hold, with these q_k and their errors.

docs/convergence-sentences.md has the formulas with their proofs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.expected import positive
from attsvm._utils.interval import Interval, up
from attsvm._utils.memory import require
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.order import orders
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.training.train import SentenceObjective, SentenceRun, decoder_of
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.proof import Blocked, ConvergenceProof, read_fields
from attsvm.theory.convergence.prover import (
    Geometry,
    Prover,
    check_W,
    covered_step,
    covered_steps,
)
from attsvm.theory.convergence.rows import (
    Rows,
    Singles,
    merge_rows,
    shift_of,
    sum_by,
    sum_intervals_by,
)
from attsvm.training.losses import loss_of
from attsvm.training.optimizers import RuleLike, optimizer_of

# The arrays of Sentences in a saved proof.
_PARTS = ("words", "labels", "counts", "lines", "follows", "follow_counts")
_GROW = 1 + 2.0**-46
# Tokens of sentences up to which a proof is tried at the end of a run.
MOST = 6000


@dataclass(frozen=True, eq=False, repr=False)
class SentenceProof(ConvergenceProof):
    """A ConvergenceProof of attention W_kq on sentences.

    tokens: each sentence's distinct tokens as an input; selection (S,): places among these. head:
    the decoder W_ov (N, d), empty for the readout "mass". loss: the readout. float_steps is 0.

    >>> from attsvm.next_token import Sentences
    >>> data = Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> W = [[-30.0, -30.0, 0], [30.0, 30.0, 0], [0, 0, 0]]
    >>> proof = proof_of_convergence(data, W, readout="mass")
    >>> proof.theorem, proof.selection, proof.verify().ok
    ('tube', array([1, 1]), True)
    """

    objective: Any = None

    def _prover(self) -> Prover:
        return _prover(self.objective, self.optimizer, self.lr)

    def _arrays(self) -> dict[str, Any]:
        objective = self.objective
        parts = {name: getattr(objective.sentences, name) for name in _PARTS}
        parts |= {name: getattr(objective, name) for name in ("E", "weights", "readout")}
        return super()._arrays() | {f"sentences.{name}": part for name, part in parts.items()}

    @classmethod
    def _fields(cls, file: Path, found: dict[str, Any]) -> dict[str, Any]:
        names = [f"sentences.{name}" for name in (*_PARTS, "E", "weights", "readout")]
        missing = [name for name in names if name not in found]
        if missing:
            raise BadTokens(f"{file} is not a proof on sentences: it has no array {missing[0]}")
        whole = {name: found[f"sentences.{name}"] for name in _PARTS}
        if any(array.dtype.kind not in "iu" for array in whole.values()):
            raise BadTokens(f"{file}: the sentences are not whole numbers")
        sentences = Sentences(**{name: array.astype(np.int64) for name, array in whole.items()})
        readout = str(found["sentences.readout"])
        objective = SentenceObjective.of(
            sentences,
            "next-token",
            head=None if readout == "mass" else found["head"],
            embedding=found["sentences.E"],
            readout=readout,
            weights=str(found["sentences.weights"]),
        )
        shape = (0, 0) if objective.mass else objective.E.shape
        fields = read_fields(file, found, sentence_tokens(objective), shape)
        return fields | {"objective": objective}


@dataclass(frozen=True, eq=False)
class SentenceProver(Prover):
    """Proofs for W_kq under gradient or mirror descent."""

    objective: Any = None

    def rows_for(self, alpha: Ints) -> Rows:
        """The rows of one kept token per sentence, given by its place."""
        return sentence_rows(self.objective, alpha)

    def problem_for(self, alpha: Ints) -> Problem:
        """The max-margin problem of these rows, equal ones once."""
        rows, objective = self.rows_for(alpha), self.objective
        tokens = objective.contexts.tokens
        return Problem(
            objective.E,
            objective.E,
            tokens[rows.inputs, alpha[rows.inputs]],
            tokens[rows.inputs, rows.places],
            objective.contexts.queries[rows.inputs],
            np.ones(rows.count),
        )

    def multipliers_for(self, rows: Rows, certificate: Certificate) -> Floats:
        """The problem has the rows in their order."""
        return np.asarray(certificate.multipliers, dtype=np.float64)

    def _level(self, W: Floats, at: Geometry) -> dict[str, Any] | None:
        return None

    def _made(
        self, W: Floats, alpha: Ints, at: Geometry, found: dict[str, Any]
    ) -> ConvergenceProof:
        if "blocked" in found:
            found = {"blocked": _in_words(self.objective, found["blocked"])}
        made = super()._made(W, alpha, at, found | {"float_steps": 0})
        own = {"loss": self.objective.readout, "objective": self.objective}
        return SentenceProof(**vars(made) | own)


def proof_of_convergence(
    sentences: Sentences,
    W: Any,
    *,
    head: Any = None,
    optimizer: RuleLike = "ngd",
    lr: float = 0.1,
    embedding: Any = "orthonormal",
    readout: str = "softmax",
    weights: str = "empirical",
) -> ConvergenceProof:
    """A proof that training of attention from W_kq (d, d) keeps its tokens and converges in
    direction, or what blocks it; head: the frozen decoder W_ov, none for the readout "mass".

    >>> from attsvm.next_token import Sentences
    >>> data = Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> W = [[-30.0, -30.0, 0], [30.0, 30.0, 0], [0, 0, 0]]
    >>> proof_of_convergence(data, W, readout="mass").theorem
    'tube'
    """
    if not isinstance(sentences, Sentences):
        raise BadTokens("a proof of convergence on sentences needs Sentences: Sentences.of(lines)")
    size = positive(lr, "lr")
    objective = SentenceObjective.of(
        sentences, "next-token", head=head, embedding=embedding, readout=readout, weights=weights
    )
    made = _prover(objective, optimizer, size)
    return made.prove(check_W(made.tokens, W))


def proof_of_run(run: SentenceRun) -> ConvergenceProof | None:
    """The proof for the end of a run of attention; None where no theorem covers it."""
    path = run.attention
    if path is None or run.joint or path.diverged >= 0:
        return None
    if run.data.size * run.objective.contexts.tokens.shape[1] > MOST:
        return None
    try:
        lr, steady = covered_step(path.config, int(path.steps[-1]))
        if not steady:
            return None
        return _prover(run.objective, path.config["optimizer"], lr).prove(run.ends["W_kq"])
    except Unsupported:
        return None


def _prover(objective: SentenceObjective, optimizer: RuleLike, lr: float) -> Prover:
    """The prover of an objective and an optimizer."""
    made = optimizer_of(optimizer)
    p, plain = covered_steps(made)
    tokens = sentence_tokens(objective)
    head = np.empty((0, 0)) if objective.mass else decoder_of(objective.head, objective.E)
    loss = loss_of("logistic")
    return SentenceProver(tokens, head, loss, made.name, lr, plain, p=p, objective=objective)


def sentence_tokens(objective: SentenceObjective) -> Tokens:
    """The distinct tokens of each sentence as the tokens of an input."""
    contexts = objective.contexts
    there = contexts.tokens >= 0
    S, K = there.shape
    require(24.0 * S * K * objective.E.shape[1], f"the tokens of {S} sentences")
    X = np.where(there[:, :, None], objective.E[contexts.tokens], 0.0)
    return Tokens(X, queries=objective.E[contexts.queries], mask=there)


def sentence_rows(objective: SentenceObjective, alpha: Ints) -> Rows:
    """The rows of the tokens at places alpha (S,), one kept in each sentence.

    Raises BadTokens where softmax never settles on one token, and Unsupported where the readout is
    mass and the kept token is not the only optimal one: no theorem covers ties.
    """
    contexts, sentences, E = objective.contexts, objective.sentences, objective.E
    if objective.mass:
        _check_optimal(objective, alpha)
    rivals = contexts.tokens >= 0
    rivals[np.arange(len(alpha)), alpha] = False
    inputs, places = rivals.nonzero()
    kept = contexts.tokens[inputs, alpha[inputs]]
    other = contexts.tokens[inputs, places]
    single = Singles(E[kept], E[other], E[contexts.queries[inputs]], inputs, places)
    counts = sentences.distinct[1].astype(np.float64)
    times = (counts[inputs, places], counts[inputs, alpha[inputs]])

    def pull_of(group: Ints) -> MassPull | OutputPull:
        mass = MassPull.of(contexts.weights, inputs, group, times)
        if objective.mass:
            return mass
        W_ov = decoder_of(objective.head, E)
        kept_all = contexts.tokens[np.arange(len(alpha)), alpha]
        return OutputPull.over(mass, (E, W_ov), (kept_all, contexts.labels), other)

    a = shift_of(E)
    return merge_rows(single, alpha, (a, a), pull_of)


def _in_words(objective: SentenceObjective, blocked: Blocked) -> Blocked:
    """What blocks a proof, with the words of its row, and with a tie where there is one."""
    sentences = objective.sentences
    if blocked.row is not None:
        s, place = blocked.row
        word = sentences.word(int(objective.contexts.tokens[s, place]))
        said = f" ({word!r} in {sentences.where(s)}: {sentences.text(s)})"
        blocked = replace(blocked, reason=blocked.reason + said)
    for query, order in orders(sentences).items():
        if not order.acyclic:
            tokens, seen = order.cycle()
            words = ", ".join(repr(sentences.word(t)) for t in tokens)
            more = (
                f"; after {sentences.word(query)!r} the tokens {words} are tied, as in "
                f"{sentences.where(seen[0])} ({sentences.text(seen[0])}): no theorem covers ties"
            )
            return replace(blocked, reason=blocked.reason + more)
    return blocked


def _check_optimal(objective: SentenceObjective, alpha: Ints) -> None:
    """Raises Unsupported unless each sentence keeps its one optimal token."""
    right, sentences = objective.contexts.right, objective.sentences
    count = right.sum(axis=1)
    for s in (count != 1).nonzero()[0]:
        what = "no token" if not count[s] else f"{int(count[s])} tied tokens"
        raise Unsupported(
            f"{sentences.where(int(s))} ({sentences.text(int(s))}) has {what} that its label "
            "follows: no theorem of convergence covers ties under the readout mass"
        )
    wrong = (~right[np.arange(len(alpha)), alpha]).nonzero()[0]
    if len(wrong):
        s = int(wrong[0])
        word = sentences.word(int(objective.contexts.tokens[s, alpha[s]]))
        raise Unsupported(
            f"{sentences.where(s)} ({sentences.text(s)}) attends to {word!r}, which its label does "
            "not follow: the readout mass pulls it away with full strength"
        )


@dataclass(frozen=True, eq=False)
class MassPull:
    """q_k = π (m_t/m_α)/(1 + o): the pull of the readout mass at the one optimal token.

    share (k,): π m_t/m_α of single rows; ratio (k,): m_t/m_α, rounded up; owner (k,): their
    sentence; group (k,): their merged row; sentences: S.
    """

    limit: Interval
    share: Interval
    ratio: Floats
    owner: Ints
    group: Ints
    sentences: int

    @classmethod
    def of(
        cls, weights: Floats, owner: Ints, group: Ints, times: tuple[Floats, Floats]
    ) -> MassPull:
        """The pull of single rows; times: how often the other and the kept token occur, (k,)."""
        ratio = Interval(times[0]) / times[1]
        share = ratio * weights[owner]
        return cls(sum_intervals_by(share, group), share, ratio.hi, owner, group, len(weights))

    def summed(self, single: Floats, weight: Floats) -> Floats:
        """Σ_t (m_t/m_α) e^−m_t weight_t of each sentence, (..., S), rounded up."""
        shape = (*single.shape[:-1], self.sentences)
        grow = 1 + (self.owner.size + 8) * 2.0**-53
        return np.asarray(sum_by(single * self.ratio * weight * _GROW, self.owner, shape) * grow)

    def error(self, e: Floats) -> Floats:
        """π (m_t/m_α) o, as |1/(1 + o) − 1| ≤ o."""
        o = self.summed(e[..., self.group], np.ones(len(self.group)))
        part = self.share.hi * o[..., self.owner] * _GROW
        return self.collected(part, e.shape)

    def collected(self, part: Floats, shape: tuple[int, ...]) -> Floats:
        """Sums of single rows' numbers ≥ 0 by merged row, rounded up."""
        grow = 1 + (self.owner.size + 8) * 2.0**-53
        return np.asarray(sum_by(up(part), self.group, shape) * grow)

    def between(self, e: Floats) -> tuple[Floats, Floats]:
        """The limit less and more than its error."""
        error = self.error(e)
        return (self.limit - error).lo, (self.limit + error).hi


@dataclass(frozen=True, eq=False)
class OutputPull(MassPull):
    """q_k = π (m_t/m_α) ⟨e_y − softmax(z), z − V_t⟩/(1 + o): attention over a frozen decoder.

    With σ = softmax(V_α) and b_j = (V_α − V_t)_y − (V_α − V_t)_j, j ≠ y: gap (k,): Σ σ_j b_j, the
    limit of the product; reach (k,): Σ σ_j |b_j|; range (k,): max − min of V_t − V_α.
    """

    gap: Interval
    reach: Floats
    range: Floats

    @classmethod
    def over(
        cls,
        mass: MassPull,
        decoder: tuple[Floats, Floats],
        kept: tuple[Ints, Ints],
        other: Ints,
    ) -> OutputPull:
        """decoder: E and W_ov; kept: the kept token and the label of every sentence; other (k,):
        the other token of each single row."""
        E, W_ov = decoder
        alpha, labels = kept
        k = len(other)
        low, high, reach, wide = np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k)
        V = Interval(E) @ np.ascontiguousarray(W_ov.T)
        if np.array_equal(E, np.eye(*E.shape)):
            V = Interval(np.ascontiguousarray(W_ov.T[: len(E)]))
        for s in np.unique(mass.owner):
            index = (mass.owner == s).nonzero()[0]
            top, y = int(alpha[s]), int(labels[s])
            apart = V[other[index]] - V[top]
            same = _same(V, top, other[index])
            wide[index] = up(apart.hi.max(axis=1) - apart.lo.min(axis=1))
            own = V[top]
            odds = (own - own[y]).exp()
            off = np.arange(len(odds.lo)) != y
            sigma = odds[off] / (odds[off].sum() + 1.0)
            b = apart[:, off] - Interval(apart.lo[:, y : y + 1], apart.hi[:, y : y + 1])
            gap = (sigma * b).sum(axis=1)
            low[index], high[index] = np.where(same, 0.0, gap.lo), np.where(same, 0.0, gap.hi)
            reach[index] = np.where(same, 0.0, (sigma * Interval(b.size)).sum(axis=1).hi)
        gap = Interval(low, high)
        single = mass.share * gap
        zero = (low == 0) & (high == 0)
        single = Interval(np.where(zero, 0.0, single.lo), np.where(zero, 0.0, single.hi))
        return cls(
            sum_intervals_by(single, mass.group),
            mass.share,
            mass.ratio,
            mass.owner,
            mass.group,
            mass.sentences,
            gap,
            reach,
            wide,
        )

    def error(self, e: Floats) -> Floats:
        """π (m_t/m_α) [(e^φ − 1) reach_t + e^φ Σ_u (m_u/m_α) e^−m_u reach_u + |gap| o]."""
        single = e[..., self.group]
        o = self.summed(single, np.ones(len(self.group)))
        phi = self.summed(single, self.range)
        moved = self.summed(single, self.reach)
        with np.errstate(over="ignore", invalid="ignore"):
            raised = Interval(phi).exp().hi
            more = np.where(phi < 0.5, phi * (1 + phi), raised)  # e^φ − 1 ≤ φ + φ² for φ ≤ 1
            more = np.minimum(more, raised)[..., self.owner]
            part = more * self.reach + (raised * moved)[..., self.owner]
            part = part + self.gap.size * o[..., self.owner]
            part = np.nan_to_num(part * self.share.hi * _GROW, nan=np.inf, posinf=np.inf)
        return self.collected(part, e.shape)


def _same(V: Interval, top: int, other: Ints) -> Bools:
    """Which rows of V are known to be the top one's in every digit."""
    return np.asarray(
        (V.lo[other] == V.lo[top]).all(axis=1)
        & (V.hi[other] == V.lo[other]).all(axis=1)
        & bool((V.hi[top] == V.lo[top]).all())
    )
