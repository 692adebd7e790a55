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
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints, detached, numbers
from attsvm._utils.memory import require
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.order import orders
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.training.pulls import MassPull, OutputPull
from attsvm.next_token.training.task import Lesson, decoder_of
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.proof import Blocked, ConvergenceProof
from attsvm.theory.convergence.prove import covered_step
from attsvm.theory.convergence.prover import Finding, Geometry, PowerProver, Prover, covered_steps
from attsvm.theory.convergence.rows import Rows, Singles, merge_rows, shift_of
from attsvm.theory.convergence.verify import Recheck, recheck
from attsvm.training.losses import loss_of
from attsvm.training.optimizers import RuleLike, optimizer_of

if TYPE_CHECKING:
    from attsvm.next_token.training.runs import SentenceRun

_NONE = np.empty(0, np.int64)
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

    lesson: Any = None

    def verify(self) -> Recheck:
        """The verdict of a recomputation from sentences, W and witness alone, in intervals."""
        return recheck(self, lambda: _prover(self.lesson, self.optimizer, self.lr))

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the proof with its sentences as an .npz file without pickles, in one move."""
        from attsvm.next_token.training.saved_proofs import save_proof

        save_proof(self, path, force=force)

    @staticmethod
    def load(path: str | Path) -> SentenceProof:
        """The proof saved in this file; its claims are not checked before `verify` is."""
        from attsvm.next_token.training.saved_proofs import load_proof

        return load_proof(path)


class _OfSentences(Prover):
    """What a prover does differently for sentences."""

    lesson: Any

    def rows_for(self, alpha: Ints) -> Rows:
        """The rows of one kept token per sentence, given by its place."""
        return sentence_rows(self.lesson, alpha)

    def problem_for(self, alpha: Ints) -> Problem:
        """The max-margin problem of these rows, equal ones once."""
        rows, lesson = self.rows_for(alpha), self.lesson
        tokens = lesson.contexts.tokens
        hi = tokens[rows.inputs, alpha[rows.inputs]]
        m = rows.count
        return Problem(
            lesson.E,
            lesson.E,
            hi,
            tokens[rows.inputs, rows.places],
            lesson.contexts.queries[rows.inputs],
            np.ones(m),
            _NONE,
            _NONE,
            _NONE,
            np.empty(0),
        )

    def multipliers_for(self, rows: Rows, certificate: Certificate) -> Floats:
        """The problem has the rows in their order."""
        return np.asarray(certificate.multipliers, dtype=np.float64)

    def _level(
        self, W: Floats, given: Floats, alpha: Ints, at: Geometry
    ) -> ConvergenceProof | None:
        return None

    def _made(self, W: Floats, alpha: Ints, at: Geometry, found: Finding) -> ConvergenceProof:
        if found.blocked is not None:
            found = found._replace(blocked=_in_words(self.lesson, found.blocked))
        made = super()._made(W, alpha, at, found._replace(covered=0))
        fields = {name: getattr(made, name) for name in ConvergenceProof.__dataclass_fields__}
        return SentenceProof(**fields | {"loss": self.lesson.readout, "lesson": self.lesson})


@dataclass(frozen=True, eq=False)
class SentenceProver(_OfSentences, Prover):
    """Proofs for W_kq under gradient descent, plain or normalized."""

    lesson: Any = None


@dataclass(frozen=True, eq=False)
class SentencePowerProver(_OfSentences, PowerProver):
    """Proofs for W_kq under mirror descent."""

    lesson: Any = None


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
    if not (isinstance(lr, int | float | np.floating) and 0 < float(lr) < np.inf):
        raise Unsupported(f"lr is {lr!r}: a proof needs a positive step")
    lesson = Lesson.of(
        sentences, "next-token", head=head, embedding=embedding, readout=readout, weights=weights
    )
    d = lesson.E.shape[1]
    array = numbers(detached(W), "W").astype(np.float64)
    if array.shape != (d, d) or not np.isfinite(array).all():
        raise BadTokens(f"W has shape {np.shape(W)}; it must be ({d}, {d}) and finite")
    return _prover(lesson, optimizer, float(lr)).prove(np.ascontiguousarray(array))


def proof_of_run(run: SentenceRun) -> ConvergenceProof | None:
    """The proof for the end of a run of attention; None where no theorem covers it."""
    path = run.attention
    if path is None or run.joint or path.diverged >= 0:
        return None
    if run.data.size * run.contexts.tokens.shape[1] > MOST:
        return None
    try:
        lr, steady = covered_step(path.config, int(path.steps[-1]))
        if not steady:
            return None
        return proof_of_convergence(
            run.data,
            run.ends["W_kq"],
            head=run.ends.get("W_ov", run.frozen),
            optimizer=path.config["optimizer"],
            lr=lr,
            embedding=run.E,
            readout="mass" if run.mass else "softmax",
            weights="uniform" if run.uniform else "empirical",
        )
    except Unsupported:
        return None


def _prover(lesson: Lesson, optimizer: RuleLike, lr: float) -> Prover:
    """The prover of a lesson and an optimizer."""
    made = optimizer_of(optimizer)
    p, plain = covered_steps(made)
    tokens = sentence_tokens(lesson)
    head = np.empty((0, 0)) if lesson.mass else decoder_of(lesson.head, lesson.E)
    loss = loss_of("logistic")
    if p == 2:
        return SentenceProver(tokens, head, loss, made.name, lr, plain, lesson=lesson)
    return SentencePowerProver(tokens, head, loss, made.name, lr, plain, p=p, lesson=lesson)


def sentence_tokens(lesson: Lesson) -> Tokens:
    """The distinct tokens of each sentence as the tokens of an input."""
    contexts = lesson.contexts
    there = contexts.tokens >= 0
    S, K = there.shape
    require(24.0 * S * K * lesson.E.shape[1], f"the tokens of {S} sentences")
    X = np.where(there[:, :, None], lesson.E[contexts.tokens], 0.0)
    return Tokens(X, queries=lesson.E[contexts.queries], mask=there)


def sentence_rows(lesson: Lesson, alpha: Ints) -> Rows:
    """The rows of the tokens at places alpha (S,), one kept in each sentence.

    Raises BadTokens where softmax never settles on one token, and Unsupported where the readout is
    mass and the kept token is not the only optimal one: no theorem covers ties.
    """
    contexts, sentences, E = lesson.contexts, lesson.sentences, lesson.E
    if lesson.mass:
        _check_optimal(lesson, alpha)
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
        if lesson.mass:
            return mass
        W_ov = decoder_of(lesson.head, E)
        kept_all = contexts.tokens[np.arange(len(alpha)), alpha]
        return OutputPull.over(mass, (E, W_ov), (kept_all, contexts.labels), other)

    a = shift_of(E)
    return merge_rows(single, alpha, (a, a), pull_of)


def _in_words(lesson: Lesson, blocked: Blocked) -> Blocked:
    """What blocks a proof, with the words of its row, and with a tie where there is one."""
    sentences = lesson.sentences
    if blocked.row is not None:
        s, place = blocked.row
        word = sentences.word(int(lesson.contexts.tokens[s, place]))
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


def _check_optimal(lesson: Lesson, alpha: Ints) -> None:
    """Raises Unsupported unless each sentence keeps its one optimal token."""
    right, sentences = lesson.contexts.right, lesson.sentences
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
        word = sentences.word(int(lesson.contexts.tokens[s, alpha[s]]))
        raise Unsupported(
            f"{sentences.where(s)} ({sentences.text(s)}) attends to {word!r}, which its label does "
            "not follow: the readout mass pulls it away with full strength"
        )
