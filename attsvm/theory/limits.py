"""Limits: in which norm a way of training maximizes the margin, and how well that is established.

`Limit.status` is that of a statement under its premises, `Limit.word` what is left of it where they
fail or are not checked. `predict` reads TABLE, never calls a conjecture a
theorem, and checks on the data those premises that can be checked: every check takes a LimitCase
and gives (holds, detail); holds is None where nothing can be said.

A status speaks about softmax attention trained by that very optimizer:

    proved          a theorem, under the premises of the row
    path-only       a theorem on the regularization path; that the descent follows it is not proved
    proved-linear   a theorem for linear or multiclass models only
    conjectured     derived or tested, not proved; theorems on related cases are named
    measured        a question of this project, answered by runs alone
    none            nothing is established, and no norm is known
    unknown         the optimizer or the model is not in this table

Theory: [tarzanagh2023maxmargin], [tarzanagh2023svm], [vasudeva2024rates], [julistiono2024mirror],
[huang2024nexttoken], [li2024mechanics], [sheen2024flow], [fan2025spectral], [zhang2024adam].
"""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from importlib.resources import files
from itertools import product
from typing import Any, Literal

import numpy as np

from attsvm._utils.arrays import Floats, Ints, rectangular
from attsvm._utils.expected import one_of, shown
from attsvm._utils.result import Summary, Table
from attsvm.certificate import Certificate
from attsvm.errors import BadSelection, ConvergenceWarning, Infeasible, NotConverged, Unsupported
from attsvm.next_token.order import orders
from attsvm.next_token.realizable import Realizability, realizability
from attsvm.next_token.sentences import Sentences
from attsvm.norms import norm_of
from attsvm.problem.selection import Kept, Selection
from attsvm.problem.tokens import Tokens, checked_tokens
from attsvm.solvers.solve import Certificates
from attsvm.solvers.solve_sets import supporting
from attsvm.theory.optima import unequal_scores
from attsvm.training.heads import Head, head_of
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import MODELS as LISTED
from attsvm.training.models import Model, model_of
from attsvm.training.optimizers import RuleLike, optimizer_of

Status = Literal[
    "proved", "proved-linear", "path-only", "conjectured", "measured", "none", "unknown"
]


@dataclass(frozen=True)
class LimitRow:
    """A cell of the table: norm lP stands for the entrywise norm of the optimizer's exponent P."""

    norm: str | None
    status: Status
    statement: str
    references: tuple[str, ...]
    premises: tuple[str, ...]


# The models and the families of optimizers of the table; POWERS have an exponent.
MODELS = (
    *("prompt", "weight", "factored", "joint-prompt", "joint-weight"),
    *("multi-head", "split-heads", "qk-norm", "next-token"),
)
POWERS = ("mirror", "nmirror")
FAMILIES = (
    *("gd", "ngd", "polyak", *POWERS),
    *("sign", "signum", "spectral", "muon", "adam", "path"),
)
OPTIMIZERS = tuple(family for family in FAMILIES if family not in POWERS)


def _read_table() -> dict[tuple[str, str], LimitRow]:
    """The rows of limits.toml by model and family, in the order of these."""
    found: dict[tuple[str, str], LimitRow] = {}
    for row in _DATA["limit"]:
        parts = tuple(row["references"]), tuple(row["premises"])
        made = LimitRow(row.get("norm"), row["status"], row["statement"], *parts)
        found |= dict.fromkeys(product(row["models"], row["optimizers"]), made)
    return {key: found[key] for key in product(MODELS, FAMILIES)}


def _read_special() -> dict[tuple[str, str, str], LimitRow]:
    """The rows that stand in for those of the table in a case: a loss with a target, or the readout
    mass; by case, model and family."""
    found: dict[tuple[str, str, str], LimitRow] = {}
    for row in _DATA["special"]:
        parts = tuple(row["references"]), tuple(row["premises"])
        made = LimitRow(row["norm"], row["status"], row["statement"], *parts)
        found |= dict.fromkeys(product([row["case"]], row["models"], row["optimizers"]), made)
    return found


