"""Premises of the table of limits: those that the data decide are checked, the others are named.

Every check takes a Case and gives (holds, detail); holds is None where nothing can be said.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints, rectangular
from attsvm._utils.objects import lazy
from attsvm.certificate import Certificate
from attsvm.errors import BadSelection, ConvergenceWarning, Infeasible, NotConverged
from attsvm.next_token.realizable import Realizability, realizability
from attsvm.next_token.sentences import Sentences
from attsvm.problem.selection import Kept, Selection
from attsvm.problem.tokens import Tokens, checked_tokens
from attsvm.solvers.solve import Certificates
from attsvm.solvers.solve_sets import supporting
from attsvm.theory.optima import score_gaps
from attsvm.training.heads import Head, head_of
from attsvm.training.losses import Loss

Verdict = tuple[bool | None, str]

# Inner products up to this far from those of orthonormal vectors are rounding.
_RIGHT_ANGLE = 1e-12

_NO_TOKENS: Verdict = (None, "give tokens and head to check it")


@dataclass(frozen=True)
class Premise:
    """A condition of a statement: whether it holds here (None: not checked), and what shows it.

    needed: without it the statement does not follow; one that is not needed spares another.
    """

    name: str
    holds: bool | None
    detail: str
    needed: bool = True


@dataclass(frozen=True, eq=False)
class Case:
    """The data that premises are checked on, and what is known of the run.

    loss: None where it is an object that is not at hand. selected: the token of each input that the
    run selects (n,). reach: the largest rank that the product of the factors can have, `reach_of`
    their start. trained: the head was trained, and names the
    best tokens as it stands. embedding: that of the sentences;
    realizable: what is known of them already; staged: (whether W_ov was trained before W_kq, what
    shows it). schedule, decay: of the steps, None where nothing is known of them.
    """

    tokens: Tokens | None
    head: Any
    loss: Loss | None
    sentences: Sentences | None = None
    selected: Ints | None = None
    reach: int | None = None
    trained: bool = False
    embedding: Floats | None = None
    realizable: Realizability | None = None
    staged: Verdict = (None, "a property of the run")
    steady: Verdict = (None, "a property of the run")
    schedule: str | None = None
    decay: float | None = None

    @lazy
    def read(self) -> Head | None:
        """The head; a bare vector is the linear one."""
        if self.head is None or isinstance(self.head, Head):
            return self.head
        d = self.tokens.d if self.tokens is not None else _entries(self.head)
        return head_of(self.head, d)

    @lazy
    def vector(self) -> Floats | None:
        """v (d,) of one linear head; None for any other."""
        head = self.read
        v = None if head is None else head.vector
        return v[0] if v is not None and len(v) == 1 else None

    @lazy
    def best(self) -> Selection | str | None:
        """The best tokens under the head; a sentence where two share the highest score."""
        if self.tokens is None or self.vector is None:
            return None
        try:
            return Selection.best(self.tokens, self.vector)
        except BadSelection as error:
            return str(error)

    @lazy
    def solved(self) -> Certificates:
        """The certificates of selections of these tokens, each solved once."""
        return Certificates(checked_tokens(self.tokens))

    def certificate(
        self, keep: Kept, norm: str = "frobenius", *, labels: bool = False
    ) -> Certificate:
        """One of `solved`, without a warning: what stops early is not checked."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.solved.of(keep, norm, labels=labels)


def _entries(head: Any) -> int:
    """The number of entries of a vector, or of each of a stack."""
    return int((0, *rectangular(head, "the head").shape)[-1])


def _linear_head(case: Case) -> Verdict:
    if case.read is None:
        return None, "give the head to check it"
    return case.read.linear, f"the head is {case.read.name}"


def _loss(case: Case) -> Verdict:
    if case.loss is None:
        return None, "the loss is an object that is not at hand"
    return case.loss.best == np.inf, f"the loss is {case.loss.name}"


