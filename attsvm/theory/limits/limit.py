"""Limits: in which norm a way of training maximizes the margin, and how well that is established.

`Limit.status` is that of a statement under its premises, `Limit.word` what is left of it where they
fail or are not checked. `predict` reads the table, never calls a conjecture a theorem, and checks
on the data those premises that can be checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from attsvm._utils.expected import shown as briefly
from attsvm._utils.result import Table
from attsvm._utils.summary import Summary
from attsvm.errors import Unsupported
from attsvm.next_token.sentences import Sentences
from attsvm.norms import norm_of
from attsvm.problem.tokens import Tokens, checked_tokens
from attsvm.theory.limits.premises import Case, Premise, premise
from attsvm.theory.limits.table import TABLE, Status
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import MODELS as LISTED
from attsvm.training.models import Model, model_of
from attsvm.training.optimizers import RuleLike, optimizer_of

# Models, optimizers without an exponent, and optimizers with one.
MODELS = tuple(dict.fromkeys(model for model, _ in TABLE))
POWERS = ("mirror", "nmirror")
OPTIMIZERS = tuple(r for r in dict.fromkeys(optimizer for _, optimizer in TABLE) if r not in POWERS)

_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")
# ℓ2 mirror descent is gradient descent.
_PLAIN = {"mirror": "gd", "nmirror": "ngd"}
_MARKS = {True: "holds", False: "fails", None: "not checked"}


@dataclass(frozen=True, repr=False)
class Limit(Table):
    """What is known of the limit of a model trained by an optimizer.

    norm: the name of the norm in which the margin becomes largest, None when none is known;
    status: 'proved', 'proved-linear', 'path-only', 'conjectured', 'none' or 'unknown' (an optimizer
    or a model of one's own); references: keys of the bibliography; premises: the conditions, with
    what the data say about them. The status is that of the statement under its premises; `word`
    says what is left of it here, and only where `established` is it a theorem about this run.

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
        "does not apply: premise 'the loss decreases strictly with the margin' fails"
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
            "premises": [
                {"name": p.name, "holds": p.holds, "detail": p.detail, "needed": p.needed}
                for p in self.premises
            ],
        }

    def _card(self) -> Summary:
        said = f"{self.model}, {self.optimizer}: {self.norm or 'no known norm'} ({self.word})"
        facts = {"status": self.status, "statement": self.statement}
        if self.references:
            facts["references"] = ", ".join(self.references)
        shown = {
            "premise": [p.name for p in self.premises],
            "here": [_MARKS[p.holds] for p in self.premises],
            "what the data say": [p.detail for p in self.premises],
        }
        return Summary("Limit", said, facts, shown)

    def __str__(self) -> str:
        first = f"{self.model}, {self.optimizer}: {self.norm or 'no known norm'} ({self.word})"
        cited = " ".join([self.statement, *(f"[{key}]" for key in self.references)])
        listed = [f"  {_MARKS[p.holds]}: {p.name} ({p.detail})" for p in self.premises]
        return "\n".join([first, cited, *listed])


def predict(
    model: str | Model,
    optimizer: RuleLike,
    tokens: Tokens | Sentences | None = None,
    *,
    head: Any = None,
    loss: str | Loss = "logistic",
) -> Limit:
    """The Limit of training this model by this optimizer.

    model: prompt, weight, factored, joint-prompt, joint-weight or next-token. optimizer: gd, ngd,
    polyak, mirror:P, nmirror:P, sign, signum, spectral, muon, adam, or path for the
    regularization path. Of a model or an optimizer of one's own nothing is known, unless the
    optimizer names in `limit` one that it stands for; then that is a conjecture at best.

    With tokens and head (a vector or a Head) the premises that the data decide are checked; for
    the joint models the head only names the best tokens. next-token takes Sentences.

    >>> limit = predict("weight", "mirror:1.75")
    >>> limit.norm, limit.status
    ('l1.75', 'proved')
    >>> predict("factored", "ngd").status
    'conjectured'
    """
    read = tokens if isinstance(tokens, Sentences) else None
    if tokens is not None and read is None:
        checked_tokens(tokens)
    case = Case(None if isinstance(tokens, Sentences) else tokens, head, loss_of(loss), read)
    return predict_case(model, optimizer, case)


def predict_case(model: str | Model, optimizer: RuleLike, case: Case) -> Limit:
    """The Limit of this model and optimizer, its premises checked on a case."""
    name, listed = _model(model)
    said, stands_for = (optimizer, optimizer) if isinstance(optimizer, str) else _named(optimizer)
    if case.sentences is not None and name != "next-token":
        raise Unsupported(f"model {name!r} takes tokens; sentences go with next-token")
    return limit_of(name if listed else None, said, stands_for, case, name=name)


def limit_of(
    model: str | None,
    optimizer: str,
    stands_for: str | None,
    case: Case | None = None,
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
    case = Case(None, None, loss_of("logistic")) if case is None else case
    prompt = _as_prompt(model, case.tokens)
    row = TABLE[prompt or model, family]
    norm = power if row.norm == "lP" else row.norm
    # Every statement is on training without decay; it is worth a word only where there is one.
    keys = (*row.premises, "no decay") if case.decay else row.premises
    premises = tuple(premise(key, case) for key in keys)
    status, statement = row.status, row.statement
    if prompt is not None:
        statement = f"With one query for all inputs the weight is a prompt. {statement}"
    if optimizer != stands_for:
        status = "none" if row.status == "none" else "conjectured"
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


def _named(optimizer: RuleLike) -> tuple[str, str | None]:
    """(the name of an optimizer, that of the listed one it stands for)."""
    made = optimizer_of(optimizer)
    return made.name, made.limit


def _model(model: str | Model) -> tuple[str, bool]:
    """(the name of a model, whether it is one of the table's)."""
    if isinstance(model, Model):
        return model.name, model_of(model) is LISTED.get(model.name)
    if not isinstance(model, str) or model not in MODELS:
        raise Unsupported(f"unknown model {briefly(model)}: known are {', '.join(MODELS)}")
    return model, True


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
    raise Unsupported(f"unknown optimizer {briefly(optimizer)}: known are {known}")