_DATA = tomllib.loads(files("attsvm.theory").joinpath("limits.toml").read_text("utf-8"))
TABLE = _read_table()
SPECIAL = _read_special()
PREMISES = tuple(_DATA["premises"])

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
class LimitCase:
    """The data that premises are checked on, and what is known of the run.

    loss: None where it is an object that was not given. selected: the token of each input that the
    run selects (n,). reach: the largest rank that the product of the factors can have, `reach_of`
    their start. trained: the head was trained, and names the
    best tokens as it stands. embedding: that of the sentences;
    realizable: what is known of them already; staged: (whether W_ov was trained before W_kq, what
    shows it). readout: that of the sentences. schedule, decay: of the steps, None where nothing is
    known of them.
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
    readout: str = "softmax"
    schedule: str | None = None
    decay: float | None = None

    @property
    def special(self) -> str:
        """The case that has rows of its own: "target", "mass", or "" for none."""
        if self.loss is not None and np.isfinite(self.loss.best):
            return "target"
        return "mass" if self.readout == "mass" else ""

    @cached_property
    def read(self) -> Head | None:
        """The head; a bare vector is the linear one."""
        if self.head is None or isinstance(self.head, Head):
            return self.head
        if self.tokens is not None:
            return head_of(self.head, self.tokens.d)
        return head_of(self.head, int((0, *rectangular(self.head, "the head").shape)[-1]))

    @cached_property
    def vector(self) -> Floats | None:
        """v (d,) of one linear head; None for any other."""
        head = self.read
        v = None if head is None else head.vector
        return v[0] if v is not None and len(v) == 1 else None

    @cached_property
    def best(self) -> Selection | str | None:
        """The best tokens under the head; a sentence where two share the highest score."""
        if self.tokens is None or self.vector is None:
            return None
        try:
            return Selection.best(self.tokens, self.vector)
        except BadSelection as error:
            return str(error)

    @cached_property
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


def _linear_head(case: LimitCase) -> Verdict:
    if case.read is None:
        return None, "give the head to check it"
    return case.read.linear, f"the head is {case.read.name}"


def _loss(case: LimitCase) -> Verdict:
    if case.loss is None:
        return None, "the loss is an object that was not given"
    return case.loss.best == np.inf, f"the loss is {case.loss.name}"


def _one_best(case: LimitCase) -> Verdict:
    if case.best is None:
        return _NO_TOKENS
    if isinstance(case.best, str):
        return False, case.best
    by = " under the trained decoder" if case.trained else ""
    return True, f"each input has one token of highest score{by}"


def _separable(case: LimitCase) -> Verdict:
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


def _equal_others(case: LimitCase) -> Verdict:
    tokens, best = case.tokens, case.best
    if tokens is None or not isinstance(best, Selection):
        return _NO_TOKENS
    first, wrong = unequal_scores(tokens, best, case.vector)
    if wrong.any():
        i, t = (int(k) for k in np.argwhere(wrong)[0])
        detail = f"tokens {int(first[i])} and {t} of input {i} differ in score: the start decides"
        return False, detail
    if tokens.n == 1:
        return True, "then any start will do"
    return True, "then most starts will do; far ones can hold to the solution of fewer inputs"


def _start(case: LimitCase) -> Verdict:
    """Near the limit's direction, or anywhere where one input's other tokens share one score."""
    if case.tokens is not None and case.tokens.n == 1 and _equal_others(case)[0]:
        return True, "any start will do: there is one input, whose other tokens share one score"
    return None, "a property of the run, not of the data"


def _labels(case: LimitCase) -> Verdict:
    if case.tokens is None:
        return None, "give tokens to check it"
    if case.tokens.labels is None:
        return False, "labels are missing"
    return True, "each input has a label"


def _support(case: LimitCase) -> Verdict:
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


def _small_step(case: LimitCase) -> Verdict:
    if case.schedule not in (None, "constant"):
        return False, f"the schedule is {case.schedule}"
    return None, "at most one over the gradient's Lipschitz constant"


def _no_decay(case: LimitCase) -> Verdict:
    if case.decay is None:
        return None, "a property of the run"
    return case.decay == 0, f"the decay is {case.decay:g}; any keeps the norm from growing"


def reach_of(K: Floats, Q: Floats) -> int:
    """The largest rank of K Qᵀ in a run from these factors.

    Steps along the gradients (G Q, Gᵀ K), normalized or orthogonalized, with decay or momentum,
    keep every vector c with K c = 0 and Q c = 0: equal columns stay equal.
    """
    return min(int(np.linalg.matrix_rank(np.concatenate([K, Q]))), len(K), len(Q))


def _reach(norm: str | None) -> Callable[[LimitCase], Verdict]:
    """Compares with the rank of the solution at the tokens that the run selects, else at the best.

    norm None: solutions of many ranks.
    """

    def check(case: LimitCase) -> Verdict:
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


def _realizable(case: LimitCase) -> Verdict:
    if case.sentences is None:
        return None, "give sentences to check it"
    found = realizability(case.sentences) if case.realizable is None else case.realizable
    lacking = (f"{len(found.unclosed)} sentences lack a prefix",) * (not found.closed)
    reasons = (*found.outside, *lacking)
    return not reasons, "; ".join(reasons) or f"{case.sentences.size} sentences agree"


def _orthonormal(case: LimitCase) -> Verdict:
    E = case.embedding
    if E is None:
        return None, "a property of the vocabulary"
    off = float(np.abs(E @ E.T - np.eye(len(E))).max())
    return off <= _RIGHT_ANGLE, f"inner products are within {off:.1e} of those"


# The margin of an input whose token attains the target, beside 1 of the others.
_HALF = 0.5


def _target(case: LimitCase) -> Verdict:
    if case.tokens is None or case.vector is None or case.loss is None:
        return _NO_TOKENS
    y = 1.0 if case.tokens.labels is None else case.tokens.labels[:, None]
    beyond = (y * case.tokens.scores(case.vector) > case.loss.best) & case.tokens.present()
    if beyond.any():
        i, t = (int(k) for k in np.argwhere(beyond)[0])
        return False, f"token {t} of input {i} is: attention mixes tokens there"
    need = margins_needed(case, case.best if case.selected is None else case.selected)
    at = [] if need is None else np.flatnonzero(need == _HALF).tolist()
    return True, f"inputs {at} attain it: margins of ½ there, of 1 elsewhere"


def margins_needed(case: LimitCase, keep: Kept | str | None) -> Floats | None:
    """The margin (n,) that each input needs at these tokens: ½ where the value attains the target
    of the loss, so that its slope vanishes with the margin; None for a loss without one."""
    tokens, v = case.tokens, case.vector
    if case.special != "target" or tokens is None or v is None or case.loss is None:
        return None
    if keep is None or isinstance(keep, str) or tokens.labels is None:
        return None
    kept = Selection.of(tokens, keep).indices[:, None]
    own = tokens.labels * np.take_along_axis(tokens.scores(v), kept, axis=1)[:, 0]
    return np.where(own == case.loss.best, _HALF, 1.0)


def _independent(case: LimitCase) -> Verdict:
    E = case.embedding
    if E is None:
        return None, "a property of the vocabulary"
    rank = int(np.linalg.matrix_rank(E))
    return rank == len(E), f"{len(E)} embeddings of rank {rank}"


def _followed(case: LimitCase) -> Verdict:
    if case.sentences is None:
        return None, "give sentences to check it"
    wrong = np.flatnonzero(case.sentences.right.sum(axis=1) != 1)
    if len(wrong):
        return False, f"not so in {len(wrong)} of {case.sentences.size} sentences"
    return True, f"so in all {case.sentences.size} sentences"


def _edges(case: LimitCase) -> Verdict:
    if case.sentences is None:
        return None, "give sentences to check it"
    every = orders(case.sentences).values()
    count = sum(len(order.covers[0]) for order in every if len(order.tokens))
    if not count:
        return False, "every edge is on a cycle: W tends to a finite limit"
    return True, f"{count} covering edges between components"


# The checks of premises; of the others `_DATA["unchecked"]` has what is said.
CHECKS: dict[str, Callable[[LimitCase], Verdict]] = {
    "linear head": _linear_head,
    "decreasing loss": _loss,
    "one best token": _one_best,
    "separable": _separable,
    "any start": _equal_others,
    "near or any start": _start,
    "small step": _small_step,
    "no decay": _no_decay,
    "nuclear rank": _reach("nuclear"),
    "rank": _reach(None),
    "labels": _labels,
    "support": _support,
    "realizable": _realizable,
    "orthonormal": _orthonormal,
    "target": _target,
    "independent": _independent,
    "followed": _followed,
    "edges": _edges,
    "staged": lambda case: case.staged,
    "steady": lambda case: case.steady,
}
# Those that only spare another one: with one input, equal scores make any start do.
_SPARES = ("any start",)


def premise(name: str, case: LimitCase) -> Premise:
    """The premise of this key, checked on the case."""
    check = CHECKS.get(name)
    holds, detail = (None, _DATA["unchecked"][name]) if check is None else check(case)
    return Premise(_DATA["premises"][name], holds, detail, needed=name not in _SPARES)


_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")
# ℓ2 mirror descent is gradient descent.
_PLAIN = {"mirror": "gd", "nmirror": "ngd"}
_MARKS = {True: "holds", False: "fails", None: "not checked"}


@dataclass(frozen=True, repr=False)
class Limit(Table):
    """What is known of the limit of a model trained by an optimizer.

    norm: the name of the norm in which the margin becomes largest, None when none is known;
    status: 'proved', 'proved-linear', 'path-only', 'conjectured', 'measured', 'none' or 'unknown'
    (a custom optimizer or model); references: keys of the bibliography; premises: the conditions,
    with what the data say about them. The status is that of the statement under its premises;
    `word` says what is left of it here, and only where `established` is it a theorem about this
    run.

    >>> limit = predict("weight", "sign")
    >>> limit.norm, limit.status, limit.references
    ('max', 'conjectured', ('fan2025spectral',))
    """

    model: str
    optimizer: str
    norm: str | None
    status: Status
    statement: str
    references: tuple[str, ...]
    premises: tuple[Premise, ...]

    @property
    def failing(self) -> tuple[Premise, ...]:
        """The needed premises that fail here."""
        return tuple(p for p in self.premises if p.needed and p.holds is False)

    @property
    def unchecked(self) -> tuple[Premise, ...]:
        """The needed premises that were not checked, or could not be."""
        return tuple(p for p in self.premises if p.needed and p.holds is None)

    @property
    def established(self) -> bool:
        """Whether the limit is a theorem whose premises have all been found to hold."""
        return self.status == "proved" and not self.failing and not self.unchecked

    @property
    def word(self) -> str:
        """The status here: with the premises that fail, or else those a theorem waits for.

        >>> predict("weight", "gd", head=[1.0], loss="squared").word
        'conjectured'
        >>> predict("next-token", "path").word
        'conjectured'
        """
        theorem = self.status in ("proved", "path-only", "proved-linear")
        if self.failing and self.status not in ("none", "unknown"):
            names = ", ".join(f"'{p.name}'" for p in self.failing)
            said = f"premise {names} fails" if len(self.failing) == 1 else f"premises {names} fail"
            said = f"does not apply: {said}" if theorem else said
            return said if self.status == "proved" else f"{self.status}; {said}"
        if theorem and self.unchecked:
            return f"{self.status} if: {'; '.join(p.name for p in self.unchecked)}"
        return self.status

    def columns(self) -> dict[str, Any]:
        """A row per premise: its name, whether it holds (None: not checked), whether the statement
        needs it, and what the data say."""
        return {
            "premise": [p.name for p in self.premises],
            "holds": [p.holds for p in self.premises],
            "needed": [p.needed for p in self.premises],
            "detail": [p.detail for p in self.premises],
        }

    def to_dict(self) -> dict[str, Any]:
        """The limit as plain data for JSON: its status, what is left of it here, and why."""
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "norm": self.norm,
            "status": self.status,
            "established": self.established,
            "word": self.word,
            "premises": [asdict(p) for p in self.premises],
        }

    def _card(self) -> Summary:
        facts = {"status": self.status, "statement": self.statement}
        if self.references:
            facts["references"] = ", ".join(self.references)
        rows = self.columns()
        table = {
            "premise": rows["premise"],
            "here": [_MARKS[holds] for holds in rows["holds"]],
            "what the data say": rows["detail"],
        }
        said = f"{self.model}, {self.optimizer}: {self.norm or 'no known norm'} ({self.word})"
        return Summary("Limit", said, facts, table)


def predict(
    model: str | Model,
    optimizer: RuleLike,
    tokens: Tokens | Sentences | None = None,
    *,
    head: Any = None,
    loss: str | Loss = "logistic",
    readout: str = "softmax",
) -> Limit:
    """Predict the limit of training a model by an optimizer.

    Parameters
    ----------
    model : str or Model
        prompt, weight, factored, joint-prompt, joint-weight, multi-head, split-heads, qk-norm or
        next-token.
    optimizer : str or Optimizer
        gd, ngd, polyak, mirror:P, nmirror:P, sign, signum, spectral, muon, adam, or path for the
        regularization path. Nothing is known of a custom model or optimizer, unless the optimizer
        names in `limit` a listed one that it stands for; then the limit is a conjecture at best.
    tokens : Tokens or Sentences, optional
        With tokens and head the premises that the data decide are checked. next-token takes
        Sentences.
    head : array (d,) or Head, optional
        The prediction head; for the joint models it only names the best tokens.
    loss : str or Loss, default: "logistic"
        Of a loss with a target, such as "squared", weights and prompts have a limit of their own.
    readout : {"softmax", "mass"}
        Of next-token: that of a decoder's output, or the attention on tokens that the label
        follows.

    Returns
    -------
    Limit

    Examples
    --------
    >>> limit = predict("weight", "mirror:1.75")
    >>> limit.norm, limit.status
    ('l1.75', 'proved')
    >>> predict("factored", "ngd").status
    'conjectured'
    """
    read = tokens if isinstance(tokens, Sentences) else None
    if tokens is not None and read is None:
        checked_tokens(tokens)
    one_of(readout, ("softmax", "mass"), "readout")
    given = None if isinstance(tokens, Sentences) else tokens
    case = LimitCase(given, head, loss_of(loss), read, readout=readout)
    return predict_case(model, optimizer, case)


def predict_case(model: str | Model, optimizer: RuleLike, case: LimitCase) -> Limit:
    """The Limit of this model and optimizer, its premises checked on a case."""
    if isinstance(model, Model):
        name, listed = model.name, model_of(model) is LISTED.get(model.name)
    elif isinstance(model, str) and model in MODELS:
        name, listed = model, True
    else:
        raise Unsupported(f"unknown model {shown(model)}: known are {', '.join(MODELS)}")
    if isinstance(optimizer, str):
        said: str = optimizer
        stands_for: str | None = optimizer
    else:
        made = optimizer_of(optimizer)
        said, stands_for = made.name, made.limit
    if case.sentences is not None and name != "next-token":
        raise Unsupported(f"model {name!r} takes tokens; sentences go with next-token")
    return limit_of(name if listed else None, said, stands_for, case, name=name)


def limit_of(
    model: str | None,
    optimizer: str,
    stands_for: str | None,
    case: LimitCase | None = None,
    *,
    name: str,
) -> Limit:
    """The Limit of a run: model None for one that is not listed, then called `name`.

    stands_for: the listed optimizer that the optimizer is, or says that it stands for; None for
    none.
    """
    if model is None or stands_for is None:
        what = f"model {name!r}" if model is None else f"optimizer {optimizer!r}"
        said = f"Nothing is known of {what}: it is not in the table of limits."
        return Limit(name, optimizer, None, "unknown", said, (), ())
    family, power = _family(stands_for)
    case = LimitCase(None, None, loss_of("logistic")) if case is None else case
    prompt = _as_prompt(model, case.tokens)
    row = SPECIAL.get((case.special, prompt or model, family), TABLE[prompt or model, family])
    norm = power if row.norm == "lP" else row.norm
    # Every statement is on training without decay; it is named only where there is one.
    keys = (*row.premises, "no decay") if case.decay else row.premises
    premises = tuple(premise(key, case) for key in keys)
    status, statement = row.status, row.statement
    if prompt is not None:
        statement = f"With one query for all inputs the weight is a prompt. {statement}"
    if optimizer != stands_for:
        status = row.status if row.status in ("none", "measured") else "conjectured"
        statement = (
            f"Optimizer {optimizer} declares the geometry of {stands_for}, of which is known: "
            f"{statement}"
        )
    return Limit(name, optimizer, norm, status, statement, row.references, premises)


def _as_prompt(model: str, tokens: Tokens | None) -> str | None:
    """The prompt model that a model of the weight is on these tokens; None where it is none.

    With one query z for all inputs W acts by W z alone, and with queries of width one it is p.
    """
    if tokens is None or model not in ("weight", "joint-weight"):
        return None
    z = tokens.queries
    return model.replace("weight", "prompt") if z.shape[1] == 1 or (z == z[0]).all() else None


def _family(optimizer: str) -> tuple[str, str | None]:
    """The optimizer family and, for mirror descent, the name of its norm."""
    name, colon, exponent = str(optimizer).partition(":")
    if name in OPTIMIZERS and not colon:
        return name, None
    if name in POWERS and _NUMBER.fullmatch(exponent) and (p := Fraction(exponent)) > 1:
        if p == 2:
            return _PLAIN[name], None
        text = exponent.rstrip("0").rstrip(".") if "." in exponent else exponent
        return name, norm_of(f"l{text}").name
    known = ", ".join([*OPTIMIZERS, *(f"{power}:P with a number P > 1" for power in POWERS)])
    raise Unsupported(f"unknown optimizer {shown(optimizer)}: known are {known}")