def _one_best(case: Case) -> Verdict:
    if case.best is None:
        return _NO_TOKENS
    if isinstance(case.best, str):
        return False, case.best
    by = " under the trained decoder" if case.trained else ""
    return True, f"each input has one token of highest score{by}"


def _separable(case: Case) -> Verdict:
    # Separability is the same in every norm, and Frobenius settles it fastest.
    if case.tokens is None or not isinstance(case.best, Selection):
        return None, "there is no selection of best tokens to check it on"
    try:
        found = case.certificate(case.best)
    except BadSelection as error:
        return True, str(error)
    if found.W is None:
        return False if found.proof == "exact" else None, found.message
    return True, f"a matrix of Frobenius norm {found.upper:.6g} selects the best tokens"


def _equal_others(case: Case) -> Verdict:
    tokens, best = case.tokens, case.best
    if tokens is None or not isinstance(best, Selection):
        return _NO_TOKENS
    others = tokens.present() & ~best.kept
    some = others.any(axis=1)
    first = np.where(some, others.argmax(axis=1), best.indices)
    _, tied = score_gaps(tokens, first, case.vector)
    wrong = others & ~tied
    if wrong.any():
        i, t = (int(k) for k in np.argwhere(wrong)[0])
        detail = f"tokens {int(first[i])} and {t} of input {i} differ in score: the start decides"
        return False, detail
    if tokens.n == 1:
        return True, "then any start will do"
    return True, "then most starts will do; far ones can hold to the solution of fewer inputs"


def _start(case: Case) -> Verdict:
    """Near the limit's direction, or anywhere where one input's other tokens share one score."""
    if case.tokens is not None and case.tokens.n == 1 and _equal_others(case)[0]:
        return True, "any start will do: there is one input, whose other tokens share one score"
    return None, "a property of the run, not of the data"


def _labels(case: Case) -> Verdict:
    if case.tokens is None:
        return None, "give tokens to check it"
    if case.tokens.labels is None:
        return False, "labels are missing"
    return True, "each input has a label"


def _support(case: Case) -> Verdict:
    if case.tokens is None or case.tokens.labels is None or not isinstance(case.best, Selection):
        return None, "give tokens with labels, and a head that names the best tokens"
    try:
        support = supporting(case.certificate(case.best, labels=True))
    except Infeasible:
        return False, "no decoder separates the labels at the best tokens"
    except NotConverged as error:
        return None, str(error)
    if support.all():
        return True, "the limit solves the problem with margin 1 everywhere"
    loose = (~support).nonzero()[0].tolist()
    return False, f"inputs {loose} do not: the limit solves the relaxed problem"


def _small_step(case: Case) -> Verdict:
    if case.schedule not in (None, "constant"):
        return False, f"the schedule is {case.schedule}"
    return None, "at most one over the gradient's Lipschitz constant"


def _no_decay(case: Case) -> Verdict:
    if case.decay is None:
        return None, "a property of the run"
    return case.decay == 0, f"the decay is {case.decay:g}; any keeps the norm from growing"


def reach_of(K: Floats, Q: Floats) -> int:
    """The largest rank of K Qᵀ in a run from these factors.

    Steps along the gradients (G Q, Gᵀ K), normalized or orthogonalized, with decay or momentum,
    keep every vector c with K c = 0 and Q c = 0: equal columns stay equal.
    """
    return min(int(np.linalg.matrix_rank(np.concatenate([K, Q]))), len(K), len(Q))


