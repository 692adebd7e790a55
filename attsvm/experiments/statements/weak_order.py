"""Known to be false with confused tokens, which D excludes: kinds are never reversed."""

from __future__ import annotations

from attsvm.experiments.statements.parts.sentence_orders import (
    LINES,
    SPACE,
    confirm_fall,
    largest_fall,
    realizable,
)
from attsvm.experiments.statements.statement import Confirmation, Instance, Statement


def violation(one: Instance) -> float:
    """By how much a token of a kind below stands over one of a kind above."""
    return largest_fall(one)


def confirm(one: Instance) -> Confirmation:
    """The column in rationals."""
    return confirm_fall(one, ties=False)


STATEMENT = Statement(
    "weak-order",
    title="Kinds of tokens are never reversed",
    says="Also with confused tokens, which the premises of D exclude, the solution of the "
    "attention ranks no token of a kind below over one of a kind above: optimal, then confused "
    "and non-comparable, then non-optimal (a question of ours).",
    kind="false",
    space=SPACE,
    premises=realizable,
    violation=violation,
    confirm=confirm,
    claims=("D.confused-tokens",),
    lines=LINES,
    proves="the column in rationals",
)
