"""D, proved: without confused tokens the kinds of tokens are ordered strictly."""

from __future__ import annotations

from attsvm.experiments.statements.parts.sentence_orders import (
    LINES,
    SPACE,
    confirm_fall,
    largest_fall,
    unconfused,
)
from attsvm.experiments.statements.statement import Confirmation, Instance, Statement


def violation(one: Instance) -> float:
    """By how much a kind below reaches one above; a tie counts, so 1e-6 is added."""
    return largest_fall(one) + 1e-6


def confirm(one: Instance) -> Confirmation:
    """The column in rationals."""
    return confirm_fall(one, ties=True)


STATEMENT = Statement(
    "strict-order",
    title="Kinds of tokens are ordered strictly",
    says="Without confused tokens the column of a query is above 0 at optimal, 0 at non-comparable "
    "and below 0 at non-optimal tokens (D).",
    kind="theorem",
    space=SPACE,
    premises=unconfused,
    violation=violation,
    confirm=confirm,
    claims=("D.star-orders",),
    lines=LINES,
    proves="the column in rationals",
)