def _reach(norm: str | None) -> Callable[[Case], Verdict]:
    """Compares with the rank of the solution at the tokens that the run selects, else at the best.

    norm None: solutions of many ranks.
    """

    def check(case: Case) -> Verdict:
        if case.tokens is None:
            return None, "the start is not known here"
        most = min(case.tokens.n, case.tokens.keys.shape[-1], case.tokens.queries.shape[1])
        if case.reach is None:
            return None, f"the start is not known here; a rank of {most} always suffices"
        said = f"from its start K Qᵀ has a rank of at most {case.reach}"
        if case.reach >= most:
            return True, f"{said}; {most} always suffices"
        kept = case.best if case.selected is None else case.selected
        if norm is None or kept is None or isinstance(kept, str):
            return None, f"{said}; the limit may need up to {most}"
        try:
            rank = case.certificate(kept, norm).rank
        except BadSelection as error:
            return True, str(error)
        if rank is None:
            return None, f"{said}; no solution at these tokens is known"
        return case.reach >= rank, f"{said}; the least-norm solution has rank {rank}"

    return check


def _realizable(case: Case) -> Verdict:
    if case.sentences is None:
        return None, "give sentences to check it"
    found = realizability(case.sentences) if case.realizable is None else case.realizable
    lacking = (f"{len(found.unclosed)} sentences lack a prefix",) * (not found.closed)
    reasons = (*found.outside, *lacking)
    return not reasons, "; ".join(reasons) or f"{case.sentences.size} sentences agree"


def _orthonormal(case: Case) -> Verdict:
    E = case.embedding
    if E is None:
        return None, "a property of the vocabulary"
    off = float(np.abs(E @ E.T - np.eye(len(E))).max())
    return off <= _RIGHT_ANGLE, f"inner products are within {off:.1e} of those"


def _unchecked(detail: str) -> Callable[[Case], Verdict]:
    return lambda case: (None, detail)


_NEAR = "the start is large and near the limit's direction, at locally optimal tokens"
_REACH = "the factors can reach the limit's rank from their start"
# Those that only spare another one: with one input, equal scores make any start do.
_SPARES = ("any start",)
# key -> (the premise in words, its check)
CHECKS: dict[str, tuple[str, Callable[[Case], Verdict]]] = {
    "linear head": ("the head is linear", _linear_head),
    "decreasing loss": ("the loss decreases strictly with the margin", _loss),
    "one best token": ("each input has one best token", _one_best),
    "separable": ("some matrix selects the best tokens", _separable),
    "any start": ("the other tokens of an input share one score", _equal_others),
    "near start": (_NEAR, _unchecked("a property of the run, not of the data")),
    "near or any start": (_NEAR, _start),
    "small step": ("the step is constant and small", _small_step),
    "no decay": ("weights do not decay", _no_decay),
    "data model": (
        "the tokens come from the theorem's data model",
        _unchecked("nearly orthogonal tokens and suitable queries"),
    ),
    "theorem's steps": (
        "weights and decoder use the theorem's step sizes",
        _unchecked("a property of the run, not of the data"),
    ),
    "full batch": ("Adam runs without eps on full batches", _unchecked("a property of the run")),
    "nuclear rank": (_REACH, _reach("nuclear")),
    "rank": (_REACH, _reach(None)),
    "width": (
        "the factors are at least as wide as the limit's rank",
        _unchecked("a width of min(n, d, dq) always suffices"),
    ),
    "labels": ("each input has a label", _labels),
    "support": ("every best token supports the decoder", _support),
    "label margin": (
        "attention off the best tokens lowers the best label margin in proportion",
        _unchecked("not checked: it speaks of every attention at once"),
    ),
    "realizable": (
        "sentences are closed under prefixes and agree with one strict order for each query, "
        "without confused tokens, and the optimal token occurs at least as often as any "
        "non-optimal one",
        _realizable,
    ),
    "orthonormal": ("the embeddings are orthonormal", _orthonormal),
    "staged": ("W_ov is trained first, and W_kq with it frozen", lambda case: case.staged),
    "steady": (
        "each stage starts at zero and takes normalized steps of one length",
        lambda case: case.steady,
    ),
}


def premise(name: str, case: Case) -> Premise:
    """The premise of this key, checked on the case."""
    words, check = CHECKS[name]
    return Premise(words, *check(case), needed=name not in _SPARES)
